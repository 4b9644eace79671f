"""What people read uses the words that they know; src/quietshelf names things the same way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts.docs.pages import generated
from tests.docs.snippets import PAGES, ROOT

TEMPLATES = sorted((ROOT / "src" / "quietshelf" / "serving" / "service" / "pages" / "templates").glob("*.html"))
CLIENT = ROOT / "clients" / "typescript" / "README.md"
BETTER = {
    "anew": "again",
    "entrants?": "contestant",
    "estranged": "history_incomplete",
    "hardly": "barely, or rarely",
    "kindred": "mergeable",
    "likewise": "the same, or too",
    "made[- ]up": "simulated",
    "plugged": "validated",
    "so many": "the number",
    "strangers?": "others",
    "whoever": "anyone who",
}
"""Retired words, and what to write."""


NAME = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
"""A name in backticks: the changelog says what things were called."""


def found(text: str) -> dict[str, str]:
    """The retired words of a text with the better ones."""
    words = NAME.sub("", text)
    return {word: better for word, better in BETTER.items() if re.search(rf"\b{word}\b", words, re.IGNORECASE)}


@pytest.mark.parametrize("path", [*PAGES, CLIENT, *TEMPLATES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_use_words_that_readers_know(path: Path) -> None:
    """Guides, proofs, project files and the pages of the service."""
    assert found(path.read_text(encoding="utf-8")) == {}


@pytest.mark.parametrize("place", sorted(generated()))
def test_references_use_words_that_readers_know(place: str) -> None:
    """What is made from the code: `--help`, docstrings of the public API, routes, settings, examples."""
    assert found(generated()[place]) == {}


def test_a_retired_word_is_found() -> None:
    """In any case and at the end of a line, but not inside another word or a name."""
    assert found("Whoever\ncomes is asked anew.") == {"anew": "again", "whoever": "anyone who"}
    assert found("renewed, so manyfold, `loop.plugged`") == {}
