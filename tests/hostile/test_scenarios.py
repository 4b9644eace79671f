"""Every hostile scenario in small: bounds hold, bystanders are served, and nothing that they were told is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.hostile.acknowledged import BROKEN
from tests.hostile.suite import ORDER, attacked
from tests.serving.service.conftest import fresh_postgres
from tests.studies.size import FULL

SMALL = tuple(number for number in ORDER if FULL or number != 8)
"""Two workers take a service of their own, and seconds."""


@pytest.mark.study
def test_hostile_scenarios_stay_within_their_bounds_on_sqlite(tmp_path: Path) -> None:
    """Memory, stalls, statuses; every acknowledged offer and choice is there."""
    outcomes, kept = attacked(f"sqlite:///{tmp_path}/shop.db", tmp_path, only=SMALL)
    assert {outcome.number: outcome.broken for outcome in outcomes if outcome.broken} == {}
    assert kept["offers_acknowledged"] > 0
    assert {name: kept[name] for name in BROKEN if kept[name]} == {}


@pytest.mark.study
def test_hostile_scenarios_stay_within_their_bounds_on_postgresql(tmp_path: Path, postgres: Any) -> None:
    """A locked row and a database that is down, which SQLite does not have, and the rest in full."""
    only = ORDER if FULL else (3, 6)
    outcomes, kept = attacked(fresh_postgres(postgres), tmp_path, postgres=postgres, only=only)
    assert {outcome.number: outcome.broken for outcome in outcomes if outcome.broken} == {}
    assert {name: kept[name] for name in BROKEN if kept[name]} == {}
