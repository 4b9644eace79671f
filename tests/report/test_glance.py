"""Many worlds at a glance: the picture and its numbers."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.report.glances import SEEN

from quietshelf.report import draw_glance, write_glance_csv
from quietshelf.report.glance_table import glance_table


def test_picture_says_everything_in_words_and_marks(tmp_path: Path) -> None:
    """Names, sizes, figures, marks with their counts, and what they mean; as SVG with real letters, and as PNG."""
    svg, png = draw_glance(SEEN, tmp_path)
    text = svg.read_text(encoding="utf-8")
    for said in ("Two shops", "ids only", "d 49", "3.3 %", "×21", "■ 3", "▼ 7", "geometric mean", "×7.5", "stuck"):
        assert said in text
    assert ("■ 0" in text, "▼ 0" in text) == (False, False)
    assert png.read_bytes().startswith(b"\x89PNG")


def test_numbers_of_the_picture_are_a_table(tmp_path: Path) -> None:
    """One line for each cell; a cell without a multiple has none."""
    with write_glance_csv(SEEN, tmp_path / "seen.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["world"], row["column"], row["multiple"]) for row in rows] == [
        ("ids only", "no privacy", ""),
        ("ids only", "ρ = 1", "2.7"),
        ("hotels", "no privacy", ""),
        ("hotels", "ρ = 1", "21"),
    ]


def test_the_table_of_a_page_says_the_same() -> None:
    """Every name, figure and mark of the picture, the darker the more is lost; none is told by colour alone."""
    page = glance_table(SEEN)
    for said in ("ids only", "d 49", "3.3 %", "×21", "■ 3", "▼ 7", "geometric mean", "×7.5", "stuck"):
        assert said in page
    assert re.findall(r'<td class="(h\d)"><b>([^<]+)', page) == [("h1", "9 %"), ("h4", "99 %")]
    assert "<td><b>3.3 %" in page
