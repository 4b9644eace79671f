"""Noise that can be replayed: the released figures of one world are those of another, to the last bit.

World A draws repeatable noise on the grid and keeps what it released. In world B the noise is ``noise of A + sum of A -
sum of B``: exact, since all of it is on the grid. Whatever else others see must then be equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.batch_pair import Noisy, Scales
from quietshelf.privacy.release.noise import GRID, DiscreteGaussian, NoiseSource
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import OUTCOME_SENSITIVITY, SENSITIVITY, Total, svec_weights
from quietshelf.serving.service.releases import steps
from quietshelf.serving.service.releases.steps import Charged
from quietshelf.serving.shelf.state import Slots


class Tape(DiscreteGaussian):
    """A source on the grid that is told each sum before it draws.

    Attributes:
        totals: The sums: score, information and, where arms are compared, outcomes, in turn.
        heard: Of each release the place of its first sum, how many it has, and its bound.
        released: The noisy sums, in the same order.
        members: What was released so far, by names that are used once: batches of a service, offers of a shelf.
        after_draw: Called once a release is drawn: a crash, perhaps.
    """

    def __init__(self, seed: int, replayed: Tape | None = None) -> None:
        super().__init__(GRID)
        self._rng, self._replayed = np.random.default_rng(seed), replayed
        self._waiting: list[FloatArray] = []
        self.totals: list[FloatArray] = []
        self.heard: list[tuple[int, int, FloatArray]] = []
        self.released: list[FloatArray] = []
        self.members: list[Any] = []
        self.after_draw: Callable[[], None] = lambda: None

    def hear(self, total: Total, bound: FloatArray | float) -> None:
        """The sums that the next draws are added to."""
        self._waiting = [total.score, total.information, *([total.outcomes] if total.outcomes.size else [])]
        self.heard.append((len(self.totals), len(self._waiting), np.asarray(bound)))

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        """New noise; or in a replay, what takes this world's sum to the other's release."""
        return self._noise(np.asarray(scale), np.asarray(self.grid), size)

    def information(self, scales: Scales, size: int, shape: tuple[int, ...]) -> FloatArray:
        """The same for an information, on a grid of its own in each replicate."""
        scale, unit = (np.asarray(each)[..., None] for each in (scales.information, self.units(scales, size)))
        weights = svec_weights(shape[-1])
        return self._noise(scale / weights, unit, (*shape[:-1], weights.size))

    def units(self, scales: Scales, size: int) -> FloatArray:
        """The grid of informations."""
        return np.asarray(batch_pair.grids(scales, size, self.grid).rows) ** 2

    def _noise(self, scale: FloatArray, unit: FloatArray, size: tuple[int, ...]) -> FloatArray:
        total = self._waiting.pop(0)
        if self._replayed is None:
            noise = np.asarray(np.rint(self._rng.normal(scale=scale / unit, size=size)) * unit)
        else:
            noise = self._replayed.released[len(self.released)] - total
        self.totals.append(total)
        self.released.append(total + noise)
        if not self._waiting:
            self.after_draw()
        return noise

    def excess(self, other: Tape) -> list[str]:
        """Sums that differ between two worlds by more than one visitor can move them."""
        found = []
        if len(self.totals) != len(other.totals):
            return [f"{len(self.heard)} releases in one world, {len(other.heard)} in the other"]
        for place, (start, parts, bound) in enumerate(self.heard):
            mine = slice(start, start + parts)
            moves = [a - b for a, b in zip(self.totals[mine], other.totals[mine], strict=True)]
            if len(moves) < parts:  # a machine stopped in the middle
                continue
            score, information, *sold = moves
            for each in sold:
                if float(np.linalg.norm(each)) > OUTCOME_SENSITIVITY:
                    found.append(f"outcomes of release {place} moved by {each}")
            most, informed = SENSITIVITY, information * svec_weights(score.shape[-1])
            lengths = np.linalg.norm(score, axis=-1) / math.sqrt(2), np.linalg.norm(informed, axis=-1) / bound
            moved = float(np.linalg.norm(np.hypot(*lengths)))  # over replicates: the target is in one of them
            if moved > most:
                found.append(f"release {place} moved by {moved:.3f}, the sensitivity is {most:.3f}")
        return found


@contextmanager
def taping() -> Iterator[None]:
    """Let tapes hear the sums that are released, and whose they are."""
    release, draw, finished = batch_pair.release, steps.draw, Slots.finished
    drawn, whose = batch_pair._information_noise, list[Any]()

    def heard(total: Total, *, scales: Scales, size: int, source: NoiseSource) -> Noisy:
        if isinstance(source, Tape):
            source.hear(total, scales.bound)
            source.members += whose
        return release(total, scales=scales, size=size, source=source)

    def stretched(scales: Scales, size: int, shape: tuple[int, ...], source: NoiseSource) -> FloatArray:
        if isinstance(source, Tape):
            return source.information(scales, size, shape)
        return drawn(scales, size, shape, source)

    def of_service(charged: Charged, source: NoiseSource) -> Learner:
        whose[:] = [charged.place[1]]
        return draw(charged, source)

    def of_shelf(slots: Slots, on_no_answer: str) -> Total:
        whose[:] = slots.kept
        return finished(slots, on_no_answer)

    with (
        mock.patch.object(batch_pair, "release", heard),
        mock.patch.object(batch_pair, "_information_noise", stretched),
        mock.patch.object(steps, "draw", of_service),
        mock.patch.object(Slots, "finished", of_shelf),
    ):
        yield


def bits(arrays: list[FloatArray]) -> list[Any]:
    """Arrays as bytes, to be compared to the last bit; minus zero is zero."""
    return [(each.shape, (each + 0.0).tobytes()) for each in arrays]
