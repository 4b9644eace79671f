"""Charts as text: they show the numbers they were given."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from quietshelf.report.charts import Curve, Words, apart, bars, columns, line_chart, log_axis, spark
from quietshelf.report.document import headline, section, table, text, write_document
from quietshelf.report.frame import BOTTOM, LEFT, TOP, Axis, Frame
from quietshelf.report.svg import NARROW, WIDE, Markup

PLAIN = Words("one", "Title", "Says")
Places = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def drawn(chart: str, kind: str = "narrow") -> ET.Element:
    svg = next(each for each in re.findall(r"<svg.*?</svg>", chart, re.DOTALL) if f'class="chart {kind}"' in each)
    return ET.fromstring(svg)  # noqa: S314 - our own text


def line_of(svg: ET.Element, tone: int) -> Places:
    path = next(part for part in svg.iter("path") if part.get("class") == f"line t{tone}")
    return np.array([point.split() for point in path.attrib["d"].removeprefix("M").split(" L")], dtype=np.float64)


def curve(x: Places, y: Places, tone: int = 0, label: str = "a") -> Curve:
    return Curve(label, x, y, 0 * y, tone)


def test_points_lie_where_their_values_say() -> None:
    """A straight line from corner to corner, on linear and on logarithmic axes; drawn to a hundredth."""
    x, y = np.array([0.0, 5.0, 10.0]), np.array([0.0, 50.0, 100.0])
    svg = drawn(line_chart([curve(x, y)], PLAIN))
    height = float(svg.attrib["viewBox"].split()[-1])
    corners = [[LEFT, height - BOTTOM], [NARROW - 14, TOP]]
    linear = line_of(svg, 0)
    np.testing.assert_allclose(linear[[0, -1]], corners, atol=0.006)
    np.testing.assert_allclose(linear[1], np.mean(corners, axis=0), atol=0.006)
    powers = np.array([1.0, 10.0, 100.0])
    axis = Axis.of([powers], log=True)
    logs = line_of(drawn(line_chart([curve(powers, powers, 1)], PLAIN, x=axis, y=axis)), 1)
    np.testing.assert_allclose(logs[:, 0], np.linspace(LEFT, NARROW - 14, 3), atol=0.006)
    np.testing.assert_allclose(logs[:, 1], np.linspace(height - BOTTOM, TOP, 3), atol=0.006)


def test_what_a_logarithm_cannot_show_is_left_out() -> None:
    """Zeros at the start of a curve and infinite values draw no point, and no NaN reaches the page."""
    y = np.array([0.0, 1.0, np.inf, 10.0])
    given = Curve("a", np.arange(4.0), y, np.full(4, np.nan), 0)
    chart = line_chart([given], PLAIN, y=log_axis([given]))
    assert len(line_of(drawn(chart), 0)) == 2
    assert "nan" not in chart
    assert "inf" not in chart


def test_lines_carry_their_names_where_there_is_room() -> None:
    """The wide drawing names each line, in its colour and apart from the others; the narrow one leaves it to a list."""
    x = np.array([0.0, 1.0])
    curves = [curve(x, x + place / 1000, place, f"line {place}") for place in range(4)]
    chart = line_chart(curves, PLAIN)
    names = [part for part in drawn(chart, "wide").iter("text") if "name" in part.attrib["class"]]
    assert {part.text: part.attrib["class"] for part in names} == {f"line {n}": f"name t{n}" for n in range(4)}
    heights = sorted(float(part.attrib["y"]) for part in names)
    assert np.diff(heights).min() >= 14.9
    assert not [part for part in drawn(chart).iter("text") if "name" in part.attrib["class"]]
    assert chart.count("<li>") == 4


@pytest.mark.parametrize("sizes", [[15.0] * 6, [15.0, 30.0, 15.0]])
def test_names_that_would_cover_each_other_are_moved_apart(sizes: list[float]) -> None:
    """Neighbouring labels never overlap, wherever their lines end, and none leaves the drawing below."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        middles = apart(rng.uniform(0, 250, len(sizes)).tolist(), sizes, 250.0)
        order = np.argsort(middles)
        low, high = np.array(middles) - np.array(sizes) / 2, np.array(middles) + np.array(sizes) / 2
        assert (low[order][1:] >= high[order][:-1] - 1e-9).all()
        assert high.max() <= 250.0 + 1e-9


def test_columns_tell_unknown_from_none() -> None:
    """An unknown value is marked at the base, a zero has no bar, and the highest bar is as high as its value."""
    svg = drawn(columns([None, 0.0, 4.0, 2.0], PLAIN, feet=str))
    kinds = [part.get("class") for part in svg.iter() if part.get("class") in ("unknown", "bar", "bar now")]
    assert kinds == ["unknown", "bar", "bar now"]
    high, low = (float(part.attrib["height"]) for part in svg.iter("rect"))
    assert high == pytest.approx(2 * low, abs=0.02)
    assert spark([None, 0.0, 4.0]).count("<rect") == 1
    assert spark([]).count("<rect") == 0


def test_axes_hold_all_values_between_round_marks() -> None:
    """Also negative ones, none, and a single one."""
    for values in ([-3.2, 7.9], [0.0], [], [5.0], [0.00012]):
        axis = Axis.of([np.array(values)])
        assert axis.low <= min([0.0, *values])
        assert axis.high >= max([0.0, *values])
        assert axis.marks[0] == axis.low
        assert axis.marks[-1] == axis.high
    assert Axis.of([np.array([0.0, 0.5, 800.0])], log=True).low == 0.5
    assert Frame(WIDE, Axis(0, 1, ()), Axis(0, 1, ())).feet() == []


def test_bars_are_proportional_and_words_are_escaped() -> None:
    """The longest bar is full; names cannot inject markup, in bars, legends, titles, tables or text."""
    made = bars([("<b>", 1.0, "1 %", 0), ("half", 0.5, "0.5 %", 1)], caption="lost")
    assert re.findall(r'<rect x="0" y="1" width="(\d+)"', made) == ["100", "50"]
    evil = "<script>"
    curves = [curve(np.array([1.0, 2.0]), np.array([1.0, 2.0]), tone, f"{evil}{tone}") for tone in (0, 1)]
    chart = line_chart(curves, Words("name", evil, evil, x=evil, y=evil))
    parts = [made, chart, table([evil], [[evil]], caption=evil), text(evil), section(evil), headline(evil, evil)]
    assert all(evil not in part and "<b>1" not in part.replace("<b>1 %", "") for part in parts)


def test_nothing_is_styled_or_scripted_in_line() -> None:
    """The strict policy of the service's pages would drop it."""
    x = np.array([0.0, 1.0])
    chart = line_chart([curve(x, x), curve(x, x, 8, "b")], Words("n", "t", "s", x="x", y="y"), dots=True)
    for made in (chart, bars([("a", 1.0, "1", 0)], caption="c"), columns([1.0], PLAIN, feet=str), spark([1.0])):
        assert isinstance(made, Markup)
        assert not re.search(r"style=|<style|<script|\son\w+=|url\(", made)


@pytest.mark.parametrize("title", ["A page", "Q & A <now>"])
def test_document_is_whole_and_dark_light_and_print_are_styled(tmp_path: Path, title: str) -> None:
    """One file with its own style for dark screens, phones and paper."""
    page = write_document(tmp_path / "deep" / "page.html", title=title, lead="words", sections=[text("body")])
    found = page.read_text(encoding="utf-8")
    for needed in ("light-dark(", "@media print", "@container", 'name="viewport"', "<p>body</p>"):
        assert needed in found
    assert found.count("<h1>") == 1
