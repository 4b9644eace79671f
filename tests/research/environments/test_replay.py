"""A shop's log as a world, and as evidence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.random import SeedSequence
from tests.research.environments.contract import EnvironmentContract
from tests.research.environments.random_logs import random_log

from quietshelf.data.logs.log import Log
from quietshelf.data.logs.reading import as_log
from quietshelf.model.choice import fit
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import Streams
from quietshelf.research.environments import Hotels
from quietshelf.research.environments.replay import Logged, world_of
from quietshelf.research.loop import SimulationContext
from quietshelf.research.loop.declared import WithCatalogue
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.replaying import ReplayEstimate, Unsupported, inverse_propensity, rejection, replayable

ITEM = feature_map("item")


def some_world() -> Logged:
    rng = np.random.default_rng(3)
    available = np.ones((7, 6), dtype=bool)
    return Logged(
        x=rng.normal(size=(7, 6, 2)),
        available=available,
        revenue=rng.uniform(0.5, 1, size=(7, 6)),
        theta=np.array([1.0, -1.0]),
        capacity=3,
    )


class TestLogged(EnvironmentContract):
    """The contract of every environment."""

    world = some_world()  # type: ignore[assignment]


def test_world_of_a_log_with_candidates_keeps_each_rounds_own() -> None:
    """Theta is the ridge fit of what was shown; candidates are those of the round."""
    log = as_log(random_log(500))
    world = world_of(log, ITEM, ridge=1.0)
    assert isinstance(world, Logged)
    np.testing.assert_allclose(world.theta, fit(*log.offered(ITEM), ridge=1.0).theta)
    assert (world.items, world.capacity) == (4, 2)
    np.testing.assert_array_equal(world.x[..., 1], random_log(500)["price"].to_numpy().reshape(500, 4))
    assert not isinstance(world, WithCatalogue)  # its candidates differ: nothing is declared
    assert not hasattr(world, "second_moment")


def test_world_of_a_log_without_candidates_offers_every_item() -> None:
    """Items have their average features; everybody may be shown all of them."""
    table = random_log(300)
    log = as_log(table[table["position"].notna()])
    world = world_of(log, ITEM)
    assert isinstance(world, Hotels)
    assert world.items == 4
    np.testing.assert_allclose(world.catalogue, log.catalogue()[0])


def test_unavailable_places_are_never_offered() -> None:
    """Rounds with fewer candidates than the longest keep their empty places empty."""
    table = random_log(60)
    log = as_log(table[~((table["round"] % 2 == 1) & table["position"].isna() & (table["item"] == 3))])
    world = world_of(log, ITEM)
    assert isinstance(world, Logged)
    assert not world.available.all()
    environment = world.open(SeedSequence(5).spawn(3))
    for t in range(20):
        context = environment.context(t)
        assert context.available is not None
        assert context.available.sum(axis=1).min() >= 3


def asked(log: Log, name: str, method: str) -> ReplayEstimate:
    world = world_of(log, ITEM)
    chosen = contestant(name)
    setting = SimulationContext(world=world, worlds=1, horizon=len(log), tastes=lambda: world.theta[None])
    noise, chance, thinning = (Streams([seed]) for seed in SeedSequence(6).spawn(3))
    ready = replayable(log, log.offerable(ITEM))
    curator = chosen.curator(setting, noise)
    if method == "rejection":
        return rejection(ready, chosen.policy, curator, chance=chance, thinning=thinning)
    return inverse_propensity(ready, chosen.policy, curator, chance=chance)


@pytest.mark.parametrize("method", ["rejection", "inverse propensity"])
def test_replay_of_the_oracle_finds_what_it_earns(method: str) -> None:
    """Six thousand random rounds: the true value of the two cheapest items lies within 4 standard errors.

    One false alarm in 15,000 at a fixed seed; half a standard error's worth of wrong weights (1/6 taken for 1/4, say)
    would miss by ten.
    """
    table = random_log(6000)
    price = np.sort(table["price"].to_numpy().reshape(6000, 4), axis=1)[:, :2]
    weight = np.exp(-0.5 - price).sum(axis=1)
    true = float((weight / (1 + weight)).mean())
    found = asked(as_log(table), "oracle", method)
    error = (found.high - found.low) / (2 * 1.96)
    assert abs(found.value - true) < 4 * error
    assert abs(1.5 * found.value - true) > 4 * error
    assert found.method == method
    assert 800 < found.matches * (1 if method == "rejection" else 2) < 1200


def test_logged_propensities_stand_in_for_uniform_draws() -> None:
    """A column with one sixth in each row gives the same answers as the mark of a uniform draw."""
    table = random_log(2000)
    by_mark = asked(as_log(table), "greedy", "inverse propensity")
    by_number = asked(as_log(table.drop(columns="random").assign(propensity=1 / 6)), "greedy", "inverse propensity")
    assert by_mark.value == pytest.approx(by_number.value)
    assert by_mark.effective == pytest.approx(by_number.effective)


def test_thinning_undoes_unequal_propensities() -> None:
    """Where sets are shown more often than others, rejection keeps fewer of them: the mean stays unbiased.

    Item 0 is in every assortment shown at price below zero twice as often; 20,000 rounds, 4 standard errors.
    """
    rng = np.random.default_rng(8)
    count = 20_000
    price = rng.normal(size=(count, 2))
    likely = np.where(price[:, 0] < 0, 0.8, 0.2)
    first = rng.random(count) < likely
    bought = rng.random(count) < 1 / (1 + np.exp(0.5 + np.where(first, price[:, 0], price[:, 1])))
    shown = np.column_stack([first, ~first])
    table = pd.DataFrame(
        {
            "round": np.repeat(np.arange(count), 2),
            "item": np.tile([0, 1], count),
            "position": np.where(shown, 1.0, np.nan).ravel(),
            "chosen": (shown & bought[:, None]).ravel().astype(int),
            "price": price.ravel(),
            "propensity": np.repeat(np.where(first, likely, 1 - likely), 2),
        }
    )
    true = float((1 / (1 + np.exp(0.5 + price.min(axis=1)))).mean())
    for method in ("rejection", "inverse propensity"):
        found = asked(as_log(table), "oracle", method)
        error = (found.high - found.low) / (2 * 1.96)
        assert abs(found.value - true) < 4 * error
        assert found.effective >= 30


def test_logs_that_cannot_answer_are_refused_with_the_reason() -> None:
    """No candidates, no propensities, too few matches, and policies that show fewer items than the log did."""
    table = random_log(200)
    shown = as_log(table[table["position"].notna()])
    with pytest.raises(Unsupported, match="could have been shown and were not"):
        replayable(shown, shown.offerable(ITEM))
    unmarked = as_log(random_log(200, marked=False))
    with pytest.raises(Unsupported, match="how likely its assortments were"):
        replayable(unmarked, unmarked.offerable(ITEM))
    wide = as_log(random_log(300, items=12, shown=6))
    for method in ("rejection", "inverse propensity"):
        with pytest.raises(Unsupported, match="needs 30 matching rounds"):
            asked(wide, "greedy", method)
    priced = as_log(table.assign(revenue=np.where(table["item"] == 0, 100.0, 0.01)))
    with pytest.raises(Unsupported, match="as many items as the log did"):
        asked(priced, "oracle", "rejection")
