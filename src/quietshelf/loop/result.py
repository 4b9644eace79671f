"""What a simulation yields: rows, and what they cost to make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.types import FloatArray


@dataclass(frozen=True, slots=True)
class Row:
    """How much one contestant had lost in one replicate after t visitors."""

    label: str
    replicate: int
    t: int
    regret: float


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome of a simulation; iterating over it gives its rows, by contestant, replicate and time.

    Attributes:
        horizon: Visitors of each replicate.
        times: Checkpoints, numbers of visitors, ascending; the last is the horizon.
        regret: Cumulative regret of each contestant, (replicates, checkpoints).
        ledgers: What each contestant's curators had released at the end: their distinct ledgers, none for curators that
            keep none. Curators of parallel replicates that release on a public schedule all have the same one.
        seconds: Time each contestant took to decide and learn, over all replicates.
        world_seconds: Time the world took.
    """

    horizon: int
    times: tuple[int, ...]
    regret: Mapping[str, FloatArray]
    ledgers: Mapping[str, tuple[Ledger, ...]]
    seconds: Mapping[str, float]
    world_seconds: float

    @property
    def labels(self) -> tuple[str, ...]:
        """The contestants, in the order given."""
        return tuple(self.regret)

    @property
    def replicates(self) -> int:
        """How many worlds were run."""
        return len(next(iter(self.regret.values())))

    def proven_rho(self, label: str) -> float:
        """What a contestant's dearest ledger proves; infinity for one that keeps none."""
        return max((ledger.rho for ledger in self.ledgers[label]), default=math.inf)

    def __iter__(self) -> Iterator[Row]:
        for label, regret in self.regret.items():
            for replicate, path in enumerate(regret.tolist()):
                for t, lost in zip(self.times, path, strict=True):
                    yield Row(label, replicate, t, lost)

    def __len__(self) -> int:
        return len(self.regret) * self.replicates * len(self.times)


@dataclass(frozen=True, slots=True)
class Summary:
    """One contestant's line in a table.

    Attributes:
        label: The contestant.
        mean: Mean regret at the horizon.
        standard_error: Of that mean, over replicates; NaN for a single one.
        seconds_per_round: To decide and learn, one visitor of one replicate.
    """

    label: str
    mean: float
    standard_error: float
    seconds_per_round: float


def summary(result: Result) -> list[Summary]:
    """One line a contestant, in the order given."""
    count = result.replicates
    lines = []
    for label, regret in result.regret.items():
        final = regret[:, -1]
        pace = result.seconds[label] / (count * result.horizon)
        lines.append(Summary(label, float(final.mean()), float(standard_error(final)), pace))
    return lines


def standard_error(samples: FloatArray) -> FloatArray:
    """Of the mean over the first axis; NaN for a single sample."""
    if len(samples) < 2:
        return np.full(samples.shape[1:], math.nan)
    return np.asarray(samples.std(axis=0, ddof=1) / math.sqrt(len(samples)))


def merge(parts: list[Result]) -> Result:
    """One result of the same contest's consecutive groups of replicates."""
    first = parts[0]
    return Result(
        first.horizon,
        first.times,
        {label: np.concatenate([part.regret[label] for part in parts]) for label in first.labels},
        {label: _distinct([ledger for part in parts for ledger in part.ledgers[label]]) for label in first.labels},
        {label: sum(part.seconds[label] for part in parts) for label in first.labels},
        sum(part.world_seconds for part in parts),
    )


def _distinct(ledgers: list[Ledger]) -> tuple[Ledger, ...]:
    return tuple(ledger for place, ledger in enumerate(ledgers) if ledger not in ledgers[:place])
