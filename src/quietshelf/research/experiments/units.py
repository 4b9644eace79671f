"""A unit of work: contestants in one world over a block of replicates -> columns of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.research.experiments.contestants import make
from quietshelf.research.experiments.diagnostics import Diagnostics
from quietshelf.research.loop import Result, World
from quietshelf.research.loop.named import SPECS
from quietshelf.research.loop.simulation import Simulation as Contest
from quietshelf.research.loop.simulation import checkpoint_times, play

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Entry:
    """One contestant of a study: the settings of its world and its own."""

    world: Mapping[str, Any]
    policy: Mapping[str, Any]

    @property
    def settings(self) -> dict[str, Any]:
        """All settings, its world's and its own."""
        own = {key: value for key, value in self.policy.items() if key != "worlds"}
        return {**{("world" if key == "name" else key): value for key, value in self.world.items()}, **own}

    @property
    def label(self) -> str:
        """Its name in the rows, unique within its world."""
        own = {key: value for key, value in self.policy.items() if key not in ("policy", "worlds")}
        return " ".join([self.policy["policy"], *(f"{key}={value}" for key, value in own.items())])


@dataclass(frozen=True)
class Cell:
    """Contestants that face the same visitors."""

    number: int
    world: World
    entries: tuple[Entry, ...]
    horizon: int


@dataclass(frozen=True)
class Unit:
    """A cell and a block of replicates; picklable, and its rows are the same wherever it runs."""

    cell: Cell
    replicates: range
    seed: int
    checkpoints: int
    watch: bool

    @property
    def name(self) -> str:
        """The stem of its file name."""
        return f"cell-{self.cell.number:03d}-replicates-{self.replicates.start:04d}-{self.replicates.stop - 1:04d}"

    @property
    def work(self) -> int:
        """Rounds of all its contestants and replicates."""
        return self.cell.horizon * len(self.replicates) * len(self.cell.entries)

    @property
    def memory(self) -> int:
        """Bytes it needs, roughly: policies that refit keep every round, as indices if visitors come from a table."""
        world = self.cell.world
        keeping = sum(SPECS[entry.policy["policy"]].keeps_rounds for entry in self.cell.entries)
        each = 4 * (2 + world.capacity) if hasattr(world, "table") else 8 * world.capacity * world.dim
        return self.cell.horizon * len(self.replicates) * keeping * each


@dataclass(frozen=True)
class Done:
    """The result of a unit: rows as columns of equal length, and the seconds each contestant took."""

    columns: Columns
    seconds: Mapping[str, float]
    world_seconds: float


def run_unit(unit: Unit, tick: Callable[[int], None]) -> Done:
    """Simulate a unit; ``tick`` receives the rounds done, over contestants and replicates."""
    times = checkpoint_times(unit.cell.horizon, unit.checkpoints)
    noted = {entry.label: Diagnostics(times) for entry in unit.cell.entries if unit.watch}
    made = [(entry, make(entry.label, entry.policy)) for entry in unit.cell.entries]
    contestants = tuple(noted[e.label].over(one, e.policy) if unit.watch else one for e, one in made)
    contest = Contest(
        world=unit.cell.world, contestants=contestants, horizon=unit.cell.horizon, seed=unit.seed, times=times
    )
    many = len(contestants)
    result = play(contest, unit.replicates, lambda rounds: tick(rounds * many))
    parts = [_rows(entry, unit, result, noted.get(entry.label)) for entry in unit.cell.entries]
    keys = list(dict.fromkeys(key for part in parts for key in part))
    columns = {key: np.concatenate([_column(part, key) for part in parts]) for key in keys}
    return Done(columns, result.seconds, result.world_seconds)


def _rows(entry: Entry, unit: Unit, result: Result, notes: Diagnostics | None) -> Columns:
    """One row per replicate and checkpoint, by replicate, then time."""
    regret = result.regret[entry.label]
    many, length = regret.shape
    columns: Columns = {
        "cell": np.full(regret.size, unit.cell.number),
        "label": np.full(regret.size, entry.label, dtype=object),
        "replicate": np.repeat(np.asarray(unit.replicates), length),
        "t": np.tile(np.asarray(result.times), many),
        "regret": regret.ravel(),
        "rho_proven": np.full(regret.size, result.proven_rho(entry.label)),
    }
    if notes is not None:
        columns |= {name: values.ravel() for name, values in notes.measures.items()}
    return columns


def _column(part: Columns, key: str) -> np.ndarray[Any, Any]:
    """A column, NaN if the contestant lacks the measure."""
    return part[key] if key in part else np.full(len(part["t"]), np.nan)
