"""The sums of `quiet` over a log in partitions: bounded pairs of everyone who counts, at a released theta.

Releases: nothing. `release.private_newton` adds the noise, once, in the calling process, when the sums are complete: a
    worker that dies and whose partition is redone draws no noise.
Sensitivity: that of the pair, each person being in one round of one partition. With noise on a grid every term is a
    multiple of it, so the sums are exact for any partitions added in any order.
Reference: docs/proofs.md, section 18.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from quietshelf.data.logs.partitioned import PartitionedLog
from quietshelf.data.logs.partitions import Form, Partition, rounds
from quietshelf.model.types import FloatArray, require
from quietshelf.privacy.release.private_newton import InMemory
from quietshelf.privacy.statistics import Grids, ObservedChoice, Total, nothing


@dataclass(frozen=True, eq=False)
class PartitionedPairs:
    """The contributors of a log in partitions: one round per person, or all rounds if the log has no persons."""

    log: PartitionedLog

    def __post_init__(self) -> None:
        once = not self.log.persons or all(part.counted is not None for part in self.log.partitions)
        require(once, "one round of each person must count: survey the log with exact=False")

    @property
    def size(self) -> int:
        """The number of contributors."""
        return self.log.rounds

    def total(self, theta: FloatArray, frame: FloatArray, grids: Grids) -> tuple[Total, float]:
        """Sum the pairs and the squared lengths of scores, in one pass over the files."""
        total, squares = nothing((), theta.size), 0.0
        for part, square in self.log.map(partial(pairs_of, form=self.log.form, theta=theta, frame=frame, grids=grids)):
            total, squares = total + part, squares + square
        return total, squares


def pairs_of(
    partition: Partition, *, form: Form, theta: FloatArray, frame: FloatArray, grids: Grids
) -> tuple[Total, float]:
    """Sum one partition."""
    total, squares = nothing((), theta.size), 0.0
    for features, choice, available in rounds(partition, form):
        part, square = InMemory(ObservedChoice(features, available, choice)).total(theta, frame, grids)
        total, squares = total + part, squares + square
    return total, squares
