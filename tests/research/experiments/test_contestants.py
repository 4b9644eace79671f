"""Contestants of studies: equal schedules, and what is noted of the theory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quietshelf.research.environments import Synthetic
from quietshelf.research.experiments.units import Cell, Entry, Unit, run_unit

WORLD = {"items": 12, "capacity": 3, "dim": 2, "contexts": "clipped"}


def run(horizon: int, *policies: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    entries = tuple(Entry(WORLD, policy) for policy in policies)
    cell = Cell(0, Synthetic(**WORLD), entries, horizon)  # type: ignore[arg-type]
    return run_unit(Unit(cell, range(3), seed=0, checkpoints=horizon, watch=True), lambda _: None).columns


@pytest.mark.parametrize("policy", ["dpmnl", "dpmnl-eps-delta"])
def test_equal_schedule_fits_at_doublings_of_exploration(policy: str) -> None:
    """With T0 = 5: after 5, 10, 20, 40 visitors, in every replicate, whatever the noise; then the cap."""
    columns = run(60, {"policy": policy, "rho": 1.0, "fits": 4, "explore": 5, "schedule": "equal"})
    fits = columns["fits_made"].reshape(3, 60)
    expected = np.searchsorted([5, 10, 20, 40], np.arange(1, 61), side="right")
    np.testing.assert_array_equal(fits, np.broadcast_to(expected, fits.shape))


def test_equal_schedule_keeps_within_the_cap() -> None:
    """Two fits are allowed, so there are two."""
    columns = run(60, {"policy": "dpmnl", "rho": 1.0, "fits": 2, "explore": 5, "schedule": "equal"})
    assert columns["fits_made"].max() == 2


def test_watch_notes_coverage_definiteness_and_bounds() -> None:
    """At a large rho V_t is definite, the proven radius covers, and regret and fits keep within their bounds."""
    columns = run(80, {"policy": "dpmnl", "rho": 50.0, "fits": "auto", "explore": 10, "scale": 1e-4})
    assert columns["definite"].all()
    assert columns["covered"].all()
    assert (columns["distance_share"] > 0).all()
    assert (columns["fits_made"] <= columns["fit_bound"]).all()
    assert (columns["regret"] <= columns["regret_bound"]).all()


def test_watch_leaves_the_rows_as_they_are() -> None:
    """Looking changes nothing; policies that the theorems do not speak of have no measures."""
    policy = {"policy": "dpmnl", "rho": 5.0, "fits": 3, "explore": 10}
    entries = (Entry(WORLD, policy), Entry(WORLD, {"policy": "greedy"}))
    cell = Cell(0, Synthetic(**WORLD), entries, 40)  # type: ignore[arg-type]
    plain, watched = (
        run_unit(Unit(cell, range(2), seed=0, checkpoints=4, watch=watch), lambda _: None).columns
        for watch in (False, True)
    )
    np.testing.assert_array_equal(plain["regret"], watched["regret"])
    np.testing.assert_array_equal(plain["rho_proven"], watched["rho_proven"])
    assert np.isnan(watched["covered"][plain["label"] == "greedy"]).all()
