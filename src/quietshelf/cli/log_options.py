"""Options that ``fit`` and ``replay`` share: a log's layout, the meaning of its columns, and their units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from quietshelf.cli.console import Move, processes, progress, say
from quietshelf.model.types import require

if TYPE_CHECKING:
    from quietshelf.data.logs.log import Log
    from quietshelf.data.logs.partitioned import Executor, PartitionedLog
    from quietshelf.data.logs.searches import Searches
    from quietshelf.data.tables import Schema
    from quietshelf.model.choice.maps import FeatureMap
    from quietshelf.model.types import FloatArray

LogFile = Annotated[
    Path,
    typer.Argument(
        help="A log: CSV (.gz, .zst, .zip too), Parquet or a folder of Parquet files in long format; .npz of searches."
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="Processes that read a log of Parquet files part by part; 0: one per core.")
]
ClusterAddress = Annotated[
    str | None, typer.Option("--cluster", help="Dask scheduler that reads such a log, tcp://HOST:PORT.")
]
MapName = Annotated[str, typer.Option("--map", help="item, concat, outer or full.")]
Scales = Annotated[
    str, typer.Option(help="Declared (not measured) NAME=SPREAD or NAME=CENTRE:SPREAD of every feature.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", help="What the columns mean, as `quietshelf schema` writes it, instead of --scales."),
]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="OURS=THEIRS, as in item=sku: what the file calls a column.")
]
Wide = Annotated[bool, typer.Option(help="The log is in wide format: one row per round.")]

UNSCALED = (
    "No scales are declared, so features are used as they come; the further their size is from 1, the more that costs. "
    "In simulated logs with prices around 120, the error of a private fit was 5 times as large at rho = 1 and 80 times "
    "at rho = 0.1, and `quiet` lost 12 and 6 times as many sales (docs/logs.md). Declare what you know: "
    '--scales "price=120:40,...", or --schema.'
)


class Declared(NamedTuple):
    """A log, in declared units if any were given.

    Attributes:
        log: The log.
        scales: Centre and spread of each feature used, by name; None if none were given.
        schema: What the columns mean; None if none was given.
        visitor_scale: Declared standard deviation of each visitor feature after scaling; None if nothing is declared.
        item_scale: The same for each item feature.
    """

    log: Log | Searches | PartitionedLog
    scales: Mapping[str, tuple[float, float]] | None
    schema: Schema | None
    visitor_scale: FloatArray | None
    item_scale: FloatArray | None

    @property
    def known(self) -> bool:
        """Whether anything is declared."""
        return self.visitor_scale is not None


class Reading(NamedTuple):
    """How a log larger than memory is read.

    Attributes:
        exact: Whether it is read for an exact fit; otherwise for a private one.
        executor: Runs the readers.
        report: Receives progress.
    """

    exact: bool
    executor: Executor
    report: Passes


class Meaning(NamedTuple):
    """The options about a log's columns, as given."""

    scales: str
    schema: Path | None
    columns: list[str] | None
    separator: str | None
    wide: bool


def declared_log(path: Path, feature_map: FeatureMap, options: Meaning, *, in_parts: Reading | None = None) -> Declared:
    """Read a log as these options declare it."""
    import numpy as np

    from quietshelf.data.logs.encoded import in_public_units, parse_scales, read_any, scaled, used_names
    from quietshelf.data.logs.layout import Layout, parse_columns
    from quietshelf.data.logs.partitions import Form, partitions
    from quietshelf.data.logs.survey import survey
    from quietshelf.data.tables import Schema

    given, schema = parse_scales(options.scales), options.schema
    require(not (given and schema), "give --scales or --schema, which has its own, not both", schema=str(schema))
    require(schema is None or schema.is_file(), "the schema must exist", schema=str(schema))
    known = None if schema is None else Schema.load(schema)
    layout = Layout(wide=options.wide, columns=parse_columns(options.columns or []), separator=options.separator)
    log: Log | Searches | PartitionedLog
    if in_parts is not None:
        form = Form(feature_map=feature_map, layout=layout, schema=known, scales=given)
        log = survey(partitions(path, layout), form, **in_parts._asdict())
    else:
        log = read_any(path, feature_map, layout=layout, schema=known)
        log = scaled(log, given, feature_map) if given else log
    visitor_names, item_names = used_names(log, feature_map)
    if known is not None:
        return Declared(log, None, known, known.visitor_scale[: len(visitor_names)], known.item_scale)
    if not given and not in_public_units(log):
        return Declared(log, None, None, None, None)
    used: Any = {name: tuple(given[name]) for name in (*visitor_names, *item_names)} if given else None
    return Declared(log, used, None, np.ones(len(visitor_names)), np.ones(len(item_names)))


@contextmanager
def reading(path: Path, *, exact: bool, workers: int | None, cluster: str | None) -> Iterator[Reading | None]:
    """How to read a log in parts, if it is a folder or the options ask for it; None to read it as a whole."""
    from quietshelf.data.logs.partitions import is_partitioned

    if not is_partitioned(path) and workers is None and cluster is None:
        yield None
        return
    require(workers is None or cluster is None, "give --workers or --cluster, not both", workers=workers)
    from quietshelf.research.loop.executors import Cluster, Processes, connected

    with ExitStack() as opened:
        report = Passes(opened.enter_context(progress("reading", unit="rows")))
        if cluster is not None:
            executor: Any = Cluster(opened.enter_context(connected(cluster)))
        else:
            executor = opened.enter_context(Processes(processes(workers or 0)))
        yield Reading(exact, executor, report)


class Passes:
    """Runs a progress bar once per pass over a log, and counts the passes."""

    def __init__(self, move: Move) -> None:
        self._move, self._last, self._began = move, 0, monotonic()
        self.number, self.rows = 0, 0

    def __call__(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` rows have been read in this pass."""
        if self.number == 0 or done <= self._last:
            self.number += 1
        self._last, self.rows = done, total
        self._move(done, total, f"pass {self.number}")

    def figures(self) -> dict[str, float]:
        """Rows, passes over them, and rows per second."""
        second = self.number * self.rows / max(monotonic() - self._began, 1e-9)
        return {"rows": self.rows, "passes": self.number, "rows_per_second": second}


def warn_unscaled(declared: Declared) -> None:
    """Warn on stderr about what undeclared scales cost."""
    if not declared.known:
        say(UNSCALED)
