"""Contestants by name: every name runs, private ones say what they spent, the others own up."""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

from quietshelf import simulate
from quietshelf.curation.outlook import MadeUp
from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.types import Environment, FloatArray, Streams
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.outlook import FACTORS
from quietshelf.privacy.release.quiet import TRIALS
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.loop import Runner, SimulationContext, World, run
from quietshelf.research.loop.declared import blind_outlook, declared_outlook
from quietshelf.research.loop.named import SPECS, contestant

WORLD = Synthetic(items=12, capacity=3, dim=2, contexts="clipped")
SEARCH = Shop(items=30, capacity=4, conversion_rate=0.3, item_dim=3, per_visitor=True)


def test_every_name_runs_and_states_its_cost() -> None:
    """All policies serve the same visitors; proven rho keeps to the budget, is infinite without privacy."""
    result = simulate(
        WORLD,
        [contestant(name, rho=2.0 if SPECS[name].private else None, label=name) for name in SPECS],
        horizon=120,
        replicates=3,
        seed=1,
    )
    spent = {name: max(ledger.rho for ledger in result.ledgers[name]) for name in SPECS}
    for name, rho in spent.items():
        if name in ("uniform", "oracle"):
            assert rho == 0.0
        elif name == "quiet":
            assert rho == pytest.approx(2.0)
        elif name == "dpmnl":
            assert 0.2 < rho <= 2.0  # the Gram matrix and the fits made so far
        elif name == "dpmnl-eps-delta":
            assert 0.0 < rho < math.inf  # what its noise is proven to cost, which is not what it was converted from
        else:
            assert rho == math.inf
    assert np.abs(result.regret["oracle"]).max() < 1e-9
    assert all(np.isfinite(regret).all() for regret in result.regret.values())


def test_policies_without_a_budget_may_be_named_by_text() -> None:
    """A text is a contestant where nothing else need be said."""
    result = simulate(WORLD, ["oracle", contestant("quiet", rho=1.0)], horizon=10, replicates=1, seed=0)
    assert result.labels == ("oracle", "quiet rho=1")


def test_names_are_those_of_the_policies() -> None:
    """No name without a policy."""
    assert set(SPECS) <= set(POLICIES)


def test_oracle_follows_drifting_tastes() -> None:
    """Where tastes move, the oracle moves with them and never loses."""
    drifting = Synthetic(items=12, capacity=3, dim=2, drift=0.3)
    result = simulate(drifting, [contestant("oracle")], horizon=60, replicates=4, seed=2)
    assert np.abs(result.regret["oracle"]).max() < 1e-9


def setting_of(world: World, replicates: int = 4) -> tuple[Environment, SimulationContext]:
    """A world that is open, and what may be known of it."""
    environment = world.open(SeedSequence(1).spawn(replicates))
    made_up = getattr(environment, "made_up", None)
    tastes = partial(np.zeros, (replicates, world.dim))
    return environment, SimulationContext(world=world, worlds=replicates, horizon=400, tastes=tastes, made_up=made_up)


def served(world: World, visitors: int = 0, **options: Any) -> QuietCurator:
    """The curator of `quiet` in that world after so many visitors."""
    environment, setting = setting_of(world)
    quiet = contestant("quiet", **options)
    curator = quiet.curator(setting, Streams(SeedSequence(2).spawn(4)))
    assert isinstance(curator, QuietCurator)
    if visitors:
        runner = Runner("quiet", quiet.policy, curator, Streams(SeedSequence(3).spawn(4)))
        deque(run(environment, [runner], horizon=visitors), maxlen=0)
    return curator


def second_of(outlook: MadeUp, factor: float = 1.0) -> FloatArray:
    """Second moment of x over made-up visitors, in the first world."""
    return np.asarray(outlook.moments.second[FACTORS.index(factor), 0])


def test_what_a_world_declares_makes_the_outlook() -> None:
    """Itself, where it can make visitors up; by catalogue and scales; by its second moment; or else it is blind."""
    quiet = POLICIES["quiet"]
    _, shop = setting_of(SEARCH)
    assert second_of(declared_outlook(shop, quiet)) == pytest.approx(np.eye(4), abs=0.15)
    _, synthetic = setting_of(WORLD)
    moment = second_of(declared_outlook(synthetic, quiet))
    assert moment == pytest.approx(WORLD.second_moment, abs=0.15 * WORLD.second_moment.max())
    _, secretive = setting_of(replace(SEARCH, declared="nothing"))
    assert second_of(declared_outlook(secretive, quiet)) == pytest.approx(np.eye(4) / 4, abs=0.05)
    for setting in (shop, synthetic, secretive):
        blind = second_of(blind_outlook(setting, quiet))
        assert blind == pytest.approx(np.eye(setting.dim) / setting.dim, abs=0.15 / setting.dim)
        for outlook in (declared_outlook(setting, quiet), blind_outlook(setting, quiet)):
            assert outlook.moments.mean.shape == (len(FACTORS), 4, setting.dim)


