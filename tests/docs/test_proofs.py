"""Proofs and code find each other: a section names the files that rest on it, and a file the sections it rests on."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.docs.snippets import ROOT

SOURCE = ROOT / "src" / "quietshelf"
GROUPS = ("curation", "privacy", "serving")
CITED = re.compile(r"docs/proofs\.md,\s+sections?\s+((?:\d+|,|and|to|\s)+)")
INDEX = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "proofs").glob("*.md")}
PROOFS = "".join(PAGES.values())
HEADINGS = {
    int(number): (page, title)
    for page, text in PAGES.items()
    for number, title in re.findall(r"^## (\d+)\. (.*)$", text, re.MULTILINE)
}
RULES = dict(re.findall(r"^\| (R\d) [^|]*\|[^|]*\| ([^|]*) \|$", PROOFS, re.MULTILINE))
"""The rules of section 6, and the functions that each names."""


def sections(words: str) -> set[int]:
    """The numbers in "8 to 15 and 17"."""
    spans = re.findall(r"(\d+)(?:\s+to\s+(\d+))?", words)
    return {number for first, last in spans for number in range(int(first), int(last or first) + 1)}


def test_each_section_names_the_files_that_cite_it_and_no_other() -> None:
    """The table at the head of the proofs is what the files themselves say."""
    cited = defaultdict(set)
    for path in (path for group in GROUPS for path in (SOURCE / group).rglob("*.py")):
        for words in CITED.findall(path.read_text(encoding="utf-8")):
            for number in sections(words):
                cited[number].add(path.relative_to(SOURCE).as_posix())
    rows = re.findall(r"^\| \[(\d+)\]\([^)]*\) [^|]*\| ([^|]*) \|$", INDEX, re.MULTILINE)
    table = {int(number): set(re.findall(r"`([\w/.]+\.py)`", files)) for number, files in rows}
    assert list(table) == sorted(HEADINGS)
    assert {number: files for number, files in table.items() if files} == dict(cited)


def rules_named(path: str) -> Iterator[tuple[str, str]]:
    """What is defined in a file, and the rule that its docstring begins with; methods as ``Class.method``."""
    tree = ast.parse((SOURCE / path).read_text(encoding="utf-8"))
    for node in tree.body:
        for each in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                name = each.name if each is node else f"{getattr(node, 'name', '')}.{each.name}"
                first = (ast.get_docstring(each) or "").partition(":")[0]
                yield from ((name, rule) for rule in re.findall(r"\bR\d\b", first) if first.startswith("R"))


def test_each_rule_names_its_functions_and_they_name_the_rule() -> None:
    """Section 6 lists where a rule is implemented; the function's docstring begins with the rule; none is left out."""
    assert list(RULES) == [f"R{number}" for number in range(1, 9)]
    listed = {
        (path, name, rule)
        for rule, places in RULES.items()
        for path, names in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", places)
        for name in re.findall(r"`([\w.]+)`", names)
    }
    for path, name, rule in listed:
        assert (name, rule) in set(rules_named(path)), f"{path}: {name} must say {rule}"
    for path in sorted((SOURCE / "curation").rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        assert {(place, *found) for found in rules_named(place)} <= listed, f"section 6 must name all of {place}"


def test_section_numbers_in_other_pages_lead_to_their_section() -> None:
    """A number in brackets is a link, and to the heading of that number."""
    for name in ("guarantee", "sharp-edges", "privacy-officers"):
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        defined = dict(re.findall(r"^\[(\d+)\]: proofs/(\S+)$", text, re.MULTILINE))
        used = {number for words in re.findall(r"(?<=\s)\[(\d[\d, ]*)\](?![:(])", text) for number in words.split(",")}
        assert used <= set(defined), name
        for number, anchor in defined.items():
            page, title = HEADINGS[int(number)]
            slug = re.sub(r"[^\w\s-]", "", f"{number}. {title}").lower().replace(" ", "-")
            assert anchor == f"{page}#{slug}", name
