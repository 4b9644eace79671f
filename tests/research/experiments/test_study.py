"""Studies as they are written down."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from quietshelf.research.experiments import PAPER, Study, names, reproduce, study_named
from quietshelf.research.experiments.checking import check
from quietshelf.research.experiments.study import read_study


def of(study: Study, policy: str, *keys: str) -> set[tuple[object, ...]]:
    return {
        tuple(entry.settings[key] for key in keys)
        for cell in study.cells
        for entry in cell.entries
        if entry.settings["policy"] == policy
    }


def test_package_has_its_studies() -> None:
    """The paper's four figures come first; its hotels, its theory and ours follow."""
    assert PAPER == ("privacy-level", "dimension", "assortment-size", "benchmark")
    hotels = {"expedia", "expedia-full", "expedia-once", "hotels"}
    assert set(names()) == {*PAPER, *hotels, "theory", "price-of-privacy", "gauntlet", "ids"}


@pytest.mark.parametrize("name", PAPER)
def test_paper_study_has_the_sizes_stated(name: str) -> None:
    """N = 100, 30 replicates, T = 10^4, T0 = 500, c = 1e-4, q = 1/2, both D_MLE, both calibrations."""
    study = study_named(name)
    assert (study.horizon, study.replicates) == (10_000, 30)
    assert all(cell.world.items == 100 and getattr(cell.world, "contexts", None) == "normal" for cell in study.cells)
    assert of(study, "dpmnl", "explore", "scale", "split") == {(500, 1e-4, 0.5)}
    assert of(study, "dpmnl", "fits", "calibration") == set(product((10, "auto"), ("paper", "sound")))


def test_grids_are_those_of_the_paper() -> None:
    """Levels and shares; dimensions at 90 and 10 %; sizes at four levels; the benchmark both ways."""
    assert of(study_named("privacy-level"), "dpmnl", "rho", "share") == set(product((0.1, 0.5, 1), (0.1, 0.5, 0.9)))
    dimension = of(study_named("dimension"), "dpmnl", "rho", "dim", "share")
    assert dimension == set(product((1,), (3, 7, 11, 15), (0.9, 0.1)))
    size = of(study_named("assortment-size"), "dpmnl", "capacity", "rho")
    assert size == set(product((5, 10, 15, 20), (0.1, 0.5, 1, 5)))
    benchmark = of(study_named("benchmark"), "dpmnl-eps-delta", "rho", "share", "conversion", "schedule")
    assert benchmark == set(product((0.1, 0.5, 1), (0.9,), ("text", "lemma"), ("own", "equal")))


def test_units_cover_every_replicate_of_every_contestant_once(study: Study) -> None:
    """Cells and blocks respect the limits on contestants and replicates."""
    seen = [
        (unit.cell.world.dim, entry.label, replicate)
        for unit in study.units
        for entry in unit.cell.entries
        for replicate in unit.replicates
    ]
    assert len(seen) == len(set(seen)) == 2 * 6 * 5
    assert all(len(unit.cell.entries) <= 3 and len(unit.replicates) <= 3 for unit in study.units)


def test_reduced_study_keeps_everything_but_its_size(study: Study) -> None:
    """The same contestants and claims, fewer visitors and replicates; another fingerprint."""
    small = study.reduced(horizon=20, replicates=2)
    assert (small.horizon, small.replicates, small.seed) == (20, 2, 7)
    assert [{**policy, "explore": 0} for policy in small.policies] == [{**p, "explore": 0} for p in study.policies]
    assert small.claims == study.claims
    assert small.fingerprint != study.fingerprint == study.reduced().fingerprint


def test_reduced_study_shortens_longer_worlds_in_proportion() -> None:
    """A world ten times as long stays ten times as long."""
    small = study_named("price-of-privacy").reduced(horizon=100)
    assert {cell.horizon for cell in small.cells} == {100, 1000}


