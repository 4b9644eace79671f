"""kill -9 under load, as a test; `make hostile` and `make study` do it fifty times on each database."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.hostile.acknowledged import BROKEN
from tests.hostile.kills import killed
from tests.studies.size import FULL, keep

KILLS, WINDOW = (50, 12.0) if FULL else (2, 3.0)


@pytest.mark.study
def test_kill_nine_loses_nothing_and_repeats_nothing(database: str, tmp_path: Path) -> None:
    """Acknowledged offers and choices survive; released sums are exactly those of the acknowledged choices."""
    found = killed(database, tmp_path, KILLS, WINDOW)
    keep(f"crash-{database.partition(':')[0]}-{KILLS}", **found)
    assert found["releases"] > 0
    assert {name: found[name] for name in BROKEN if found[name]} == {}
