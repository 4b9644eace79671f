"""The hotel world: tastes fitted on searches, searches resampled."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.random import SeedSequence
from tests.data.logs.hotels import ARRAYS, needs_data
from tests.data.logs.made_up import made_up
from tests.research.environments.contract import EnvironmentContract
from tests.studies.size import FULL

from quietshelf.curation.outlook import VISITORS
from quietshelf.data.logs.cleaned import read_searches
from quietshelf.model.choice import fit
from quietshelf.model.choice.features import Dense
from quietshelf.model.choice.maps import feature_map
from quietshelf.policies import POLICIES
from quietshelf.research.environments import Hotels
from quietshelf.research.environments.expedia import fitted
from quietshelf.research.loop import SimulationContext, simulate, summary
from quietshelf.research.loop.declared import declared_outlook
from quietshelf.research.loop.named import contestant


def small(**options: object) -> Hotels:
    rng = np.random.default_rng(1)
    given = {
        "visitors": rng.normal(size=(9, 2)),
        "catalogue": rng.normal(size=(6, 3)),
        "feature_map": feature_map("full"),
        "theta": rng.normal(size=12),
        "feature_scale": 1.7,
        "capacity": 3,
    }
    return Hotels(**{**given, **options})  # type: ignore[arg-type]


class TestHotels(EnvironmentContract):
    """The contract of every environment."""

    world = small()  # type: ignore[assignment]


class TestPricedHotels(EnvironmentContract):
    """The same with unequal revenues, and every search coming once before any comes twice."""

    world = small(visits=3, revenue=np.linspace(0.2, 1.0, 6))  # type: ignore[assignment]


def test_structured_features_are_the_dense_ones_divided() -> None:
    """Utility, norm and rows agree with x formed in full, and theta is meant for x after its division."""
    world = small()
    numbers = np.array([0, 3, 3])
    dense = Dense(world.feature_map.dense(world.visitors[numbers], world.catalogue) / world.feature_scale)
    mine = world.features(numbers)
    metric = np.diag(np.arange(1.0, 13.0))
    np.testing.assert_allclose(mine.utility(world.theta), dense.utility(world.theta))
    np.testing.assert_allclose(mine.norm(metric), dense.norm(metric))
    items = np.array([[0, 5], [2, -1], [1, 4]])
    np.testing.assert_allclose(mine.rows(items), dense.rows(items))


def test_with_a_cap_everybody_comes_once_before_anybody_comes_again() -> None:
    """Nine searches, two visits each: eighteen rounds, and no nineteenth."""
    world = small(visits=2)
    environment = world.open(SeedSequence(2).spawn(2))
    utility = world.features(np.arange(9)).utility(world.theta)
    seen = []
    for t in range(18):
        now = environment.context(t).features.utility(world.theta)
        seen.append([int(np.abs(utility - one).sum(axis=1).argmin()) for one in now])
    for world_number in range(2):
        order = [row[world_number] for row in seen]
        assert sorted(order[:9]) == sorted(order[9:]) == list(range(9))
    with pytest.raises(ValueError, match="visits=2 of 9 visitors allow at most 18 rounds, got t=18"):
        environment.context(18)


def test_fitted_world_is_the_ridge_fit_rescaled() -> None:
    """Theta minimises the penalised likelihood on unscaled features; utilities do not change by the division."""
    searches = made_up(300)
    world = fitted(searches, feature_map_name="full", ridge=5.0, impressions=1, capacity=4)
    plain = fit(*searches.rounds(feature_map("full")), ridge=5.0)
    x = feature_map("full").dense(searches.visitor, searches.item_features())
    assert world.feature_scale == pytest.approx(np.quantile(np.linalg.norm(x, axis=-1), 0.999))
    np.testing.assert_allclose(world.features(np.arange(300)).utility(world.theta), x @ plain.theta, atol=1e-9)


def test_ridge_is_chosen_by_held_out_likelihood_where_none_is_given() -> None:
    """The chosen world is one of those that the candidates give."""
    searches = made_up(200)
    chosen = fitted(searches, impressions=1, capacity=4)
    one_of = [
        fitted(searches, impressions=1, capacity=4, ridge=ridge).theta for ridge in (0.01, 0.1, 0.5, 1, 5, 10, 50, 100)
    ]
    assert any(np.allclose(chosen.theta, theta) for theta in one_of)


def test_made_up_visitors_see_the_catalogue_divided_likewise() -> None:
    """Features of declared scale beside those of the hotels, over what x is divided by; hotels are the real ones."""
    world = small(visitor_scale=2.0)
    setting = SimulationContext(world=world, worlds=2, horizon=10, tastes=partial(np.zeros, (2, 12)))
    outlook = declared_outlook(setting, POLICIES["quiet"])
    for factor in (1.0, 10.0):
        x = outlook.sample(np.full(2, factor)).features.rows(np.broadcast_to(np.arange(6), (2, VISITORS, 6)))
        u = x[..., :1, 4:6] * world.feature_scale  # x holds (1, v, u, u v)
        assert u.std() == pytest.approx(2.0 * factor, rel=0.25)
        dense = world.feature_map.dense(u[..., 0, :], np.broadcast_to(world.catalogue, (2, VISITORS, 6, 3)))
        np.testing.assert_allclose(x, dense / world.feature_scale, atol=1e-12)


def test_a_world_survives_pickling() -> None:
    """So it can be sent to workers."""
    world = pickle.loads(pickle.dumps(small()))  # noqa: S301 - our own bytes
    np.testing.assert_array_equal(world.theta, small().theta)


@needs_data
@pytest.mark.study
@pytest.mark.parametrize(
    ("name", "goals"),
    [("concat", {0.1: 220, 0.5: 140, 1: 115, 5: 90}), ("full", {0.1: 800, 0.5: 490, 1: 390, 5: 280})],
)
def test_quiet_on_41_hotels_meets_its_goals(name: str, goals: dict[float, float]) -> None:
    """Mean final regret over 20 runs of T = 20,000 less two standard errors is at or below the goal; floor printed.

    In reduced form 6 runs of T = 1,500: quiet at rho = 5 loses less than half of what random offers lose.
    """
    world = fitted(read_searches(ARRAYS), feature_map_name=name, ridge=5.0)
    assert (world.items, world.capacity, world.dim) == (41, 10, {"concat": 13, "full": 49}[name])
    if not FULL:
        result = simulate(
            world, [contestant("quiet", rho=5.0), contestant("uniform")], horizon=1500, replicates=6, seed=1
        )
        quiet, uniform = summary(result)
        assert quiet.mean + 3 * quiet.standard_error < (0.5 if name == "concat" else 0.9) * uniform.mean
        return
    contestants = [contestant("quiet", rho=rho) for rho in goals]
    contestants += [contestant("greedy", ridge=0.001), contestant("uniform")]
    result = simulate(world, contestants, horizon=20_000, replicates=20, seed=1)
    lines = summary(result)
    for line in lines:
        print(f"{name} {line.label}: {line.mean:.1f} ± {line.standard_error:.1f}")
    for line, goal in zip(lines, goals.values(), strict=False):
        assert line.mean - 2 * line.standard_error <= goal, line
