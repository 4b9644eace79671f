"""The soak of `make hostile`, for a few seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hostile.report import Report
from tests.hostile.soak import flat, soaked
from tests.studies.size import FULL, keep

SECONDS, PACE = (900.0, 20.0) if FULL else (9.0, 20.0)


@pytest.mark.study
def test_a_soak_loses_nothing_and_stays_flat(tmp_path: Path) -> None:
    """Through releases, changes of items and a rotated log; the report says so."""
    found = soaked(f"sqlite:///{tmp_path}/shop.db", tmp_path, seconds=SECONDS, pace=PACE)
    keep(f"soak-{SECONDS:.0f}", **found)
    assert found["releases"] >= 1
    timed = [
        each for each in flat(found) if FULL or not each.startswith(("p99", "pace"))
    ]  # others use this machine as well
    assert timed == []
    report = Report(soaks={"sqlite": found})
    assert "**0 were lost, doubled or early**" in report.write(tmp_path / "report").read_text()
