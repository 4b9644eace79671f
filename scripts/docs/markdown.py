"""Markdown helpers shared by the generated pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""A table; bars inside cells are escaped.

    >>> print(table(("a", "b"), [("1", "x | y")]))
    | a | b |
    |---|---|
    | 1 | x \| y |
    """
    lines = [_row(head), "|" + "---|" * len(head), *(_row(row) for row in rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
