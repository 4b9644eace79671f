"""Check each line of a CSV by itself: in a private fit, no row's text may change another row."""

from __future__ import annotations

import csv
from collections.abc import Iterable

SHOWN = 60
"""Letters of a bad line that an error quotes."""


class BadLine(ValueError):  # noqa: N818 - says what it is
    """A line of a CSV is not a row; the message names the rule, the line and its number."""


def count_rows(lines: Iterable[bytes], separator: str) -> int:
    r"""Count the rows below the header; each must be a single line with one cell per column.

    >>> count_rows([b"round,item\n", b'1,"tea, black"\n', b"\n", b"2,jam"], ",")
    2
    >>> count_rows([b"round,item\n", b'1,"tea\n', b"2,jam\n"], ",")
    Traceback (most recent call last):
    ...
    quietshelf.data.logs.lines.BadLine: a line must be a row: quotes must close and cells hold no line break, got ...
    """
    width, rows = 0, 0
    for number, line in enumerate(lines, start=1):
        text = _text(line, number).rstrip("\r\n")
        if width and not text.strip(" \t" if separator != "\t" else " "):
            continue
        cells = _cells(text, separator, number)
        if not width and len(set(cells)) < len(cells):
            again = next(name for name in cells if cells.count(name) > 1)
            raise _bad(f"columns must have different names; {again!r} appears twice", text, number)
        width = width or len(cells)
        if len(cells) != width:
            raise _bad(f"a line must have {width} cells, as the first has; it has {len(cells)}", text, number)
        rows += number > 1
    return rows


def _text(line: bytes, number: int) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise _bad("a line must be in UTF-8", line.decode("utf-8", errors="replace"), number) from None


def _cells(text: str, separator: str, number: int) -> list[str]:
    """Split a line into cells; refuses an unclosed quote, or characters at which another parser may break the line."""
    rule = "a line must be a row: quotes must close and cells hold no line break"
    if "\r" in text or "\0" in text:
        raise _bad(rule, text, number)
    try:
        return next(csv.reader([text], delimiter=separator, strict=True))
    except (csv.Error, StopIteration):
        raise _bad(rule, text, number) from None


def _bad(rule: str, text: str, number: int) -> BadLine:
    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    return BadLine(f"{rule}, got {shown!r} in line {number}")
