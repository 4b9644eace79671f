"""A log in Parquet files, larger than memory: read file by file, some whole rounds at a time.

The rows of a round must be together in one file. Files are ordered by name, rounds by row.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.encoded import Scale, encoded, scaled, uses_visitor
from quietshelf.data.logs.ids import APART, IDS
from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.reading import as_numbers, built, named
from quietshelf.data.logs.rules import KNOWN, VISITOR
from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.data.tables import Schema
from quietshelf.data.tables.reading import PARQUET, parquet
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import BoolArray, IntArray, require

BATCH = 1 << 17
"""Rows read at once; encoded they take some tens of megabytes."""


class Partition(NamedTuple):
    """A file of a log, as it was when the log was opened.

    Attributes:
        path: Its path.
        rows: Number of rows.
        size: Size in bytes.
        changed: Modification time in nanoseconds.
        counted: Which of its rounds count, as packed bits; None for all of them.
    """

    path: str
    rows: int
    size: int
    changed: int
    counted: bytes | None = None


class Batch(NamedTuple):
    """Some whole rounds of a file: a pyarrow table, the start of each round in it, and the number of rows before it."""

    table: Any
    starts: IntArray
    before: int


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the files of a log become rounds.

    Attributes:
        feature_map: How x is made.
        layout: The files' column names.
        schema: What the columns mean; without one, every further column is a number.
        scales: Declared centre and spread of each feature; empty if none are declared.
    """

    feature_map: FeatureMap
    layout: Layout = field(default_factory=Layout)
    schema: Schema | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)

    @property
    def visitors(self) -> bool:
        """Whether x contains visitor features."""
        return uses_visitor(self.feature_map)

    def fitted(self, columns: list[str]) -> list[str]:
        """The columns of a file that a fit reads, under the file's own names."""
        ours = {theirs: name for name, theirs in self.layout.columns.items()}
        return [name for name in columns if self._reads(ours.get(name, name))]

    def _reads(self, name: str) -> bool:
        if name in KNOWN:
            return name in ("round", "chosen", "position")
        return self.visitors or not name.startswith(VISITOR)

    def numbers(self, batch: Batch) -> Any:
        """The batch as a data frame of numbers under our names; rounds are numbered, since their ids may be text."""
        lengths = np.diff(batch.starts, append=batch.table.num_rows)
        frame = batch.table.drop_columns([self.layout.columns.get("round", "round")]).to_pandas(use_threads=False)
        frame = frame.rename(columns={theirs: ours for ours, theirs in self.layout.columns.items()})
        frame["round"] = np.repeat(np.arange(lengths.size), lengths)
        return as_numbers(frame, self.schema, visitors=self.visitors)

    def log(self, table: Any, *, items: bool = False) -> Log:
        """The log of a valid table of numbers, in declared units."""
        log = built(table, items=items)
        log = log if self.schema is None else named(log, self.schema, visitors=self.visitors)
        made = scaled(log, self.scales, self.feature_map) if self.scales else log
        assert isinstance(made, Log)  # noqa: S101 - for the type checker: a log stays one
        return made


def is_partitioned(path: str | Path) -> bool:
    """Whether a path stands for several files: a folder, or a pattern such as ``log/*.parquet``."""
    return Path(path).is_dir() or (glob.has_magic(str(path)) and not Path(path).exists())


def partitions(path: str | Path, layout: Layout) -> tuple[Partition, ...]:
    """The Parquet files of a folder, searched recursively, or of a pattern, ordered by name.

    All must have the same columns and the same kinds of ids.
    """
    where = Path(path)
    if where.is_dir():
        found = [each for each in where.rglob("*") if each.suffix.lower() in PARQUET and each.name[0] not in "._"]
    else:
        found = [Path(each) for each in glob.glob(str(path), recursive=True)] if is_partitioned(path) else [where]
    require(len(found) > 0, "a log in partitions must have Parquet files", path=str(path))
    require(not (layout.wide or layout.separator), "a log in partitions must be Parquet in long format", path=str(path))
    parts, first = [], None
    for file in sorted(found):
        with _opened(file) as source:
            schema, rows = source.schema_arrow, source.metadata.num_rows
            first = first or (file, schema)
            _check_alike(file, schema, *first, layout)
        parts.append(Partition(str(file), rows, *_stamp(file)))
    return tuple(parts)


