"""One self-contained HTML page: figures inlined, tables, claims with their verdicts, how to run it again."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

VERDICTS = {"holds": "✔ holds", "fails": "✘ fails", "undecided": "? undecided"}
"""Said by a sign and a word, not by colour alone."""


@dataclass(frozen=True)
class Table:
    """A table; a cell that is a verdict is marked.

    Attributes:
        caption: Above it.
        head: Its columns.
        rows: Cells as text; a leading cell that repeats the one above is written once.
        notes: Lines that unfold below the last cell of each row, if there are any.
        folded: Whether it comes after the figures and is unfolded on demand.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[Sequence[str]] = ()
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """A study on the page.

    Attributes:
        title: Its heading.
        text: Paragraphs.
        tables: Claims first.
        figures: SVG files, with their captions.
        rerun: Commands.
        facts: Seed, versions and so on.
    """

    title: str
    text: Sequence[str]
    tables: Sequence[Table]
    figures: Sequence[tuple[Path, str]]
    rerun: str
    facts: Sequence[tuple[str, str]]


def write_page(path: Path, title: str, sections: Sequence[Section]) -> Path:
    """The page; it needs no other file."""
    contents = "".join(f'<li><a href="#s{n}">{_text(s.title)}</a></li>' for n, s in enumerate(sections))
    menu = f"<ol>{contents}</ol>" if len(sections) > 1 else ""
    body = "".join(_section(number, section) for number, section in enumerate(sections))
    path.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><main><h1>{_text(title)}</h1>{menu}{body}</main></body></html>\n",
        encoding="utf-8",
    )
    return path


def _section(number: int, section: Section) -> str:
    text = "".join(f"<p>{_text(paragraph)}</p>" for paragraph in section.text)
    tables = "".join(_table(table) for table in section.tables if not table.folded)
    folded = "".join(_folded(table) for table in section.tables if table.folded)
    figures = "".join(_figure(path, caption) for path, caption in section.figures)
    facts = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in section.facts)
    return (
        f'<section id="s{number}"><h2>{_text(section.title)}</h2>{text}{tables}{figures}{folded}'
        f"<h3>Run it again</h3><pre>{_text(section.rerun)}</pre>"
        f'<details><summary>What made these rows</summary><table class="facts">{facts}</table></details></section>'
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in table.head)
    rows = "".join(f"<tr>{''.join(_cells(table, place))}</tr>" for place in range(len(table.rows)))
    caption = f"<caption>{_text(table.caption)}</caption>"
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cells(table: Table, place: int) -> Iterator[str]:
    """One row: leading cells that repeat the row above are said once, for all of them."""
    row, last = table.rows[place], len(table.rows[place]) - 1
    for column, cell in enumerate(row):
        alike = _alike(table.rows, place, column + 1)
        if cell in VERDICTS:
            yield f'<td class="{cell}">{VERDICTS[cell]}</td>'
        elif column == last:
            yield f"<td>{_notes(cell, table.notes[place]) if table.notes else _text(cell)}</td>"
        elif place == 0 or row[: column + 1] != table.rows[place - 1][: column + 1]:
            yield f'<td rowspan="{alike}">{_text(cell)}</td>'


def _alike(rows: Sequence[Sequence[str]], place: int, columns: int) -> int:
    """How many rows from this one on begin with the same cells."""
    alike = takewhile(lambda row: row[:columns] == rows[place][:columns], rows[place:])
    return sum(1 for _ in alike)


def _folded(table: Table) -> str:
    return f"<details><summary>{_text(table.caption)}</summary>{_table(table)}</details>"


def _notes(cell: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<details><summary>{_text(cell)}</summary><ul>{items}</ul></details>"


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    kind = "svg+xml" if path.suffix == ".svg" else path.suffix.removeprefix(".")
    picture = f'<img alt="{_text(caption)}" src="data:image/{kind};base64,{data}">'
    return f"<figure>{picture}<figcaption>{_text(caption)}</figcaption></figure>"


def _text(words: str) -> str:
    return html.escape(words)


STYLE = """
:root{color-scheme:light;--ink:#1d1f21;--soft:#5b6167;--line:#d9dde1}
body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:#fff}
main{max-width:68rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.7rem}h2{margin-top:3rem;border-bottom:2px solid var(--line);padding-bottom:.3rem}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-size:.92rem}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{border-bottom:1px solid var(--line);padding:.3rem .7rem;text-align:left;vertical-align:top}
td+td,th+th{font-variant-numeric:tabular-nums}
td details{margin:0}td summary{cursor:pointer}td ul{margin:.3rem 0;padding-left:1.2rem;color:var(--soft)}
.holds{color:#005a87;font-weight:600;white-space:nowrap}.fails{color:#a34700;font-weight:600;white-space:nowrap}
.undecided{color:var(--soft);white-space:nowrap}
figure{margin:1.5rem 0}img{max-width:100%;height:auto}figcaption{color:var(--soft);font-size:.92rem}
pre{background:#f4f6f8;padding:.8rem;overflow-x:auto}details{margin:.2rem 0}
"""
