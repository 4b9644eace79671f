"""A self-contained HTML page in the style of the service's pages, and the parts it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from quietshelf.__about__ import __version__
from quietshelf.report.svg import Markup, tag

XMLNS = 'xmlns="http://www.w3.org/2000/svg"'


@cache
def look(name: str) -> bytes:
    """The icon or a style sheet; ``sheet.css``, which all pages have, comes with the tokens it uses."""
    found = [files("quietshelf.report").joinpath("look", name).read_bytes()]
    return b"\n".join([look("tokens.css"), *found] if name == "sheet.css" else found)


def write_document(path: Path, *, title: str, lead: str, sections: Sequence[str], kind: str = "Report") -> Path:
    """Write a page that loads nothing from elsewhere."""
    mark = look("icon.svg").decode().replace(XMLNS, 'aria-hidden="true" width="26" height="26"', 1)
    page = (
        '<!doctype html>\n<html lang="en-GB"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)} · Quietshelf</title><style>\n{look('sheet.css').decode()}</style></head><body>\n"
        f'<header class="top"><div class="wrap report"><span class="wordmark">{mark}Quietshelf</span>'
        f'<span class="small">{escape(kind)}</span></div></header>\n<main class="wrap report">\n'
        f'<div><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></div>\n'
        f"{chr(10).join(sections)}\n</main>\n"
        f'<footer class="wrap report"><p>Quietshelf {__version__}</p></footer></body></html>\n'
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def section(heading: str, *parts: str) -> str:
    """A card with a heading."""
    return f'<section class="card"><h2>{escape(heading)}</h2>\n{"".join(parts)}</section>'


def folded(heading: str, *parts: str) -> str:
    """A card that opens on demand; printed open."""
    return (
        f'<details class="card folded"><summary><h2>{escape(heading)}</h2></summary>\n'
        f'<div class="fold">{"".join(parts)}</div></details>'
    )


def text(*paragraphs: str) -> str:
    """Paragraphs."""
    return "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)


def note(words: str) -> str:
    """A remark in small print."""
    return tag("p", words, class_="small")


def headline(words: str, number: str = "", *, refuted: bool = False) -> str:
    """The conclusion of a page, a sentence that begins with its number."""
    mark = "headline pledge refuted" if refuted else "headline pledge"
    return tag("p", *([tag("b", number), " "] if number else []), words, class_=mark)


def figure(body: str, caption: str) -> str:
    """A chart with its caption."""
    return tag("figure", Markup(body), tag("figcaption", caption.replace(" %", "\N{NO-BREAK SPACE}%")))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str, words: int = 1) -> str:
    """A table whose first columns are words and whose other columns are numbers; a wide one scrolls in its box."""

    def cell(name: str, place: int, content: str, **attributes: str) -> Markup:
        return tag(name, content, **attributes, class_="num" if place >= words else "said" if place else "")

    named = [cell("th", place, each, scope="col") for place, each in enumerate(head)]
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(cell("td", place, row[place]) for place in range(1, len(row))))
        for row in rows
    ]
    return scrolling(caption, tag("thead", tag("tr", *named)), tag("tbody", *body))


def scrolling(caption: str, *parts: Markup, kind: str = "") -> Markup:
    """A table that scrolls in its box if it is too wide; its caption is for screen readers only."""
    whole = tag("table", tag("caption", caption, class_="unseen"), *parts, class_=kind)
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def facts(entries: Sequence[tuple[str, str, str]]) -> str:
    """The key figures of a page: (figure, what it is, a remark)."""
    found = [tag("div", tag("dt", what), tag("dd", number, tag("small", remark))) for number, what, remark in entries]
    return tag("dl", *found, class_="facts")


def commands(lines: Sequence[tuple[str, str]]) -> str:
    """Commands to type, and what each is for."""
    return tag("ul", *(tag("li", tag("code", line), tag("span", why)) for line, why in lines), class_="commands")


def quote(words: str) -> str:
    """A statement as a block quotation."""
    return tag("blockquote", words, class_="exact")
