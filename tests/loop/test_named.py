"""Contestants by name: every name runs, private ones say what they spent, the others own up."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from quietshelf import simulate
from quietshelf.environments import Synthetic
from quietshelf.loop.named import MAKERS, PRIVATE, contestant, declared_curvature
from quietshelf.policies import POLICIES
from quietshelf.release.geometry import unknown_curvature

WORLD = Synthetic(items=12, capacity=3, dim=2, contexts="clipped")


def test_every_name_runs_and_states_its_cost() -> None:
    """All policies serve the same visitors; proven rho keeps to the budget, is infinite without privacy."""
    result = simulate(
        WORLD,
        [contestant(name, rho=2.0 if name in PRIVATE else None, label=name) for name in MAKERS],
        horizon=120,
        replicates=3,
        seed=1,
    )
    spent = {name: max(ledger.rho for ledger in result.ledgers[name]) for name in MAKERS}
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
    assert set(MAKERS) <= set(POLICIES)


def test_oracle_follows_drifting_tastes() -> None:
    """Where tastes move, the oracle moves with them and never loses."""
    drifting = Synthetic(items=12, capacity=3, dim=2, drift=0.3)
    result = simulate(drifting, [contestant("oracle")], horizon=60, replicates=4, seed=2)
    assert np.abs(result.regret["oracle"]).max() < 1e-9


def test_declared_curvature_is_that_of_random_subsets() -> None:
    """Γ0 of the stated law is (K/(K+1))² E[x x'] for independent items."""
    expected = (3 / 4) ** 2 * WORLD.second_moment
    found = declared_curvature(WORLD)
    assert found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_unknown_geometry_starts_blind() -> None:
    """On request `quiet` declares nothing: Γ0 = I/d."""
    blind = contestant("quiet", rho=1.0, geometry="unknown")
    made: list[np.ndarray] = []

    class Spy:
        def __init__(self, setting: object, rng: object) -> None:
            curator = blind.curator(setting, rng)  # type: ignore[arg-type]
            made.append(curator.learner.curvature)  # type: ignore[attr-defined]
            self.curator = curator

        @property
        def release(self) -> object:
            return self.curator.release

        def observe(self, round: object) -> object:  # noqa: A002 - the noun on the arrow
            return self.curator.observe(round)  # type: ignore[arg-type]

    spied = type(blind)("spied", blind.policy, Spy)  # type: ignore[arg-type]
    simulate(WORLD, [spied], horizon=3, replicates=1, seed=0)
    np.testing.assert_allclose(made[0][0], unknown_curvature(2))


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
