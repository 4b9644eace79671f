"""A surveyed log in partitions: sums over all of it, computed partition by partition and added in their order.

The result is the same to the last bit however many workers there are, and even if some of them die.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from quietshelf.data.logs.encoded import feature_names
from quietshelf.data.logs.partitions import Form, Partition, rounds
from quietshelf.model.choice.dense import Data
from quietshelf.model.choice.sums import Sums
from quietshelf.model.types import FloatArray

Part = TypeVar("Part")
T = TypeVar("T")
Report = Callable[[int, int], None]
"""Called with the rows read in this pass, and their total."""


class Executor(Protocol):
    """Runs a job on every part of a list; answers come in the order of the parts."""

    def __call__(self, job: Callable[[Part], T], parts: Sequence[Part], /) -> Iterator[T]:
        """The answers."""


def serial(job: Callable[[Part], T], parts: Sequence[Part], /) -> Iterator[T]:
    """One part after the other, in this process."""
    return map(job, parts)


def watched(
    executor: Executor, job: Callable[[Partition], T], parts: Sequence[Partition], report: Report | None
) -> Iterator[T]:
    """The executor's answers, reporting the rows done."""
    done, total = 0, sum(part.rows for part in parts)
    for part, found in zip(parts, executor(job, parts), strict=True):
        done += part.rows
        if report is not None and part.rows:  # a part without rows would look like the next pass
            report(done, total)
        yield found


@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionedLog:
    """A log as `choice.fitting.fit_sums` and a private fit need it; made by `logs.survey`.

    Attributes:
        partitions: Its files, with the rounds that count.
        form: How files become rounds.
        visitor_names: Names of the visitor features.
        item_names: Names of the item features.
        rounds: Number of rounds that count, n.
        persons: Whether the log has person ids.
        largest: The largest absolute entry of x; 0 unless the fit is exact.
        root: R of the QR decomposition of all rows shown; None unless the fit is exact.
        executor: Runs the work.
        report: Receives progress.
    """

    partitions: tuple[Partition, ...]
    form: Form
    visitor_names: tuple[str, ...]
    item_names: tuple[str, ...]
    rounds: int
    persons: bool
    largest: float = 0.0
    root: FloatArray | None = None
    executor: Executor = serial
    report: Report | None = None

    @property
    def names(self) -> list[str]:
        """Names of the d features."""
        return feature_names(self.form.feature_map, self.visitor_names, self.item_names)

    def map(self, job: Callable[[Partition], T]) -> Iterator[T]:
        """Run a job on all partitions, in their order: one pass over the files."""
        return watched(self.executor, job, self.partitions, self.report)

    def sums(self, theta: FloatArray) -> Sums:
        """Log-likelihood, gradient and information of all rounds at theta, (d,)."""
        return _added(self.map(partial(sums_of, form=self.form, theta=theta)), theta.size)


def sums_of(partition: Partition, *, form: Form, theta: FloatArray) -> Sums:
    """The sums of one partition."""
    return _added((Data(*some, outside=True).sums(theta) for some in rounds(partition, form)), theta.size)


def _added(parts: Iterable[Sums], dim: int) -> Sums:
    total = Sums(np.zeros(()), np.zeros(dim), np.zeros((dim, dim)))
    for part in parts:
        total = Sums(*(one + other for one, other in zip(total, part, strict=True)))
    return total
