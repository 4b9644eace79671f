"""A study: worlds, contestants, claims and figures, read from TOML.

Every setting of a world or a policy may be a list: then all combinations take part. Contestants that share a world form
cells of at most ``together``, whose visitors are drawn once.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from quietshelf.model.types import integer, one_of, require
from quietshelf.research.experiments.units import Cell, Entry, Unit
from quietshelf.research.experiments.worlds import lacks_data, make_world

Settings = dict[str, Any]
HEAD = ("title", "summary", "horizon", "replicates", "seed", "block", "together", "checkpoints", "watch")
BESIDE = ("tuning_seed",)
"""Keys that do not decide the rows."""
TABLES = ("worlds", "policies", "claims", "figures")
NEEDED = (*HEAD[:5], *TABLES[:2])
SEEDS = ("report", "tuning")

CELLS = "by policy and calibration"
"""How contestants are grouped into cells; a folder grouped differently is not resumed."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study with its lists of settings expanded.

    Attributes:
        name: Its name on the command line.
        title: One line.
        summary: Its purpose, in a few sentences.
        horizon: Visitors per replicate; a world may have its own.
        replicates: Independent replicates of each world.
        seed: Equal seeds give equal rows, on any number of machines.
        block: Replicates that run side by side in one unit of work.
        together: The most contestants in one cell.
        checkpoints: Number of evenly spaced rows per run.
        tuning_seed: Used instead of ``seed`` while choosing settings, so that reported runs were never tuned on.
        watch: Whether to measure coverage, definiteness and refits besides the regret.
        worlds: Settings of each world.
        policies: Settings of each contestant; ``worlds`` in them names the worlds it takes part in.
        claims: Claims, as `claims.judge` reads them.
        figures: Figures, as `report.plotted` reads them.
    """

    name: str
    title: str
    summary: str
    horizon: int
    replicates: int
    seed: int
    block: int = 30
    together: int = 20
    checkpoints: int = 50
    watch: bool = False
    tuning_seed: int | None = None
    worlds: tuple[Settings, ...]
    policies: tuple[Settings, ...]
    claims: tuple[Settings, ...] = ()
    figures: tuple[Settings, ...] = ()

    def __post_init__(self) -> None:
        for key in ("horizon", "replicates", "block", "together", "checkpoints"):
            integer(key, getattr(self, key))
        integer("seed", self.seed, low=0)
        rule = "tuning_seed must be a whole number other than seed"
        require(self.tuning_seed is None or self.tuning_seed != self.seed, rule, tuning_seed=self.tuning_seed)
        require(bool(self.worlds) and bool(self.policies), "a study needs worlds and policies", study=self.name)
        both = {key for world in self.worlds for key in world} & {key for policy in self.policies for key in policy}
        require(not both, "a setting must belong to worlds or to policies, not to both", both=sorted(both))

    def reduced(self, *, horizon: int | None = None, replicates: int | None = None, seed: int | None = None) -> Study:
        """The same study at another size or seed.

        Worlds with their own horizon change in proportion. In a shorter study, exploration and the ``after`` of claims
        shrink in proportion too, so that most of a run still follows exploration.
        """
        length = self.horizon if horizon is None else integer("horizon", horizon)
        share = Fraction(length, self.horizon)
        return replace(
            self,
            horizon=length,
            replicates=self.replicates if replicates is None else replicates,
            seed=self.seed if seed is None else seed,
            worlds=tuple(_scaled(world, "horizon", share) for world in self.worlds),
            policies=tuple(_scaled(policy, "explore", min(share, Fraction(1))) for policy in self.policies),
            claims=tuple(_scaled(claim, "after", min(share, Fraction(1))) for claim in self.claims),
        )

    def with_seeds(self, name: str) -> Study:
        """The same study with its ``report`` or ``tuning`` seeds."""
        one_of("seeds", name, SEEDS)
        if name == "report":
            return self
        if self.tuning_seed is None:
            raise ValueError(f"--seeds tuning is for studies with a tuning_seed, got study={self.name!r}")
        return replace(self, seed=self.tuning_seed, tuning_seed=None)

    def with_data(self, path: Path | None) -> Study:
        """The same study with another data file, in the worlds that read one."""
        if path is None:
            return self
        return replace(
            self, worlds=tuple({**world, "data": str(path)} if "data" in world else world for world in self.worlds)
        )

    def without_missing(self) -> tuple[Study, tuple[str, ...]]:
        """The study without the optional worlds whose data file is missing, and the names of these."""
        missing = tuple(world["name"] for world in self.worlds if world.get("optional") and lacks_data(world))
        worlds = tuple(world for world in self.worlds if world.get("name") not in missing)
        left = (_elsewhere(policy, missing) for policy in self.policies)
        return replace(self, worlds=worlds, policies=tuple(policy for policy in left if policy is not None)), missing

    @property
    def config(self) -> Settings:
        """Everything that determines the rows, as plain data."""
        return {key: getattr(self, key) for key in ("name", *HEAD[2:], "worlds", "policies")}

    @property
    def fingerprint(self) -> str:
        """A hash of config and cell layout; rows of one study share it."""
        told = json.dumps([CELLS, self.config], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Groups of at most ``together`` contestants that share a world; those whose curators merge are adjacent."""
        found: list[Cell] = []
        for settings in self.worlds:
            name = settings.get("name")
            here = (policy for policy in self.policies if "worlds" not in policy or name in policy["worlds"])
            entries = [Entry(settings, policy) for policy in sorted(here, key=_kind)]
            horizon = settings.get("horizon", self.horizon)
            for begin in range(0, len(entries), self.together):
                group = tuple(entries[begin : begin + self.together])
                found.append(Cell(len(found), make_world(settings), group, horizon))
        return tuple(found)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The work units, each a cell and a block of replicates, the longest first."""
        edges = [*range(0, self.replicates, self.block), self.replicates]
        blocks = [range(low, high) for low, high in pairwise(edges)]
        units = [
            Unit(cell, block, seed=self.seed, checkpoints=self.checkpoints, watch=self.watch)
            for cell in self.cells
            for block in blocks
        ]
        return tuple(sorted(units, key=lambda unit: -unit.work * unit.cell.world.dim))


def read_study(path: Path) -> Study:
    """Read a study from a TOML file."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"a study must be TOML, got {path}: {error}") from error
    unknown, missing = sorted(set(raw) - {*HEAD, *BESIDE, *TABLES}), [key for key in NEEDED if key not in raw]
    require(not unknown, f"a study has the keys {', '.join((*HEAD, *BESIDE, *TABLES))}", unknown=unknown)
    require(not missing, f"a study needs {', '.join(NEEDED)}", missing=missing)
    head: Settings = {key: raw[key] for key in (*HEAD, *BESIDE) if key in raw}
    worlds = tuple(_unique(world for table in raw["worlds"] for world in _grid(table)))
    policies = tuple(_unique(policy for table in raw["policies"] for policy in _grid(table, keep=("worlds",))))
    tables: Settings = {key: tuple(raw.get(key, ())) for key in ("claims", "figures")}
    return Study(name=path.stem, worlds=worlds, policies=policies, **head, **tables)


def _grid(table: Mapping[str, Any], keep: tuple[str, ...] = ()) -> Iterator[Settings]:
    """All combinations of list values."""
    keys = list(table)
    choices = [value if isinstance(value, list) and key not in keep else [value] for key, value in table.items()]
    for values in product(*choices):
        yield dict(zip(keys, values, strict=True))


def _unique(found: Iterator[Settings]) -> list[Settings]:
    every = list(found)
    twice = [each for place, each in enumerate(every) if each in every[:place]]
    require(not twice, "a study lists every world and policy once", twice=twice[:1])
    return every


def _kind(policy: Settings) -> tuple[str, str]:
    return policy["policy"], policy.get("calibration", "")


def _elsewhere(policy: Settings, missing: Sequence[str]) -> Settings | None:
    """A policy without the missing worlds; None if no world is left."""
    if "worlds" not in policy:
        return policy
    worlds = [name for name in policy["worlds"] if name not in missing]
    return {**policy, "worlds": worlds} if worlds else None


def _scaled(settings: Settings, key: str, share: Fraction) -> Settings:
    return {**settings, key: max(1, int(settings[key] * share))} if key in settings else settings
