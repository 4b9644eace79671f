"""Charts as text: they show the numbers they were given."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from quietshelf.report.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Curve, bars, line_chart
from quietshelf.report.document import section, table, text, write_document


def drawn(chart: str) -> ET.Element:
    found = re.search(r"<svg viewBox=\"0 0 480.*?</svg>", chart, re.DOTALL)
    assert found is not None
    return ET.fromstring(found[0])  # noqa: S314 - our own text


def line_of(svg: ET.Element, tone: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    path = next(part for part in svg.iter("path") if part.get("class") == f"line t{tone}")
    return np.array([point.split() for point in path.attrib["d"].removeprefix("M").split("L")], dtype=np.float64)


def test_points_lie_where_their_values_say() -> None:
    """A straight line from corner to corner, on linear and on logarithmic axes; drawn to a tenth, so within 0.05."""
    x, y = np.array([0.0, 5.0, 10.0]), np.array([0.0, 50.0, 100.0])
    corners = [[LEFT, HEIGHT - BOTTOM], [WIDTH - RIGHT, TOP]]
    linear = line_of(drawn(line_chart([Curve("a", x, y, 0 * y, 0)], x_label="x", y_label="y")), 0)
    np.testing.assert_allclose(linear[[0, -1]], corners, atol=0.051)
    np.testing.assert_allclose(linear[1], np.mean(corners, axis=0), atol=0.051)
    powers = np.array([1.0, 10.0, 100.0])
    curve = Curve("a", powers, powers, 0 * powers, 1)
    logs = line_of(drawn(line_chart([curve], x_label="x", y_label="y", log_x=True, log_y=True)), 1)
    np.testing.assert_allclose(logs[:, 0], np.linspace(LEFT, WIDTH - RIGHT, 3), atol=0.051)


def test_what_a_logarithm_cannot_show_is_left_out() -> None:
    """Zeros at the start of a curve and infinite values draw no point, and no NaN reaches the page."""
    y = np.array([0.0, 1.0, np.inf, 10.0])
    chart = line_chart([Curve("a", np.arange(4.0), y, np.full(4, np.nan), 0)], x_label="x", y_label="y", log_y=True)
    assert len(line_of(drawn(chart), 0)) == 2
    assert "nan" not in chart
    assert "inf" not in chart


def test_bars_are_proportional_and_words_are_escaped() -> None:
    """The longest bar is full; names cannot inject markup, in bars, legends, tables or text."""
    made = bars([("<b>", 1.0, "1 %", 0), ("half", 0.5, "0.5 %", 1)], label="lost")
    assert re.findall(r"width:([\d.]+)%", made) == ["100.00", "50.00"]
    evil = "<script>"
    curve = Curve(evil, np.array([1.0, 2.0]), np.array([1.0, 2.0]), np.zeros(2), 0)
    parts = [made, line_chart([curve], x_label=evil, y_label=evil), table([evil], [[evil]]), text(evil), section(evil)]
    assert all(evil not in part and "<b>1" not in part.replace("<b>1 %", "") for part in parts)


@pytest.mark.parametrize("title", ["A page", "Q & A <now>"])
def test_document_is_whole_and_dark_light_and_print_are_styled(tmp_path: Path, title: str) -> None:
    """One file with its own style for dark screens, phones and paper."""
    page = write_document(tmp_path / "deep" / "page.html", title=title, lead="words", sections=[text("body")])
    found = page.read_text(encoding="utf-8")
    for needed in ("prefers-color-scheme:dark", "@media print", "max-width:30rem", 'name="viewport"', "<p>body</p>"):
        assert needed in found
    assert found.count("<h1>") == 1
