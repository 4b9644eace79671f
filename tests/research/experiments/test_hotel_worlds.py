"""Studies of hotels: worlds by their settings, and a verdict on each claim of the paper's section 5.2."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from numpy.random import SeedSequence
from tests.data.logs.made_up import made_up
from tests.research.experiments.in_process import InProcess

from quietshelf.policies import POLICIES
from quietshelf.research.environments import Synthetic
from quietshelf.research.experiments import reproduce
from quietshelf.research.experiments.reproduce import study_named
from quietshelf.research.experiments.worlds import make_world
from quietshelf.research.loop import SimulationContext
from quietshelf.research.loop.declared import declared_outlook


def test_worlds_are_synthetic_unless_they_say_otherwise() -> None:
    """The kind decides; an unknown one is named."""
    assert make_world({"items": 6, "capacity": 2}) == Synthetic(items=6, capacity=2)
    with pytest.raises(ValueError, match="kind must be one of synthetic, shop, hotels, got kind='moon'"):
        make_world({"kind": "moon"})


def test_hotels_are_read_where_they_are_first_needed(tmp_path: Path) -> None:
    """Settings travel, data do not; a missing file is named when it is asked for."""
    path = made_up(200).save(tmp_path / "hotels.npz")
    options = {"kind": "hotels", "feature_map_name": "concat", "fit_ridge": 1.0, "impressions": 1, "capacity": 3}
    world = pickle.loads(pickle.dumps(make_world({**options, "data": str(path)})))  # noqa: S301 - our own bytes
    assert (world.items, world.dim, world.capacity) == (12, 6, 3)
    setting = SimulationContext(world=world, worlds=2, horizon=10, tastes=partial(np.zeros, (2, 6)))
    seen = declared_outlook(setting, POLICIES["quiet"]).moments.second
    assert seen.shape[1:] == (2, 6, 6)
    assert np.trace(seen[2, 0]) != pytest.approx(1.0, abs=0.2)  # nothing declared would be I / d
    assert world.open(SeedSequence(1).spawn(2)).context(0).revenue.shape == (2, 12)
    with pytest.raises(ValueError, match="needs a file of searches: --data FILE"):
        _ = make_world({**options, "data": str(tmp_path / "none.npz")}).items


def test_hotel_studies_have_the_papers_sizes() -> None:
    """T = 100,000, T0 = 10,000, c = 1e-7, 10 runs, rho 0.5, 1, 5 and 90/10 at full length; a tenth of it by default."""
    for name, length in (("expedia", 10_000), ("expedia-full", 100_000)):
        study = study_named(name).with_data(Path("elsewhere.npz"))
        assert (study.horizon, study.replicates) == (length, 10)
        printed = [policy for policy in study.policies if policy["policy"].startswith("dpmnl")]
        assert {policy["rho"] for policy in printed} == {0.5, 1.0, 5.0}
        assert {(p["explore"], p["scale"], p["share"]) for p in printed} == {(length // 10, 1e-7, 0.9)}
        assert {world["data"] for world in study.worlds} == {"elsewhere.npz"}


def test_the_goals_of_quiet_are_those_that_were_set() -> None:
    """41 hotels, T = 20,000, K = 10, 20 runs; the floor and random offers come from the same ones."""
    study = study_named("hotels")
    assert (study.horizon, study.replicates, {world["capacity"] for world in study.worlds}) == (20_000, 20, {10})
    assert {world["feature_map_name"]: world["fit_ridge"] for world in study.worlds} == {"concat": 5.0, "full": 5.0}
    assert [claim["goals"] for claim in study.claims[:2]] == [[220, 140, 115, 90], [800, 490, 390, 280]]
    assert [policy.get("rho", policy["policy"]) for policy in study.policies] == [
        0.1,
        0.5,
        1.0,
        5.0,
        "greedy",
        "uniform",
    ]


@pytest.mark.parametrize("name", ["expedia", "expedia-once", "hotels"])
def test_a_small_study_of_hotels_judges_every_claim_on_its_rows(name: str, tmp_path: Path) -> None:
    """A study shortened far beyond its exploration: every claim has a verdict, goals for other sizes have none."""
    path = made_up(300).save(tmp_path / "hotels.npz")
    study = study_named(name).with_data(path).reduced(horizon=60, replicates=2)
    study = replace(study, worlds=tuple({**world, "impressions": 1, "capacity": 3} for world in study.worlds))
    found = reproduce(study, tmp_path / "out", engine=InProcess())
    said = {(outcome.says, outcome.group) for outcome in found.outcomes}
    judged = [claim["says"] for claim in study.claims if claim["kind"] != "reaches"]
    assert said == {(says, f"features {each}") for says in judged for each in ("concat", "full")}
    assert all(outcome.verdict in ("holds", "fails", "undecided") for outcome in found.outcomes)
    page = unescape(found.page.read_text(encoding="utf-8"))
    assert all(says in page for says, _ in said)
    drawn = (found.folder / "plotted.csv").read_text(encoding="utf-8")
    assert "greedy" in drawn  # the floor, in the figures too
