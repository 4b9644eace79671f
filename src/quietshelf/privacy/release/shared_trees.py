"""Several trees over the same rounds, for contestants in a simulation that are compared with the same noise.

This is no mechanism of its own: each tree releases, to the last bit, what it would release alone. The numbers that all
of them would draw are drawn once and scaled by each tree's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from quietshelf.model.types import FloatArray, require
from quietshelf.privacy.release.tree import Law, Tree
from quietshelf.privacy.statistics import interleaved, svec_dim


@dataclass(frozen=True, kw_only=True)
class Trees(Tree):
    """Trees that differ only in their laws; they are the first leading axis of states and sums.

    Attributes:
        laws: One law per tree.
    """

    laws: tuple[Law, ...]

    @cached_property
    def _scales(self) -> FloatArray:
        """Standard deviation of every svec coordinate, (C, D)."""
        diagonal, off = np.array(self.laws).T[..., None]
        others = svec_dim(self.dim) - self.dim
        return interleaved(np.repeat(diagonal, self.dim, axis=-1), np.repeat(off, others, axis=-1))

    def _draw(self, lead: tuple[int, ...]) -> FloatArray:
        worlds, others = lead[1:], svec_dim(self.dim) - self.dim
        unit = interleaved(self.source.draw(1.0, (*worlds, self.dim)), self.source.draw(1.0, (*worlds, others)))
        return self._scales.reshape(-1, *[1] * len(worlds), svec_dim(self.dim)) * unit


def together(trees: Sequence[Tree]) -> Trees:
    """Merge trees whose sources would draw the same numbers; the first tree's source is used."""
    first = trees[0]
    alike = all(_sizes(each) == _sizes(first) for each in trees)
    require(alike, "trees that are taken together must be alike but for their laws")
    require(first.source.grid == 0, "trees that are taken together need continuous noise", grid=first.source.grid)
    own = {field.name: getattr(first, field.name) for field in fields(first)}
    return Trees(**own, laws=tuple(each.law for each in trees))


def _sizes(one: Tree) -> tuple[int, int, int, bool]:
    return one.horizon, one.dim, one.capacity, one.bounded
