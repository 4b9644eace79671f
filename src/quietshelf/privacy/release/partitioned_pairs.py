"""The sums of `quiet` over a log in partitions: bounded pairs of everybody who counts, at a released theta.

Releases: nothing. `release.private_newton` adds the noise, once, in the process that asked, when the sums
    are complete: a worker that dies and whose partition is done again draws nothing.
Sensitivity: that of the pair, each person being in one round of one partition. With noise on a grid every term is a
    multiple of it, so the sums are exact, whatever the partitions are and in whichever order they are added.
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
    """The contributors of a log in partitions: persons, each with one round, or all rounds if it knows no persons."""

    log: PartitionedLog

    def __post_init__(self) -> None:
        once = not self.log.persons or all(part.counted is not None for part in self.log.partitions)
        require(once, "of each person one round must count: survey the log with exact=False")

    @property
    def size(self) -> int:
        """How many."""
        return self.log.rounds

    def total(self, theta: FloatArray, frame: FloatArray, grids: Grids) -> tuple[Total, float]:
        """The sums of pairs and of squared lengths of scores: one pass over the files."""
        total, squares = nothing((), theta.size), 0.0
        for part, square in self.log.map(partial(pairs_of, form=self.log.form, theta=theta, frame=frame, grids=grids)):
            total, squares = total + part, squares + square
        return total, squares


def pairs_of(
    partition: Partition, *, form: Form, theta: FloatArray, frame: FloatArray, grids: Grids
) -> tuple[Total, float]:
    """The sums of one partition."""
    total, squares = nothing((), theta.size), 0.0
    for features, choice, available in rounds(partition, form):
        part, square = InMemory(ObservedChoice(features, available, choice)).total(theta, frame, grids)
        total, squares = total + part, squares + square
    return total, squares
