"""What the page on the architecture names is in the code, and its picture of the rooms is what `make check` checks."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest
from tests.docs.snippets import ROOT

SOURCE = ROOT / "src" / "quietshelf"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)`(?:: ((?:`[\w.]+`(?:, )?)+))?", PAGE)))


def defined(path: str) -> set[str]:
    """Functions, classes, constants and methods of a file; methods as ``Class.method``."""
    names: set[str] = set()
    for node in ast.parse((SOURCE / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{each.name}" for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize(("path", "names"), NAMED)
def test_named_functions_exist(path: str, names: str) -> None:
    """A file that is gone, or a function that was renamed, must be named anew on the page."""
    assert set(re.findall(r"`([\w.]+)`", names)) <= defined(path)


def test_the_picture_shows_the_layers_that_are_checked() -> None:
    """Every group of rooms, on the layer where import-linter has it, with its rooms."""
    drawing = (ROOT / "docs" / "images" / "architecture" / "rooms.svg").read_text(encoding="utf-8")
    rows: dict[float, set[str]] = {}
    for height, room in re.findall(r'y="([\d.]+)"[^>]* text-anchor="middle">(\w+)<', drawing):
        rows.setdefault(float(height), set()).add(room)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    assert [rows[height] for height in sorted(rows)] == [set(re.findall(r"\w+", layer)) for layer in layers]
    boxes = dict(re.findall(r'text-anchor="middle">(\w+)</text>\n[^\n]*style="text-anchor: middle">([^<]*)<', drawing))
    groups = project["tool"]["importlinter"]["contracts"][1]["containers"]
    assert {f"quietshelf.{group}" for group in boxes} == set(groups)
    for group, rooms in boxes.items():
        assert set(rooms.split(" · ")) == {path.parent.name for path in (SOURCE / group).glob("*/__init__.py")}
