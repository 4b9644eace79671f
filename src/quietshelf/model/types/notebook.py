"""Results as HTML tables for notebooks: escaped, self-contained."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """Render a table as HTML; the first column holds text, the others figures.

    >>> html_table("1 < 2", ("a",), [("<b>",)])
    '<table><caption>1 &lt; 2</caption><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(_cell(cell, place) for place, cell in enumerate(row))}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><caption>{escape(caption)}</caption><tr>{top}</tr>{body}</table>{below}"


def _cell(text: str, place: int) -> str:
    return f'<td style="text-align:right">{escape(text)}</td>' if place else f"<td>{escape(text)}</td>"