def batches(partition: Partition, layout: Layout, columns: list[str] | None = None) -> Iterator[Batch]:
    """The rows of a file, some whole rounds at a time, with all columns or some; refuses a file that has changed."""
    import pyarrow as pa

    path = Path(partition.path)
    require(path.is_file(), "every worker must see the files of the log", path=partition.path)
    rule = "files of a log must not change while it is read"
    require(_stamp(path) == (partition.size, partition.changed), rule, path=partition.path)
    key, before, rest = layout.columns.get("round", "round"), 0, None
    with _opened(path) as source:
        for part in source.iter_batches(BATCH, columns=columns, use_threads=False):
            table = pa.Table.from_batches([part])
            table = table if rest is None else pa.concat_tables([rest, table])
            starts = _starts(table[key])
            last = int(starts[-1]) if starts.size else 0
            if last:
                yield Batch(table.slice(0, last), starts[:-1], before)
                before += last
            rest = table.slice(last)
    if rest is not None and rest.num_rows:
        yield Batch(rest, _starts(rest[key]), before)


def rounds(partition: Partition, form: Form) -> Iterator[EncodedRounds]:
    """The rounds of a surveyed file that count, some at a time."""
    with _opened(Path(partition.path)) as source:
        columns = form.fitted(source.schema_arrow.names)
    done, counted = 0, counted_rounds(partition)
    for batch in batches(partition, form.layout, columns):
        count = batch.starts.size
        mine = None if counted is None else counted[done : done + count]
        done += count
        if mine is None or mine.any():
            every = encoded(form.log(form.numbers(batch)), form.feature_map).rounds
            yield every if mine is None or mine.all() else every.only(mine)


def counted_rounds(partition: Partition) -> BoolArray | None:
    """Which rounds of a file count; None for all. May be up to seven entries too long."""
    if partition.counted is None:
        return None
    return np.unpackbits(np.frombuffer(partition.counted, dtype=np.uint8)).astype(bool)


def _opened(path: Path) -> Any:
    with parquet(path) as pq:
        return pq.ParquetFile(path)


def _stamp(path: Path) -> tuple[int, int]:
    known = path.stat()
    return known.st_size, known.st_mtime_ns


def _starts(ids: Any) -> IntArray:
    """Where an id differs from the one before it; a missing id differs from all."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    if len(ids) == 0:
        return np.empty(0, dtype=np.int64)
    new = pc.fill_null(pc.not_equal(ids[1:], ids[:-1]), True)
    return np.flatnonzero(np.append(True, new.to_numpy()))


def _check_alike(file: Path, schema: Any, first: Path, known: Any, layout: Layout) -> None:
    """Refuse a file whose columns or kinds of ids differ from the first file's."""
    rule = f"all files of a log must have the same columns in the same order, those of {first}"
    require(schema.names == known.names, rule, columns=schema.names, file=str(file))
    theirs = layout.columns.get("round", "round")
    require(theirs in schema.names, f"a log must have the column {theirs}", columns=schema.names)
    for name in IDS:
        theirs = layout.columns.get(name, name)
        if theirs in schema.names:
            kind, other = _kind(schema.field(theirs).type), _kind(known.field(theirs).type)
            require(kind is not None, f"{name} {APART}", type=str(schema.field(theirs).type), file=str(file))
            rule = f"{name} must be of one type in all files"
            require(kind == other, rule, types=f"{kind} in {file}, {other} in {first}")


def _kind(given: Any) -> str | None:
    """The kind of an id column: "text", or its integer type; None if it cannot hold ids."""
    import pyarrow as pa

    given = given.value_type if pa.types.is_dictionary(given) else given
    text = pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    return "text" if text else str(given) if pa.types.is_integer(given) else None
