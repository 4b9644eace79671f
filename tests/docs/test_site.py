"""The site builds without a warning, fetches nothing from elsewhere, and its references are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from scripts.docs.api import PUBLIC
from scripts.docs.commands import commands
from scripts.docs.routes import openapi
from tests.docs.snippets import PAGES, ROOT
from tests.pages.browser import browser, demand_browser

import quietshelf
from quietshelf.serving.service.settings import ServiceSettings

FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``make site`` builds it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Outside(HTMLParser):
    """Collects what a page would fetch from elsewhere; links that a reader follows are not fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        value = given.get(FETCHED.get(tag, "")) or ""
        canonical = tag == "link" and given.get("rel") in ("canonical", "prev", "next")
        if not canonical and re.match(r"(https?:)?//", value):
            self.found.append(value)
        if "mermaid" in (given.get("class") or "").split():
            self.found.append("mermaid, which the theme would fetch")


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """No script, style, picture or font of any page or style sheet has an address outside the site."""
    for page in site.rglob("*.html"):
        outside = Outside()
        outside.feed(page.read_text(encoding="utf-8"))
        assert outside.found == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), (
            sheet.name
        )


def test_search_works_where_the_site_is_opened_from_disk(site: Path) -> None:
    """Without a server, from a page in a folder too; each result leads to a page that is there."""
    demand_browser()
    with browser() as started:
        page = started.new_page()
        for name in ("index.html", "reference/python.html"):
            page.goto((site / name).as_uri())
            page.locator("input.md-search__input").click()
            page.keyboard.type("erasure")
            found = page.locator("a.md-search-result__link").first
            found.wait_for()
            target = str(found.evaluate("link => link.href"))
            assert Path(target.removeprefix("file://").partition("#")[0].partition("?")[0]).is_file()


def test_references_hold_all_that_the_code_has(site: Path) -> None:
    """Every command and option, every route and body, every public name, every setting, every example."""
    cli = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for name, command in commands():
        assert f"{name.removeprefix('quietshelf ')}<" in cli
        assert all(f"<code>{opt}</code>" in cli for one in command.params for opt in one.opts if opt.startswith("-"))
    http = (site / "reference" / "http.html").read_text(encoding="utf-8")
    document = openapi()
    for path, methods in document["paths"].items():
        assert all(f"{method.upper()} {path}</code>" in http for method in methods)
    assert all(f'id="{name.lower()}"' in http for name in document["components"]["schemas"])
    python = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert all(f'id="{name}"' in python for names in PUBLIC.values() for name in names)
    assert "<blockquote>" not in python  # examples are code
    settings = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    assert all(f"<code>{each.name}</code>" in settings for each in fields(ServiceSettings))
    examples = (site / "examples.html").read_text(encoding="utf-8")
    assert all(f"examples/{path.name}" in examples for path in (ROOT / "examples").glob("*.py"))


def test_the_python_reference_has_what_the_package_exports() -> None:
    """And says of each name where to import it from."""
    told = {name for names in PUBLIC.values() for name in names}
    assert {f"quietshelf.{name}" for name in quietshelf.__all__ if name != "__version__"} <= told
    for name in told:
        module, _, last = name.rpartition(".")
        assert hasattr(import_module(module), last), name


@pytest.mark.parametrize(("page", "more"), [("concepts", 0), ("architecture", 1)])
def test_drawings_are_part_of_their_page(site: Path, page: str, more: int) -> None:
    """So that they take its colours; each says in words what it shows. The architecture has the arrow as well."""
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    drawn = re.findall(r'<svg role="img" aria-label="([^"]+)" class="drawing"', text)
    assert len(drawn) == len(list((ROOT / "docs" / "images" / page).glob("*.svg"))) + more
    assert all(len(words) > 20 for words in drawn)


def test_every_picture_is_shown() -> None:
    """Nothing lies in docs/images that no page shows; what the site itself needs is named in mkdocs.yml."""
    told = "".join(path.read_text(encoding="utf-8") for path in (*PAGES, ROOT / "mkdocs.yml"))
    pictures = [path for path in (ROOT / "docs" / "images").rglob("*.*") if path.suffix != ".json"]
    assert [path.name for path in pictures if f"{path.parent.name}/{path.name}" not in told] == []
