"""What figures show, as numbers, and the figures themselves."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quietshelf.report import Section, Series, Table, draw, plotted, write_csv, write_page

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
    """Two replicates, 9 and 11: 10 ± 12.706; nobody has lost anything at the start."""
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


def test_page_is_self_contained_and_escapes(study: list[Series], tmp_path: Path) -> None:
    """Figures are inlined, nothing is fetched, words from settings cannot become markup."""
    svg, _ = draw(plotted(FIGURE, study), tmp_path)
    rows = [("a < b & c", "holds", "3 of 3"), ("d", "fails", "1 of 3"), ("d", "undecided", "2 of 3")]
    table = Table("Claims", ("claim", "verdict", "comparisons"), rows, [["x > y"], ["z"], ["z"]])
    section = Section("A <study>", ["Text."], [table], [(svg, "caption")], "quietshelf reproduce it", [("seed", "1")])
    page = write_page(tmp_path / "report.html", "Title", [section, section]).read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "http" not in page.replace("http-equiv", "")
    assert "a &lt; b &amp; c" in page
    assert "<study>" not in page
    assert "✔ holds" in page
    assert "✘ fails" in page
    assert page.count('<td rowspan="2">d</td>') == 2  # said once a table
    assert page.count("<summary>2 of 3</summary>") == 2
    assert page.count("quietshelf reproduce it") == 2
