"""Reports in a real browser: they read as well as the pages of the service, on a screen, a phone and in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pages.browser import CHECKS, DESKTOP, PHONE
from tests.report.glances import SEEN

from quietshelf.demo.page import DemoStory, demo_page
from quietshelf.report import PageTable, Section, write_page
from quietshelf.report.audit_page import AuditRow, audit_page
from quietshelf.report.charts import Curve
from quietshelf.report.glance_table import glance_table
from quietshelf.report.multiples import multiples
from quietshelf.report.plan_page import plan_page
from quietshelf.report.plotted import Line, Panel, Plotted
from quietshelf.research.auditing.audit_report import roc_curve
from quietshelf.research.auditing.measure import Roc

X = np.array([1.0, 10.0, 100.0])
CURVES = [Curve(f"policy {tone}, as printed in the paper", X, X + tone, X / 5, tone) for tone in range(5)]
WIDE = ("what", "how much of it there is", "in a column of words", "and figures", "claimed", "proven")
ROWS = [[f"row {row}", *(f"{column}.2345 ± 0.1" for column in range(5))] for row in range(4)]
LEVEL = np.array([0.0, 0.01, 0.1, 1.0])


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of each kind, with long names and wide tables."""
    folder = tmp_path_factory.mktemp("reports")
    panels = tuple(
        Panel(f"row {place}", f"column {place}", (Line("a", X, X, X / 9), Line("b", X, 2 * X, X / 9, floor=True)))
        for place in range(3)
    )
    drawings = [(multiples(Plotted("many", "Many", "visitors", 3, panels)), "Panels, 95 % bands."),
                (multiples(Plotted("one", "One", "visitors", 1, panels[:1])), "One alone."),
                (glance_table(SEEN), "At a glance.")]  # fmt: skip
    claims = PageTable("Claims", ("claim", "verdict", "held"), [("it grows", "holds", "1 of 1")], [["grows: 1 to 2"]])
    folded = PageTable("Regret of everybody", WIDE, ROWS, folded=True)
    study = Section("A study", ["What it is.", "How large."], [claims, folded], drawings, "again", [("seed", "1")])
    roc = Roc(LEVEL, LEVEL, 0.9 * LEVEL, LEVEL, 0.9 * LEVEL, LEVEL)
    row = AuditRow("quiet", "which of two opposite visitors", "ρ 1", "ρ 0.1", "-", "not refuted", False, "Words " * 20)
    story = DemoStory(
        lead="A shop.", number="99 ± 1 %", headline="of the revenue.", cards=[("37 ± 1", "sales lost", "a remark")],
        curves=CURVES, lost=[("quiet", 0.1, "10 %", 0)], policies=ROWS, delta=1e-6, shop=[["1", "2", "3 %"]],
        promise="Words. " * 30, printed="Words.", attacks=[["a", "b " * 30, "1 %", "2 %", "3 %", "not refuted"]],
        audited="Words.", next=[("quietshelf plan", "why")], facts=[("seed", "1")],
    )  # fmt: skip
    advice, tables = ["Do this."], [("The promise", WIDE, ROWS, "A note.")]
    return {
        "study": write_page(folder / "study.html", "Studies", [study]),
        "plan": plan_page(
            folder / "plan.html", lead="A shop.", number="9 %", conclusion="is kept.", advice=advice, curves=CURVES,
            tables=tables,
        ),
        "audit": audit_page(
            folder / "audit.html", number="0 of 1", conclusion="refuted.", broken=False, summary=["Words."],
            rows=[row], curves=[roc_curve("quiet, whole run", roc, 0), Curve("most", LEVEL, LEVEL, 0 * LEVEL, 6)],
            facts=[("seed", "1")],
        ),
        "demo": demo_page(folder / "demo.html", story),
    }  # fmt: skip


@pytest.fixture(scope="module", params=[(DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light")])
def seen(request: pytest.FixtureRequest, chromium: Any, reports: dict[str, Path]) -> Iterator[dict[str, list[str]]]:
    """What there is to complain about, with everything unfolded, by report."""
    view, scheme = request.param
    context = chromium.new_context(viewport=view, color_scheme=scheme)
    page, found = context.new_page(), {}
    for name, path in reports.items():
        asked: list[str] = []
        page.on("request", lambda sent, asked=asked: asked.append(sent.url))
        page.goto(path.as_uri())
        page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
        found[name] = [*page.evaluate(CHECKS), *(url for url in asked if not url.endswith(".html"))]
    yield found
    context.close()


@pytest.mark.parametrize("name", ["study", "plan", "audit", "demo"])
def test_a_report_reads_well(seen: dict[str, list[str]], name: str) -> None:
    """Headings, captions, names, contrast and sizes as on the service's pages; nothing is wider than a phone."""
    assert seen[name] == []
