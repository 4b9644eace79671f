"""What a simulation yields: rows, and what they cost to make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.data.logs.files import pandas
from quietshelf.model.types import FloatArray, html_table
from quietshelf.privacy.accounting import DELTA, Ledger, epsilon_of
from quietshelf.privacy.accounting.figures import rounded_up
from quietshelf.report.series import standard_error


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
        """What a contestant's costliest ledger proves; infinity if it keeps none."""
        return max((ledger.rho for ledger in self.ledgers[label]), default=math.inf)

    def __iter__(self) -> Iterator[Row]:
        for label, regret in self.regret.items():
            for replicate, path in enumerate(regret.tolist()):
                for t, lost in zip(self.times, path, strict=True):
                    yield Row(label, replicate, t, lost)

    def __len__(self) -> int:
        return len(self.regret) * self.replicates * len(self.times)

    def to_pandas(self) -> Any:
        """The rows as a DataFrame: label, replicate, t, regret. Needs the extra ``data``.

        `pandas.DataFrame(summary(result))` has one line per contestant instead.
        """
        each = self.replicates * len(self.times)
        return pandas().DataFrame(
            {
                "label": np.repeat(np.array(self.labels, dtype=object), each),
                "replicate": np.tile(np.repeat(np.arange(self.replicates), len(self.times)), len(self.labels)),
                "t": np.tile(self.times, len(self.labels) * self.replicates),
                "regret": np.concatenate([np.ravel(regret) for regret in self.regret.values()]),
            }
        )

    def plot(self, ax: Any = None, *, title: str = "") -> Any:
        """Draw regret over visitors, mean ± 2 standard errors; the matplotlib axes. Needs the extra ``report``.

        Args:
            ax: Axes to draw on; a new figure by default.
            title: Above it.
        """
        from quietshelf.report.interactive import plot_regret

        return plot_regret(self, ax, title=title)

    def __repr__(self) -> str:
        width = max(map(len, self.labels))
        lines = [f"  {label:{width}}  {regret}" for label, regret, *_ in self._lines()]
        return "\n".join([f"<Result: {self._size}; regret, mean ± s.e.", *lines]) + ">"

    def _repr_html_(self) -> str:
        head = ("contestant", "regret, mean ± s.e.", "proven rho", f"epsilon at delta = {DELTA:g}")
        return html_table(self._size, head, self._lines())

    @property
    def _size(self) -> str:
        worlds = f"{self.replicates} replicate{'s' if self.replicates > 1 else ''}"
        return f"{len(self.labels)} contestants, {worlds} of {self.horizon:,} visitors"

    def _lines(self) -> Iterator[tuple[str, str, str, str]]:
        for line in summary(self):
            spent = self.proven_rho(line.label)
            regret = f"{line.mean:.4g} ± {line.standard_error:.2g}"
            yield line.label, regret, rounded_up(spent), rounded_up(epsilon_of(spent, DELTA))


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
    """One line per contestant, in the order given."""
    count = result.replicates
    lines = []
    for label, regret in result.regret.items():
        final = regret[:, -1]
        pace = result.seconds[label] / (count * result.horizon)
        lines.append(Summary(label, float(final.mean()), float(standard_error(final)), pace))
    return lines


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
