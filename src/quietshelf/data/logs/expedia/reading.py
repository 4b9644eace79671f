"""The raw file -> the rows of one destination, in bounded memory.

Two passes in chunks: the first counts searches by destination, the second keeps the rows of the chosen one. A bad row
(truncated, or with text for a number) discards its whole search, because what the search showed is then unknown, and
no other search: lines with a quote or a carriage return, at which a parser would join or split lines, are bad rows too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.expedia.columns import COLUMNS, NUMERIC, OPTIONAL
from quietshelf.data.logs.files import pandas, reading
from quietshelf.model.types import BoolArray, IntArray, require

CHUNK_ROWS = 100_000
"""43 MB of numbers per chunk, a few times that while parsing."""
MOST_BAD = 0.01
"""A file with a larger share of bad rows is the wrong file."""
BREAKING = (b'"', b"\r", b"\0")
"""Bytes that the file never contains, and at which a parser could run on into other searches' lines, or stop."""
IDS = ("srch_id", "prop_id", "srch_destination_id")
LARGEST_ID = 2.0**53
BY_SEARCHES = "the destination was chosen by how often it was searched"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Raw:
    """The rows of one destination.

    Attributes:
        rows: A pandas table of the numeric columns.
        destination: Its ``srch_destination_id``.
        notes: Findings and decisions.
        data_dependent: The steps so far in which one search can change others.
    """

    rows: Any
    destination: int
    notes: tuple[str, ...]
    data_dependent: tuple[str, ...]


def read(path: str | Path, *, destination: int | None = None, progress: Progress | None = None) -> Raw:
    """Read the rows of one destination.

    Args:
        path: The raw file, or a zip that holds it.
        destination: Its ``srch_destination_id``; None for the one with the most searches.
        progress: Called with bytes read and bytes in total, over both passes.
    """
    passes = 2 if destination is None else 1
    notes: list[str] = []
    looked: tuple[str, ...] = ()
    if destination is None:
        counts = _count(path, _part(progress, 0, passes))
        require(len(counts) > 0, f"{path} must hold at least one complete row")
        destination, most = max(counts.items(), key=lambda item: (item[1], -item[0]))
        notes.append(f"destination {destination}: the most searches, {most:,} of {sum(counts.values()):,}")
        looked = (BY_SEARCHES,)
    rows, bad = _keep(path, destination, _part(progress, passes - 1, passes))
    require(len(rows) > 0, f"{path} must hold rows of the destination", destination=destination)
    require(bool((rows["booking_bool"] == 1).any()), f"destination {destination} must have bookings", bookings=0)
    return Raw(rows, destination, (*notes, *bad), looked)


class Chunk(NamedTuple):
    """Some lines of the file.

    Attributes:
        lines: The line number of each row, (rows,).
        rows: The requested columns as numbers; NaN for NULL and for anything else.
        bad: Line numbers of bad rows, including those too short or too long to parse.
        broken: Searches that bad rows belong to.
    """

    lines: IntArray
    rows: Any
    bad: list[int]
    broken: set[int]


def chunks(path: str | Path, columns: tuple[str, ...], progress: Progress | None = None) -> Iterator[Chunk]:
    """The file in pieces of ``CHUNK_ROWS`` lines."""
    with reading(path) as source:
        _check_header(source.handle.readline(), path)
        start = 2
        while lines := list(islice(source.handle, CHUNK_ROWS)):
            yield _parsed(lines, start, columns)
            start += len(lines)
            if progress is not None:
                progress(source.handle.tell(), source.size)


