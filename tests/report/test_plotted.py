"""What figures show, as numbers, and the figures themselves."""

from __future__ import annotations

import csv
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quietshelf.report import PageTable, Section, Series, draw, plotted, write_csv, write_page
from quietshelf.report.multiples import multiples

TIMES = np.array([10.0, 20.0])
FIGURE: dict[str, Any] = {
    "name": "one",
    "title": "A figure",
    "where": {"policy": "a"},
    "rows": "fits",
    "columns": "dim",
    "lines": ["rho"],
    "floor": ["greedy"],
}


def series(final: float, **settings: Any) -> Series:
    regret = np.array([[0.4, 0.9], [0.6, 1.1]]) * final
    return Series(settings, TIMES, regret, proven=settings.get("rho", np.inf))


@pytest.fixture
def study() -> list[Series]:
    """Two dimensions, two caps, two levels, and a floor in each dimension."""
    own = [
        series(10 / rho, policy="a", dim=dim, fits=fits, rho=rho)
        for dim in (3, 5)
        for fits in (2, "auto")
        for rho in (1.0, 2.0)
    ]
    return [*own, *(series(1.0, policy="greedy", dim=dim) for dim in (3, 5))]


def test_panels_are_the_combinations_of_rows_and_columns(study: list[Series]) -> None:
    """Each has its own lines, ordered by their setting, and the floor of its world last."""
    figure = plotted(FIGURE, study)
    assert [(panel.row, panel.column) for panel in figure.panels] == [
        (f"D_MLE = {fits}", f"d = {dim}") for fits in (2, "auto") for dim in (3, 5)
    ]
    assert [[line.label for line in panel.lines] for panel in figure.panels] == 4 * [
        ["ρ = 1", "ρ = 2", "greedy, no privacy"]
    ]


def test_band_is_the_student_interval_of_the_mean(study: list[Series]) -> None:
    """Two replicates, 9 and 11: 10 ± 12.706; regret starts at zero."""
    line = plotted(FIGURE, study).panels[0].lines[0]
    assert line.x.tolist() == [0, 10, 20]
    np.testing.assert_allclose(line.mean, [0, 5, 10])
    np.testing.assert_allclose(line.half, [0, 12.7062, 12.7062], rtol=1e-5)


def test_final_figure_has_one_point_a_value_of_x(study: list[Series]) -> None:
    """The floor runs along a setting of the world, and is level along one of policies."""
    along = plotted({**FIGURE, "kind": "final", "x": "dim", "columns": "fits", "rows": None}, study)
    assert [line.x.tolist() for line in along.panels[0].lines] == [[3, 5], [3, 5], [3, 5]]
    level = plotted({**FIGURE, "kind": "final", "x": "rho_proven", "lines": ["policy"]}, study)
    ours, floor = level.panels[0].lines
    assert ours.x.tolist() == [1, 2]
    assert np.isnan(floor.x).all()


def test_csv_holds_every_point_that_is_drawn(study: list[Series], tmp_path: Path) -> None:
    """Mean and both ends of the band of each."""
    figure = plotted(FIGURE, study)
    with write_csv([figure], tmp_path / "p.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(line.x) for panel in figure.panels for line in panel.lines)
    last = rows[2]
    assert (last["line"], float(last["x"]), float(last["mean"])) == ("ρ = 1", 20, 10)
    assert float(last["low"]) == pytest.approx(10 - 12.7062, rel=1e-4)


@pytest.mark.parametrize(
    "extra", [{}, {"kind": "final", "x": "rho_proven", "lines": ["policy"], "log_x": True, "log_y": True}]
)
def test_figures_are_drawn_with_labels_and_legend(study: list[Series], tmp_path: Path, extra: dict[str, Any]) -> None:
    """SVG and PNG; the SVG's text names the panels, the axes, the lines and the band."""
    figure = plotted({**FIGURE, **extra}, study)
    svg, png = draw(figure, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    words = " ".join(ET.parse(svg).getroot().itertext())  # noqa: S314 - our own file
    wanted = ["A figure", figure.x_label, "regret", "d = 3", "D_MLE = auto", "95 % confidence", "greedy, no privacy"]
    assert [word for word in wanted if word not in words] == []


def test_drawing_twice_gives_the_same_file(study: list[Series], tmp_path: Path) -> None:
    """No dates, no random names: a figure changes when its numbers do."""
    first, _ = draw(plotted(FIGURE, study), tmp_path / "a")
    second, _ = draw(plotted(FIGURE, study), tmp_path / "b")
    assert first.read_bytes() == second.read_bytes()


def test_panels_of_a_row_have_the_same_axes(study: list[Series]) -> None:
    """So that they can be compared; each line has one look in all of them, and the list names each once."""
    made = multiples(plotted(FIGURE, study))
    heights = [re.findall(r'<text x="40" y="([\d.]+)"[^>]*>([^<]+)<', each) for each in made.split("<h3>")[1:]]
    assert heights[0] == heights[1]
    assert re.findall(r"<li>.*?class=\"line (\w+)\".*?</svg>([^<]+)</li>", made) == [
        ("t0", "ρ = 1"), ("t1", "ρ = 2"), ("t5", "greedy, no privacy"),
    ]  # fmt: skip


def test_a_level_line_crosses_the_only_panel(study: list[Series]) -> None:
    """What has no place on the axis is drawn from end to end; one panel alone carries names on its lines."""
    figure = {**FIGURE, "kind": "final", "x": "rho_proven", "lines": ["policy"], "rows": None, "columns": None}
    made = multiples(plotted({**figure, "where": {"policy": "a", "dim": 3, "fits": 2}}, study))
    assert "<h3>" not in made
    assert 'class="name t5"' in made
    level = re.search(r'd="M([\d.]+) ([\d.]+) L([\d.]+) ([\d.]+)" class="line t5"', made)
    assert level is not None
    assert level[2] == level[4]
    assert float(level[3]) > float(level[1])


def test_page_is_self_contained_and_escapes(study: list[Series], tmp_path: Path) -> None:
    """Figures are inlined, nothing is fetched, words from settings cannot become markup."""
    drawing = multiples(plotted(FIGURE, study))
    rows = [("a < b & c", "holds", "3 of 3"), ("d", "fails", "1 of 3"), ("d", "undecided", "2 of 3")]
    table = PageTable("Claims", ("claim", "verdict", "comparisons"), rows, [["x > y"], ["z"], ["z"]])
    section = Section(
        "A <study>", ["Text."], [table], [(drawing, "caption")], "quietshelf reproduce it", [("seed", "1")]
    )
    page = write_page(tmp_path / "report.html", "Title", [section, section]).read_text(encoding="utf-8")
    assert page.count('<svg viewBox="0 0 270 ') == 8  # four panels in each section
    assert "http" not in page
    assert "src=" not in page
    assert "a &lt; b &amp; c" in page
    assert "<study>" not in page
    assert "✔ holds" in page
    assert "✘ fails" in page
    assert page.count('<td class="said" rowspan="2">d</td>') == 2  # said once a table
    assert page.count("<summary>2 of 3</summary>") == 2
    assert page.count("quietshelf reproduce it") == 2