def test_made_up_features_are_so_many_times_as_large() -> None:
    """All but the intercept, by every factor that is thought of."""
    _, setting = setting_of(SEARCH)
    outlook = declared_outlook(setting, POLICIES["quiet"])
    for factor in FACTORS:
        scale = np.array([1.0, factor, factor, factor])
        np.testing.assert_allclose(second_of(outlook, factor), second_of(outlook) * np.outer(scale, scale))


def test_unknown_geometry_starts_blind() -> None:
    """On request `quiet` is told nothing: neither scales nor how many buy."""
    told, blind = served(SEARCH, rho=1.0), served(SEARCH, rho=1.0, geometry="unknown")
    assert (told.learner.config.conversion, blind.learner.config.conversion) == (0.3, None)
    _, setting = setting_of(SEARCH)
    expected = blind_outlook(setting, POLICIES["quiet"]).moments
    np.testing.assert_array_equal(blind.learner.moments.second, expected.second)
    np.testing.assert_array_equal(blind.learner.estimate.theta, 0.0)
    assert (told.learner.estimate.theta[:, 0] < 0).all()  # 3 in 10 buy one of four


@pytest.mark.parametrize(
    ("given", "declared", "expected"), [(None, "right", 0.3), (0.05, "right", 0.05), (None, "nothing", None)]
)
def test_conversion_is_the_one_given_or_else_the_worlds(
    given: float | None, declared: str, expected: float | None
) -> None:
    """A contestant's own goes first; it sizes the first batch."""
    learner = served(replace(SEARCH, declared=declared), rho=2.0, conversion=given).learner
    assert learner.config.conversion == expected
    assert learner.next_size(None) == math.ceil(round(1.3 * math.sqrt(4) / (expected or 0.2) * 1.5, 6))


@pytest.mark.parametrize("world", ["search", "crossed"])
@pytest.mark.parametrize(("declared", "factor"), [("right", 1.0), ("ten times", 0.1), ("a tenth", 10.0)])
def test_a_declaration_wrong_by_ten_is_noticed(world: str, declared: str, factor: float) -> None:
    """In all of four worlds the releases say by what scales are wrong, and say nothing where they are right."""
    crossed = replace(SEARCH, per_visitor=False, visitor_dim=2)
    shop = replace(SEARCH if world == "search" else crossed, declared=declared)
    learner = served(shop, 250, rho=5.0).learner
    assert len(learner.records) > TRIALS
    np.testing.assert_array_equal(learner.factor, factor)


@pytest.mark.parametrize(
    ("name", "rho", "message"),
    [
        ("nobody", None, "policy must be one of quiet"),
        ("quiet", None, "quiet needs rho, got rho=None"),
        ("greedy", 1.0, "greedy takes no rho, got rho=1.0"),
        ("quiet", -1.0, "rho must be positive and finite, got rho=-1.0"),
    ],
)
def test_senseless_contestants_are_refused(name: str, rho: float | None, message: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=re.escape(message)):
        contestant(name, rho=rho)


@pytest.mark.parametrize(
    ("name", "given", "rule"),
    [
        ("dpmnl", {"rho": 1.0, "explor": 5}, r"dpmnl takes the settings rho, .*, got unknown=\['explor'\]"),
        ("greedy", {"growht": 2.0}, r"greedy takes the settings explore, .*, got unknown=\['growht'\]"),
        ("uniform", {"ridge": 1.0}, "uniform takes no settings"),
        ("quiet", {"rho": "1"}, "rho must be positive and finite, got rho='1'"),
        ("dpmnl", {"rho": 1.0, "continual": "toeplits"}, "continual must be one of tree, toeplitz"),
        ("dpmnl", {"rho": 1.0, "calibration": "papr"}, "calibration must be one of sound, mean-width, paper"),
        ("dpmnl-eps-delta", {"rho": 1.0, "conversion": "txt"}, "conversion must be one of text, lemma"),
    ],
)
def test_misspelt_setting_is_refused_at_once(name: str, given: dict[str, Any], rule: str) -> None:
    """Before any visitor comes, with the right names: a word that is not known never falls back to another."""
    with pytest.raises(ValueError, match=rule):
        contestant(name, **given)