def _parsed(lines: list[bytes], start: int, columns: tuple[str, ...]) -> Chunk:
    lines = [line[:-2] + b"\n" if line.endswith(b"\r\n") else line for line in lines]
    fits = np.fromiter(map(_fits, lines), dtype=bool, count=len(lines))
    odd, fitting = np.flatnonzero(~fits), np.flatnonzero(fits)
    options = {"na_values": ["NULL", ""], "keep_default_na": False, "encoding": "latin-1", "low_memory": False}
    text = BytesIO(b"".join(lines[place] for place in fitting.tolist()))
    names, used = list(COLUMNS), list(columns)
    if fitting.size:
        rows = pandas().read_csv(text, header=None, names=names, usecols=used, **options)
    else:
        rows = pandas().DataFrame(columns=used, dtype=np.float64)
    rows, wrong = _numbers(rows)
    heads = [lines[place].split(b",", 1)[0].strip() for place in odd.tolist()]
    broken = {int(head) for head in heads if head.isdigit() and int(head) <= LARGEST_ID}
    broken |= set(rows["srch_id"][(rows["srch_id"].abs() <= LARGEST_ID) & wrong].astype(int))
    numbers = start + fitting
    bad = sorted([*(start + odd).tolist(), *numbers[wrong].tolist()])
    return Chunk(numbers[~wrong], rows[~wrong], bad, broken)


def _fits(line: bytes) -> bool:
    return line.count(b",") == len(COLUMNS) - 1 and not any(byte in line for byte in BREAKING)


def _check_header(line: bytes, path: str | Path) -> None:
    names = line.decode("utf-8", errors="replace").strip().split(",")
    missing = [name for name in COLUMNS if name not in names]
    rule = f"{path} must have the {len(COLUMNS)} columns of the raw file; it lacks {len(missing)}, these first"
    require(not missing, rule, missing=missing[:5])
    require(names == list(COLUMNS), f"{path} must have its columns in the order of the raw file", columns=names)


def _count(path: str | Path, progress: Progress | None) -> Counter[int]:
    """Searches by destination."""
    where: dict[int, int] = {}
    for chunk in chunks(path, ("srch_id", "srch_destination_id"), progress):
        first = chunk.rows.drop_duplicates("srch_id")
        where.update(zip(first["srch_id"].astype(int), first["srch_destination_id"].astype(int), strict=True))
    return Counter(where.values())


def _keep(path: str | Path, destination: int, progress: Progress | None) -> tuple[Any, list[str]]:
    kept: list[Any] = []
    bad, broken, total = list[int](), set[int](), 0
    for chunk in chunks(path, NUMERIC, progress):
        total += len(chunk.rows) + len(chunk.bad)
        bad += chunk.bad
        broken |= chunk.broken
        kept.append(chunk.rows[chunk.rows["srch_destination_id"] == destination])
    most = max(1, int(MOST_BAD * total))
    rule = f"{path} must have at most {MOST_BAD:.0%} bad rows (truncated, too long, or text for a number)"
    require(len(bad) <= most, rule, bad=len(bad), first_line=bad[0] if bad else None)
    rows = pandas().concat(kept, ignore_index=True)
    rows = rows[~rows["srch_id"].isin(list(broken))].reset_index(drop=True)
    if not bad:
        return rows, []
    shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
    found = f"{len(bad)} bad row(s), truncated or not a number, in line {shown}: dropped with {len(broken)} search(es)"
    return rows, [found]


def _numbers(piece: Any) -> tuple[Any, BoolArray]:
    """The piece as numbers, and which rows are bad: text for a number, or a required value missing."""
    bad = np.zeros(len(piece), dtype=bool)
    tables = pandas()
    for name in piece.columns:
        column = piece[name]
        if not tables.api.types.is_numeric_dtype(column):
            number = tables.to_numeric(column, errors="coerce")
            bad |= (number.isna() & column.notna()).to_numpy()
            piece = piece.assign(**{name: number})
        if name not in OPTIONAL:
            bad |= piece[name].isna().to_numpy()
        if name in IDS:
            bad |= ~(piece[name].abs() <= LARGEST_ID).to_numpy() | (piece[name] % 1 != 0).to_numpy()
    return piece, bad


def _part(progress: Progress | None, number: int, of: int) -> Progress | None:
    """The progress of one pass out of several."""
    if progress is None:
        return None
    return lambda done, total: progress(number * total + done, of * total)
