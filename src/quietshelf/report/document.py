"""The frame of a page that needs nothing else: its parts as HTML, one style for light, dark, phone and paper."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path


def write_document(path: Path, *, title: str, lead: str, sections: Sequence[str], broad: bool = False) -> Path:
    """Write the page, whole; nothing is loaded from anywhere when it is read. Wide tables want a broad one."""
    main = '<main class="broad">' if broad else "<main>"
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>{main}\n"
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></header>\n'
        f"{chr(10).join(sections)}\n</main></body></html>\n"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def section(heading: str, *parts: str) -> str:
    """A heading and what follows it."""
    return f"<section><h2>{escape(heading)}</h2>\n{''.join(parts)}</section>"


def text(*paragraphs: str) -> str:
    """Paragraphs."""
    return "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)


def figure(body: str, caption: str) -> str:
    """A chart and what it shows."""
    return f"<figure>{body}<figcaption>{escape(caption)}</figcaption></figure>"


def image(path: Path, caption: str) -> str:
    """A picture from a file, within the page; drawn for paper, it keeps its white ground in the dark."""
    data = base64.b64encode(path.read_bytes()).decode()
    kind = "svg+xml" if path.suffix == ".svg" else path.suffix.removeprefix(".")
    return figure(f'<img alt="{escape(caption)}" src="data:image/{kind};base64,{data}">', caption)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A table whose first columns are words and whose other columns are figures; wide ones scroll by themselves."""

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag} class={'words' if place < words else 'figure'}>{escape(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells(head, "th")}</tr></thead><tbody>{body}</tbody></table></div>'


def cards(entries: Sequence[tuple[str, str, str]]) -> str:
    """Figures that are to be seen first: (figure, what it is, a remark)."""
    found = (
        f"<div><b>{escape(figure)}</b><span>{escape(what)}</span><small>{escape(remark)}</small></div>"
        for figure, what, remark in entries
    )
    return f'<div class="cards">{"".join(found)}</div>'


def commands(lines: Sequence[tuple[str, str]]) -> str:
    """What to type, and why."""
    items = (f"<li><code>{escape(line)}</code><span>{escape(why)}</span></li>" for line, why in lines)
    return f'<ul class="commands">{"".join(items)}</ul>'


def quote(words: str) -> str:
    """A statement, set apart."""
    return f"<blockquote>{escape(words)}</blockquote>"


STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1d1f21;--soft:#565c62;--line:#d9dde1;--box:#f4f6f8;
--t0:#0072b2;--t1:#c24e00;--t2:#00795a;--t3:#a8477f;--t4:#8a6100;--t5:#555}
@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#e4e6e8;--soft:#a6adb4;--line:#3a4047;--box:#212529;
--t0:#6cbdf0;--t1:#f5955c;--t2:#4fcca6;--t3:#e6a5cb;--t4:#edc255;--t5:#b5bbc1}}
*{box-sizing:border-box}
body{margin:0;font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.2rem;margin:2.6rem 0 .6rem}
.lead{font-size:1.1rem;color:var(--soft);margin:.3rem 0 1.4rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem}
.cards div{background:var(--box);border-radius:.5rem;padding:.8rem 1rem;display:flex;flex-direction:column}
.cards b{font-size:1.55rem;line-height:1.25;font-variant-numeric:tabular-nums}.cards small{color:var(--soft)}
figure{margin:1.2rem 0}figcaption,.axis{color:var(--soft);font-size:.9rem}.axis{margin:0}
svg{display:block;width:100%;height:auto;max-width:44rem}svg text{fill:var(--soft);font:12.5px system-ui,sans-serif}
text.y{text-anchor:end}text.x,text.name{text-anchor:middle}
.grid{stroke:var(--line);stroke-width:.7}.edge{stroke:var(--soft);stroke-width:1}
.line{fill:none;stroke-width:2}.band{stroke:none;fill-opacity:.16}
.line.t0{stroke:var(--t0)}.line.t1{stroke:var(--t1);stroke-dasharray:7 3}.line.t2{stroke:var(--t2);stroke-dasharray:2 2}
.line.t3{stroke:var(--t3);stroke-dasharray:9 3 2 3}.line.t4{stroke:var(--t4)}
.line.t5{stroke:var(--t5);stroke-dasharray:1 4;stroke-linecap:round}
.band.t0,circle.t0{fill:var(--t0)}.band.t1,circle.t1{fill:var(--t1)}.band.t2,circle.t2{fill:var(--t2)}
.band.t3,circle.t3{fill:var(--t3)}.band.t4,circle.t4{fill:var(--t4)}.band.t5,circle.t5{fill:var(--t5)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.3rem 0 .6rem;font-size:.92rem}
.legend li{display:flex;align-items:center;gap:.45rem}.legend svg{width:28px;flex:none}
.bar{display:grid;grid-template-columns:minmax(7.5rem,12rem) 1fr 5.5rem;gap:.7rem;align-items:center;padding:.2rem 0}
.bar b{text-align:right;font-weight:600;font-variant-numeric:tabular-nums}
.bar i{display:block;height:1rem;min-width:2px;border-radius:2px;print-color-adjust:exact}
.bar .t0{background:var(--t0)}.bar .t1{background:var(--t1)}.bar .t2{background:var(--t2)}
.bar .t3{background:var(--t3)}.bar .t4{background:var(--t4)}.bar .t5{background:var(--t5)}
.wide{overflow-x:auto}.words{min-width:7.5rem}table{border-collapse:collapse;width:100%;font-size:.92rem;margin:.8rem 0}
th,td{border-bottom:1px solid var(--line);padding:.35rem .6rem;text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600;vertical-align:bottom}
.figure{text-align:right;font-variant-numeric:tabular-nums}td.figure{white-space:nowrap}
blockquote{margin:1rem 0;padding:.8rem 1.1rem;border-left:.3rem solid var(--t0);background:var(--box)}
.commands{list-style:none;padding:0}.commands li{margin:.7rem 0}.commands span{display:block;color:var(--soft)}
main.broad{max-width:68rem}caption{text-align:left;font-weight:600;padding:.3rem 0}
.holds{color:var(--t0);font-weight:600}.fails,.refuted{color:var(--t1);font-weight:600}.undecided{color:var(--soft)}
.holds,.fails,.undecided{white-space:nowrap}blockquote.refuted{border-color:var(--t1)}
tr.note td{color:var(--soft);padding-top:0}tr.noted>td{border-bottom:0}
img{display:block;max-width:100%;height:auto;background:#fff;border-radius:.25rem}
pre{background:var(--box);padding:.8rem;overflow-x:auto}details{margin:.2rem 0}summary{cursor:pointer}
td ul{margin:.3rem 0;padding-left:1.2rem;color:var(--soft)}
code{background:var(--box);padding:.15rem .4rem;border-radius:.25rem;font-size:.9rem;overflow-wrap:anywhere}
@media (max-width:30rem){.bar{grid-template-columns:1fr 5.5rem}.bar span:first-child{grid-column:1/-1}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;--box:#f4f6f8;--t0:#0072b2;
--t1:#c24e00;--t2:#00795a;--t3:#a8477f;--t4:#8a6100;--t5:#555}body{font-size:11pt}main{max-width:none;padding:0}
figure,.cards,blockquote,tr,li{break-inside:avoid}h2{break-after:avoid}svg{max-width:32rem}}
"""
