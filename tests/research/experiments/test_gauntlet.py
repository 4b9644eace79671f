"""The gauntlet: what it spans, who is judged by whom, and its page."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from tests.research.experiments.in_process import InProcess

from quietshelf.model.types import Round, Streams
from quietshelf.report import Series
from quietshelf.research.environments import Shop
from quietshelf.research.experiments import Study, reproduce, study_named
from quietshelf.research.experiments.checking import check
from quietshelf.research.experiments.gauntlet import as_data, glance, in_words, overall, release_time, world_merits
from quietshelf.research.experiments.worlds import make_world
from quietshelf.research.loop import SimulationContext, contestant


@pytest.fixture
def study() -> Study:
    """All shops, without the hotels, whose data may not be here."""
    whole = study_named("gauntlet").with_data(Path("nowhere.npz"))
    return whole.without_missing()[0]


def shops(study: Study) -> list[Shop]:
    return [shop for shop in map(make_world, study.worlds) if isinstance(shop, Shop)]


def test_worlds_span_what_shops_are(study: Study) -> None:
    """Shares that buy, features, sizes, revenues, availability, declarations, tastes."""
    every = shops(study)
    assert len(every) == len(study.worlds) >= 16
    assert {shop.conversion_rate for shop in every} == {0.01, 0.03, 0.1, 0.3, 0.9}
    assert {shop.features for shop in every} == {"normal", "categories", "ids"}
    assert {shop.declared for shop in every} == {"right", "ten times", "a tenth", "nothing"}
    assert {shop.revenue for shop in every} == {"equal", "uniform"}
    assert (min(shop.dim for shop in every), max(shop.dim for shop in every)) == (3, 60)
    assert (min(shop.items for shop in every), max(shop.items for shop in every)) == (20, 1000)
    assert (min(shop.capacity for shop in every), max(shop.capacity for shop in every)) == (1, 20)
    assert min(shop.taste for shop in every) < 1 < max(shop.taste for shop in every)
    for key in ("per_visitor", "visitor_dim", "correlation", "mixing", "half_life"):
        assert {bool(getattr(shop, key)) for shop in every} == {True, False}
    assert min(shop.availability for shop in every) < 1


def test_everybody_is_judged_beside_random_and_one_policy_without_privacy(study: Study) -> None:
    """Four levels of rho in each world, and just one floor."""
    assert {policy["rho"] for policy in study.policies if policy["policy"] == "quiet"} == {0.1, 0.5, 1.0, 5.0}
    for cell in study.cells:
        policies = [entry.policy["policy"] for entry in cell.entries]
        assert (len(policies), policies.count("quiet"), policies.count("uniform")) == (6, 4, 1)


def test_shops_of_ids_are_judged_alike() -> None:
    """40 and 200 ids, and features with an effect of each product, some of which come later."""
    study = study_named("ids")
    check(study)
    every = shops(study)
    assert [(shop.dim, shop.item_effects) for shop in every] == [(40, 40), (200, 200), (105, 100)]
    assert [shop.first_items for shop in every] == [40, 200, 80]
    for cell in study.cells:
        policies = [entry.policy["policy"] for entry in cell.entries]
        assert (len(policies), policies.count("quiet"), policies.count("uniform")) == (5, 3, 1)


def test_hotels_are_left_out_where_their_file_is_not() -> None:
    """By name, with the policies that served them alone; they stay where there is a file."""
    whole = study_named("gauntlet").with_data(Path("nowhere.npz"))
    left, missing = whole.without_missing()
    assert missing == ("hotels, visitor and hotel", "hotels, visitor x hotel")
    assert len(left.worlds) == len(whole.worlds) - 2
    check(left)
    kept, none = whole.with_data(Path(__file__)).without_missing()
    assert (len(kept.worlds), none) == (len(whole.worlds), ())


def test_tuning_seeds_are_others_than_those_reported() -> None:
    """Chosen by name; a study that has none refuses."""
    study = study_named("gauntlet")
    assert study.with_seeds("report").seed == study.seed != study.with_seeds("tuning").seed
    assert study.with_seeds("tuning").fingerprint != study.fingerprint
    with pytest.raises(ValueError, match="seeds must be one of report, tuning"):
        study.with_seeds("both")
    with pytest.raises(ValueError, match="--seeds tuning is for studies with a tuning_seed, got study='dimension'"):
        study_named("dimension").with_seeds("tuning")
    with pytest.raises(ValueError, match="tuning_seed must be a whole number other than seed"):
        replace(study, tuning_seed=study.seed)


def test_release_times_are_those_of_a_run() -> None:
    """The third release comes when they say; policies without batches have none."""
    world = Shop(items=10, capacity=2, conversion_rate=0.3, item_dim=2)
    environment = world.open([SeedSequence(1)])
    setting = SimulationContext(
        world=world, worlds=1, horizon=300, tastes=lambda: environment.theta, made_up=environment.made_up
    )
    settings = {"policy": "quiet", "rho": 1.0, "first": 1.0}
    curator = contestant("quiet", rho=1.0, first=1.0).curator(setting, Streams([SeedSequence(2)]))
    came = 0
    for t in range(300):
        context = environment.context(t)
        offer = np.array([[0, 1]])
        release = curator.observe(Round(context, offer, environment.choose(context, offer)))
        if release.count[0] == 3:
            came = t + 1
            break
    assert came == release_time(settings, world) == 12 + 17 + 23  # sqrt(d) / 0.3 visitors, twice that for rho = 1
    assert release_time({**settings, "conversion": 0.6}, world) == 6 + 9 + 13
    assert release_time(settings, replace(world, declared="nothing")) == 18 + 25 + 34  # 2 in 10 are thought to buy
    assert release_time({"policy": "greedy"}, world) == 0


SLIPS: dict[str, tuple[dict[str, Any], str]] = {
    "columns": ({"columns": "roh"}, "columns must name settings"),
    "random": ({"random": "chance"}, "random must match a contestant"),
    "where": ({"where": {"policy": "dpmnl"}}, "where must match a contestant"),
    "floor": ({"where": {"policy": ["quiet", "ucb-mnl"]}}, "must have one policy that is neither judged nor random"),
    "key": ({"lines": ["rho"]}, r"unknown=\['lines'\]"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slip_in_the_figure_is_found_before_the_first_visitor(study: Study, slip: str) -> None:
    """By name, with the world where it is one of a world."""
    wrong, rule = SLIPS[slip]
    figures = tuple({**figure, **wrong} if figure["kind"] == "merits" else figure for figure in study.figures)
    with pytest.raises(ValueError, match=rule):
        check(replace(study, figures=figures))


def made_up(study: Study) -> list[Series]:
    """Everybody's regret by hand: random loses 1 a visitor, floors 4 %, quiet 20 % / rho but 10 % at least."""
    found = []
    for cell in study.cells:
        times = np.linspace(cell.horizon / 10, cell.horizon, 10)
        for entry in cell.entries:
            rate = {"uniform": 1.0, "quiet": max(0.1, 0.2 / entry.policy.get("rho", 1.0))}.get(
                entry.policy["policy"], 0.04
            )
            found.append(Series(entry.settings, times, rate * np.tile(times, (4, 1))))
    return found


