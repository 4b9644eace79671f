"""Pages of the site that are generated from other files of the repository."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from scripts.docs.api import api_page
from scripts.docs.commands import commands_page
from scripts.docs.routes import routes_page
from scripts.docs.settings import settings_page

ROOT = Path(__file__).parents[2]
CLIENT = "clients/typescript/README.md"
AT_THE_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "notation.md": "NOTATION.md"}
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
BUTTONS = " ".join(
    f"[{says}]({page}){{ .md-button{kind} }}"
    for says, page, kind in (
        ("Quick start", "quick-start.md", " .md-button--primary"),
        ("The guarantee", "guarantee.md", ""),
        ("How it works", "concepts.md", ""),
    )
)
EXAMPLES = """# Examples

Copy and adapt complete programs, one file each, with their settings at the top. Run one with
`python examples/NAME.py`, as the test suite does.
"""


def generated() -> dict[str, str]:
    """The Markdown of every generated page, by its path on the site."""
    pages = {place: from_root((ROOT / name).read_text(encoding="utf-8")) for place, name in AT_THE_ROOT.items()}
    return pages | {
        "index.md": front_page((ROOT / "README.md").read_text(encoding="utf-8")),
        "examples.md": examples_page(ROOT / "examples"),
        "typescript.md": (ROOT / CLIENT).read_text(encoding="utf-8").replace("../../docs/", ""),
        "reference/cli.md": commands_page(),
        "reference/http.md": routes_page(),
        "reference/python.md": api_page(),
        "reference/settings.md": settings_page(),
    }


def front_page(readme: str) -> str:
    r"""The README with buttons below its first paragraph.

    >>> front_page("# Name\n\nWhat it does.\n\nMore.").splitlines()[4][:33]
    '[Quick start](quick-start.md){ .m'
    """
    title, promise, rest = from_root(readme).split("\n\n", 2)
    return "\n\n".join([title, promise, BUTTONS, rest])


def from_root(text: str) -> str:
    """Markdown from the repository's root, with its links rewritten for the site.

    >>> from_root("[a](docs/proofs.md#one), [b](CHANGELOG.md), [c](https://example.org)")
    '[a](proofs.md#one), [b](changelog.md), [c](https://example.org)'
    """
    places = {name: place for place, name in AT_THE_ROOT.items()} | {"README.md": "index.md", CLIENT: "typescript.md"}

    def moved(match: re.Match[str]) -> str:
        path, anchor = match.group(1), match.group(2) or ""
        return f"]({places.get(path, path.removeprefix('docs/'))}{anchor})"

    return LINK.sub(moved, text)


def examples_page(folder: Path) -> str:
    """Every example: its docstring, then its code."""
    parts = [EXAMPLES]
    for path in sorted(folder.glob("*.py")):
        code = path.read_text(encoding="utf-8")
        words = (ast.get_docstring(ast.parse(code)) or "").replace("``", "`")
        body = code.split('"""', 2)[2].strip()
        fence = f'```python title="examples/{path.name}"\n{body}\n```'
        parts += [f"## {path.stem.replace('_', ' ').capitalize()}", words, fence]
    return "\n\n".join(parts) + "\n"
