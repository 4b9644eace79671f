"""Run a study: rows, verdicts, figures and a page, all in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietshelf.model.types import require
from quietshelf.privacy.accounting import DELTA
from quietshelf.report import (
    Section,
    Series,
    draw,
    draw_glance,
    plotted,
    write_csv,
    write_glance_csv,
    write_page,
)
from quietshelf.report.glance_table import glance_table
from quietshelf.report.multiples import multiples
from quietshelf.report.svg import Markup
from quietshelf.research.experiments.checking import check
from quietshelf.research.experiments.claims import ClaimOutcome, judge
from quietshelf.research.experiments.engine import Engine, Local, run_study
from quietshelf.research.experiments.gauntlet import KIND as MERITS
from quietshelf.research.experiments.gauntlet import WorldMerits, glance, merit_table, world_merits
from quietshelf.research.experiments.store import RowStore, column
from quietshelf.research.experiments.study import Study, read_study
from quietshelf.research.experiments.summary import regret_table, section, told
from quietshelf.research.loop.parallel import Progress

if TYPE_CHECKING:
    import pyarrow as pa

PAPER = ("privacy-level", "dimension", "assortment-size", "benchmark")
"""The four figures of the paper's synthetic study, which ``all`` runs."""
STANDARD = ("label", "cell", "replicate", "t", "regret", "rho_proven")


@dataclass(frozen=True)
class Reproduced:
    """The results of a study."""

    study: Study
    folder: Path
    outcomes: tuple[ClaimOutcome, ...]
    section: Section
    merits: tuple[WorldMerits, ...] = ()

    @property
    def untested(self) -> tuple[str, ...]:
        """Claims that cannot be tested at this size of the study."""
        tested = {outcome.says for outcome in self.outcomes}
        return tuple(claim["says"] for claim in self.study.claims if claim["says"] not in tested)

    @property
    def page(self) -> Path:
        """The page of the study."""
        return self.folder / "report.html"


def names() -> tuple[str, ...]:
    """The studies in the package, the paper's first."""
    found = sorted(file.name.removesuffix(".toml") for file in files(__package__).joinpath("studies").iterdir())
    return (*PAPER, *(name for name in found if name not in PAPER))


def study_named(name: str) -> Study:
    """A study of the package by name, or your own by the path of its TOML file."""
    if name.endswith(".toml"):
        require(Path(name).is_file(), "a study must be a TOML file", path=name)
        return read_study(Path(name))
    require(name in names(), f"a study must be one of {', '.join(names())} or a TOML file", study=name)
    with as_file(files(__package__).joinpath("studies", f"{name}.toml")) as path:
        return read_study(path)


def reproduce(
    study: Study,
    folder: Path,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    command: str = "",
    delta: float = DELTA,
) -> Reproduced:
    """Run what is missing, then judge the claims, draw the figures and write the page.

    Args:
        study: The study.
        folder: Where results go; rows already there are kept.
        engine: `Local` or `Cluster`.
        progress: Called with rounds done and rounds in total, over all contestants.
        command: The command that repeats the study, for the page.
        delta: The delta that the page states epsilon for.
    """
    store = RowStore(folder, check(study))
    run_study(store, engine or Local(), progress)
    series = series_of(study, store.read())
    outcomes = tuple(outcome for claim in study.claims for outcome in judge(claim, series))
    merits = {each["name"]: world_merits(study, series, each) for each in study.figures if each.get("kind") == MERITS}
    tables = [merit_table(merits[each["name"]], each) for each in study.figures if each["name"] in merits]
    drawn = _draw(study.figures, series, merits, folder)
    tables.append(regret_table(series, study.horizon, told=told(study), delta=delta))
    made = section(study, outcomes, drawn, tables=tables, manifest=store.manifest, command=command)
    result = Reproduced(study, folder, outcomes, made, tuple(world for worlds in merits.values() for world in worlds))
    write_page(result.page, study.title, [made])
    return result


def series_of(study: Study, table: pa.Table) -> list[Series]:
    """The rows as one series per contestant."""
    cells, labels = column(table, "cell"), column(table, "label")
    every = {name: column(table, name) for name in table.column_names if name in STANDARD[2:]}
    settings = {key for cell in study.cells for entry in cell.entries for key in entry.settings}
    measures = [name for name in table.column_names if name not in {*STANDARD, *settings}]
    every |= {name: column(table, name) for name in measures}
    found = []
    for cell in study.cells:
        inside = np.flatnonzero(cells == cell.number)
        for entry in cell.entries:
            rows = inside[labels[inside] == entry.label]
            rows = rows[np.lexsort((every["t"][rows], every["replicate"][rows]))]
            shape = (study.replicates, -1)
            values = {name: every[name][rows].reshape(shape) for name in measures}
            found.append(
                Series(
                    settings=entry.settings,
                    times=every["t"][rows].reshape(shape)[0],
                    regret=every["regret"][rows].reshape(shape),
                    proven=float(every["rho_proven"][rows].max()),
                    measures={name: value for name, value in values.items() if np.isfinite(value).all()},
                )
            )
    return found


def _draw(
    figures: Sequence[Mapping[str, Any]],
    series: Sequence[Series],
    merits: Mapping[str, Sequence[WorldMerits]],
    folder: Path,
) -> list[tuple[Markup, str]]:
    """Draw a study's figures for its page, with their titles; also write them and their numbers to files."""
    drawn, curves = [], []
    for figure in figures:
        if figure["name"] in merits:
            seen = glance(merits[figure["name"]], figure)
            draw_glance(seen, folder / "figures")
            drawing = glance_table(seen)
            write_glance_csv(seen, folder / f"{figure['name']}.csv")
        else:
            curves.append(plotted(figure, series))
            draw(curves[-1], folder / "figures")
            drawing = multiples(curves[-1])
        drawn.append((drawing, figure["title"]))
    write_csv(curves, folder / "plotted.csv")
    return drawn