def test_figures_of_all_worlds_are_put_together(study: Study) -> None:
    """Multiples of 50, 10, 5 and 2.5 everywhere; at rho 0.1 all runs are stuck and worse than random."""
    (figure,) = study.figures
    worlds = world_merits(study, made_up(study), figure)
    assert [world.name for world in worlds] == [world["name"] for world in study.worlds]
    together, runs = overall(worlds), 4 * len(worlds)
    for rho, multiple, high in ((0.1, 50, 2.0), (0.5, 10, 0.4), (1.0, 5, 0.2), (5.0, 2.5, 0.1)):
        assert together[rho].multiple == pytest.approx(multiple)
        assert together[rho].worst_high == pytest.approx(high)
        assert (together[rho].stuck, together[rho].worse) == (runs if rho < 1 else 0, runs if rho < 0.5 else 0)
    assert in_words(worlds)[2].startswith("ρ = 1: ×5.00 the regret without privacy")
    plain = json.loads(json.dumps(as_data(worlds)))["merits"]
    assert plain["overall"]["1.0"]["multiple"] == pytest.approx(5)
    assert plain["worlds"][0]["merits"]["5.0"]["share"]["mean"] == pytest.approx(0.1)
    assert (in_words([]), as_data([])) == ([], {})
    seen = glance(worlds, figure)
    assert seen.heads == ("no privacy", "ρ = 0.1", "ρ = 0.5", "ρ = 1", "ρ = 5")
    assert seen.rows[0].cells[0].text == "4.0 %"
    assert (seen.rows[0].cells[1].text, seen.rows[0].cells[1].stuck) == ("200 %", 4)


def test_a_small_gauntlet_writes_its_page(study: Study, tmp_path: Path) -> None:
    """Two worlds, shortened: the picture, its numbers as CSV, and the table with every figure."""
    names = [world["name"] for world in study.worlds[2:4]]
    policies = [
        {**policy, "worlds": [name for name in policy["worlds"] if name in names]} if "worlds" in policy else policy
        for policy in study.policies
    ]
    kept = tuple(policy for policy in policies if policy.get("worlds", names))
    small = replace(study, worlds=study.worlds[2:4], policies=kept).reduced(horizon=60, replicates=2)
    done = reproduce(small, tmp_path, engine=InProcess())
    page = done.page.read_text(encoding="utf-8")
    assert "Figures of merit" in page
    assert all(name in page for name in names)
    with (tmp_path / "gauntlet.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 5
    assert (tmp_path / "figures" / "gauntlet.png").is_file()


def test_the_documentation_tells_of_every_world() -> None:
    """By its name and its sizes, in the study's order."""
    text = (Path(__file__).parents[3] / "docs" / "gauntlet.md").read_text(encoding="utf-8")
    told = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    rows = {cells[0].removeprefix("| "): cells for cells in told}
    study = study_named("gauntlet")
    assert [name for name in rows if name in {world["name"] for world in study.worlds}] == [
        world["name"] for world in study.worlds
    ]
    for world in study.worlds:
        cells = rows[world["name"]]
        assert cells[6] == f"{world['horizon']:,}"
        if world["kind"] == "shop":
            shop = make_world(world)
            assert cells[2:6] == [
                f"{100 * world['conversion_rate']:g} %",
                f"{shop.items:,}",
                str(shop.capacity),
                str(shop.dim),
            ]