def test_reduced_study_explores_in_proportion() -> None:
    """A tenth of the visitors: a tenth of T0, and claims look after that; a longer study keeps both."""
    study = study_named("dimension")
    for horizon, explore in ((1000, 50), (100_000, 500)):
        other = study.reduced(horizon=horizon)
        assert {policy["explore"] for policy in other.policies if "explore" in policy} == {explore}
        assert {claim["after"] for claim in other.claims if "after" in claim} == {explore}


def test_unknown_key_is_refused(path: Path) -> None:
    """A misspelt key is not silently ignored."""
    path.write_text("horizons = 3\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"a study has the keys .* got unknown=\['horizons'\]"):
        read_study(path)


def test_a_setting_of_both_sides_is_refused(path: Path) -> None:
    """A series could not tell a world's from its contestant's."""
    path.write_text(path.read_text(encoding="utf-8").replace("[[worlds]]", "[[worlds]]\nexplore = 3"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"belong to worlds or to policies, not to both, got both=\['explore'\]"):
        read_study(path)


def test_unknown_study_is_refused() -> None:
    """The error names those there are."""
    with pytest.raises(ValueError, match=r"must be one of privacy-level, .* got study='nothing'"):
        study_named("nothing")


SLIPS = {
    "along": ('along = "rho"', 'along = "roh"', "along must name settings of the contestants"),
    "direction": ('"falls"', '"fals"', "direction must be one of falls, rises"),
    "claimed": (
        'where = { policy = "quiet" }\nby',
        'where = { policy = "dpmnl" }\nby',
        "where must match a contestant",
    ),
    "unsaid": ("says =", "say =", r"unknown=\['say'\]"),
    "measure": ('kind = "slows"', 'kind = "exceeds"\nmeasure = "covered"\nlevel = 1', "watch = true"),
    "lines": ('lines = ["rho"]', 'lines = ["roh"]', "lines must name settings"),
    "floor": ('floor = ["greedy"]', 'floor = ["ucb-mnl"]', "floor must match a contestant"),
    "figure": ("title = 'Drawn'", "titel = 'Drawn'", r"the figure 'drawn': .*unknown=\['titel'\]"),
    "world": ("capacity = 2", "capacty = 2", r"the world 'shop': its keys are .*unknown=\['capacty'\]"),
    "setting": ("ridge = 1.0", "rigde = 1.0", "the policy 'greedy': greedy takes the settings"),
    "place": ('worlds = ["shop"]', 'worlds = ["shp"]', r"its worlds must be among the names \['shop'\]"),
    "needed": ("seed = 1\n", "", r"a study needs title, .*missing=\['seed'\]"),
    "syntax": ("seed = 1", "seed =", "a study must be TOML, got .*line 6"),
}
SOUND = """
title = "Sound"
summary = "Every slip of it is found before the first visitor."
horizon = 24
replicates = 2
seed = 1

[[worlds]]
name = "shop"
items = 8
capacity = 2
dim = 2

[[policies]]
policy = "quiet"
rho = [0.5, 5.0]

[[policies]]
policy = "greedy"
ridge = 1.0
worlds = ["shop"]

[[claims]]
says = "Regret falls as rho rises."
kind = "order"
along = "rho"
direction = "falls"
where = { policy = "quiet" }
by = ["world"]

[[claims]]
says = "It slows."
kind = "slows"

[[figures]]
name = "drawn"
title = 'Drawn'
lines = ["rho"]
floor = ["greedy"]
"""


@pytest.mark.parametrize("slip", SLIPS)
def test_slip_in_a_study_is_found_before_the_first_visitor(slip: str, tmp_path: Path) -> None:
    """A name that nothing bears is refused with the right ones: no claim vanishes, no figure is empty after hours."""
    right, wrong, rule = SLIPS[slip]
    path = tmp_path / "own.toml"
    path.write_text(SOUND, encoding="utf-8")
    check(read_study(path))
    assert SOUND.count(right) >= 1
    path.write_text(SOUND.replace(right, wrong, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rule):
        reproduce(read_study(path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", names())
def test_study_of_the_package_names_only_what_exists(name: str) -> None:
    """At its own size and at a small one."""
    check(study_named(name))
    check(study_named(name).reduced(horizon=100, replicates=2))
