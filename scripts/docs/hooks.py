"""Hooks that mkdocs calls while it builds the site (named in mkdocs.yml)."""

from __future__ import annotations

import re
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOOK = ROOT / "src" / "quietshelf" / "report" / "look"
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "src")) if path not in sys.path]

from mkdocs.structure.files import File, Files  # noqa: E402 - after the path is set
from scripts.docs.pages import generated  # noqa: E402 - the same

PICTURE = re.compile(r'<img [^>]*src="([^"]*images/(?:dashboard|studies)/[^"]+)"[^>]*>')
DRAWING = re.compile(r'<img alt="([^"]*)" src="[^"]*?(images/(?:concepts|architecture)/[^"/]+\.svg)" ?/?>')


def on_files(files: Files, *, config: Any) -> Files:
    """Add the generated pages, and the styles that the site shares with service and reports."""
    for place, text in generated().items():
        files.append(File.generated(config, place, content=text))
    for name in ("tokens.css", "icon.svg"):
        files.append(File.generated(config, f"images/{name}", content=(LOOK / name).read_bytes()))
    return files


def on_page_content(html: str, *, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 - mkdocs passes them
    """Inline drawings, so that they follow the page's colours, light or dark; link pictures to their full size."""
    html = PICTURE.sub(lambda match: f'<a href="{match.group(1)}">{match.group()}</a>', html)
    return DRAWING.sub(lambda match: _drawing(Path(config.docs_dir) / match.group(2), match.group(1)), html)


def _drawing(path: Path, words: str) -> str:
    svg = path.read_text(encoding="utf-8")
    label = escape(unescape(words), quote=True)
    return svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}" class="drawing"', 1)
