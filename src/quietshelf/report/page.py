"""The self-contained HTML page of a study: claims with their verdicts, figures, tables, how to rerun it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import takewhile
from pathlib import Path

from quietshelf.report.document import figure, note, scrolling, text, write_document
from quietshelf.report.svg import Markup

VERDICTS = {"holds": "✔ holds", "fails": "✘ fails", "undecided": "? undecided"}
"""A sign and a word, so that colour is not needed."""


@dataclass(frozen=True)
class PageTable:
    """A table; cells that hold a verdict are marked.

    Attributes:
        caption: Its title.
        head: Headings of the columns.
        rows: Cells as text; leading cells that repeat the row above are merged.
        notes: Lines that unfold below the last cell of each row, if any.
        folded: Whether it comes after the figures and opens on demand.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[Sequence[str]] = ()
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """A study's section of the page.

    Attributes:
        title: Its heading.
        text: Paragraphs.
        tables: Tables, claims first.
        figures: Drawings with their captions.
        rerun: The command that repeats it.
        facts: Seed, versions and so on.
    """

    title: str
    text: Sequence[str]
    tables: Sequence[PageTable]
    figures: Sequence[tuple[Markup, str]]
    rerun: str
    facts: Sequence[tuple[str, str]]


def write_page(path: Path, title: str, sections: Sequence[Section]) -> Path:
    """Write the page."""
    lead = "Claims, tested on the rows of this run, and how to run them again."
    contents = "".join(f'<li><a href="#s{n}">{escape(s.title)}</a></li>' for n, s in enumerate(sections))
    menu = [f'<nav aria-label="Studies"><ol>{contents}</ol></nav>'] if len(sections) > 1 else []
    made = [_section(number, section, alone=len(sections) == 1) for number, section in enumerate(sections)]
    return write_document(path, title=title, lead=lead, sections=[*menu, *made], kind="Study")


def _section(number: int, section: Section, *, alone: bool) -> str:
    kind = ' class="unseen"' if alone else ""  # the page's own heading is the same
    heading = f"<h2{kind}>{escape(section.title)}</h2>"
    tables = "".join(f"<h3>{escape(table.caption)}</h3>{_table(table)}" for table in section.tables if not table.folded)
    folded = "".join(
        f"<details><summary>{escape(table.caption)}</summary>{_table(table)}</details>"
        for table in section.tables
        if table.folded
    )
    figures = "".join(figure(drawing, caption) for drawing, caption in section.figures)
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in section.facts
    )
    facts = scrolling("What made these rows", Markup(f"<tbody>{rows}</tbody>"))
    first, *others = section.text
    return (
        f'<section id="s{number}" class="card">{heading}{text(first)}{"".join(map(note, others))}'
        f"{tables}{figures}{folded}"
        f"<h3>Run it again</h3><pre>{escape(section.rerun)}</pre>"
        f"<details><summary>What made these rows</summary>{facts}</details></section>"
    )


def _table(table: PageTable) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.head)
    rows = "".join(f"<tr>{''.join(_cells(table, place))}</tr>" for place in range(len(table.rows)))
    return scrolling(table.caption, Markup(f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"))


def _cells(table: PageTable, place: int) -> Iterator[str]:
    """One row; leading cells that repeat the row above span rows instead."""
    row, last = table.rows[place], len(table.rows[place]) - 1
    for column, cell in enumerate(row):
        alike = _alike(table.rows, place, column + 1)
        if cell in VERDICTS:
            yield f'<td class="{cell}">{VERDICTS[cell]}</td>'
        elif column == last:
            yield f"<td>{_notes(cell, table.notes[place]) if table.notes else escape(cell)}</td>"
        elif place == 0 or row[: column + 1] != table.rows[place - 1][: column + 1]:
            yield f'<td class="said" rowspan="{alike}">{escape(cell)}</td>'


def _alike(rows: Sequence[Sequence[str]], place: int, columns: int) -> int:
    """How many rows, from this one on, begin with the same cells."""
    alike = takewhile(lambda row: row[:columns] == rows[place][:columns], rows[place:])
    return sum(1 for _ in alike)


def _notes(cell: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<details><summary>{escape(cell)}</summary><ul>{items}</ul></details>"
