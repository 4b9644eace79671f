"""Shops as plain data: what they refuse, how many of their visitors buy, what they declare, and whose regret it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence
from tests.research.environments.contract import random_offer

from quietshelf.model.types import NOTHING, FloatArray, Streams
from quietshelf.research.environments import Shop
from quietshelf.research.environments.logit import taken
from quietshelf.research.environments.mixed import MixedRound, average_revenue, best_on_average
from quietshelf.research.environments.shop_visits import CLASSES, ShopEnvironment
from quietshelf.research.loop import contestant, simulate

PLAIN = Shop(items=30, capacity=4, conversion_rate=0.1, item_dim=3)
SHOPS = {
    "normal": PLAIN,
    "search": replace(PLAIN, per_visitor=True, correlation=0.6, conversion_rate=0.9),
    "crossed": replace(PLAIN, visitor_dim=2, conversion_rate=0.1, taste=1.5),
    "categories": replace(PLAIN, features="categories", categories=2, levels=4, conversion_rate=0.03),
    "ids": replace(PLAIN, features="ids", conversion_rate=0.3, taste=0.3),
    "bestsellers": replace(PLAIN, features="bestsellers", conversion_rate=0.3, new_every=50),
    "mixed": replace(PLAIN, per_visitor=True, mixing=1.0),
    "sold out": replace(PLAIN, availability=0.5),
}
SLIPS: dict[str, tuple[dict[str, Any], str]] = {
    "none buy": ({"conversion_rate": 0.0}, "conversion_rate must be between 0 and 1, got conversion_rate=0.0"),
    "capacity": ({"capacity": 31}, "capacity must be between 1 and items=30, got capacity=31"),
    "features": ({"features": "colours"}, "features must be one of normal, bestsellers, categories, ids"),
    "item_dim": ({"item_dim": 0}, "item_dim must be a whole number from 1 on"),
    "levels": ({"features": "categories", "levels": 1}, "levels must be a whole number from 2 on"),
    "per_visitor": ({"per_visitor": 1}, "per_visitor must be True or False"),
    "correlation": ({"correlation": 1.0}, r"correlation must be in \[0, 1\)"),
    "uncorrelated": ({"correlation": 0.5, "features": "ids"}, "only normal features are correlated"),
    "taste": ({"taste": 0.0}, "taste must be positive"),
    "revenue": ({"revenue": "large"}, "revenue must be one of equal, uniform"),
    "availability": ({"availability": 0.0}, r"availability must be in \(0, 1\]"),
    "mixing": ({"mixing": -1.0}, "mixing must be at least zero"),
    "half_life": ({"half_life": -5}, "half_life must be a whole number from 0 on"),
    "declared": ({"declared": "hundredfold"}, "declared must be one of right, ten times, a tenth, nothing"),
    "new_every": ({"new_every": -1}, "new_every must be a whole number from 0 on"),
    "first items": ({"new_every": 5, "capacity": 25}, "the items that are there at once must be at least capacity"),
    "visitors' effects": ({"features": "bestsellers", "visitor_dim": 1}, "an effect of an item is the same for all"),
    "fresh ids": ({"features": "ids", "per_visitor": True}, "ids are the same for all visitors"),
    "drifting prices": ({"features": "categories", "half_life": 10}, "a price is always disliked"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_shop_refuses_by_name(slip: str) -> None:
    """The rule, then the value."""
    wrong, rule = SLIPS[slip]
    with pytest.raises(ValueError, match=rule):
        replace(PLAIN, **wrong)


@pytest.mark.parametrize("name", SHOPS)
def test_the_share_that_buys_is_the_one_asked_for(name: str) -> None:
    """Of 16,000 random offers in 40 replicates, within 4.5 standard errors and 6 % for the public sample.

    The error is that of means over replicates; 2/3 and 3/2 of the share are refused.
    """
    shop = SHOPS[name]
    environment, rng = shop.open(SeedSequence(1).spawn(40)), np.random.default_rng(2)
    bought = np.zeros((400, 40))
    for t in range(400):
        context = environment.context(t)
        bought[t] = environment.choose(context, random_offer(context, rng)) != NOTHING
    mean, error = bought.mean(), 4.5 * bought.mean(axis=0).std(ddof=1) / np.sqrt(40)
    for wrong in (1.0, 2 / 3, 3 / 2):
        away = abs(mean - wrong * shop.conversion_rate)
        assert (away < error + 0.06 * shop.conversion_rate) == (wrong == 1.0)


@pytest.mark.parametrize("name", ["normal", "search", "crossed", "categories", "ids", "bestsellers"])
def test_laws_of_items_know_their_moments(name: str) -> None:
    """Means and covariances over 400 replicates or visitors, within 5 standard errors of every entry."""
    shop = SHOPS[name]
    context = shop.open(SeedSequence(3).spawn(400)).context(0)
    x = context.features.rows(np.broadcast_to(np.arange(shop.items), (400, shop.items)))
    middle = np.kron(np.eye(1 + shop.visitor_dim)[0], shop.law.mean)
    for samples, known in (
        (x.mean(axis=1), middle),
        (np.einsum("rni,rnj->rij", x - middle, x - middle) / shop.items, shop.covariance),
    ):
        error = 5 * samples.std(axis=0) / np.sqrt(400)
        away = np.abs(samples.mean(axis=0) - known) <= error + 1e-12
        if name == "categories":  # the square of a heavy tail: its own spread is hard to know
            away = away[..., :-1] if away.ndim == 1 else away[:-1, :-1]
        assert away.all()


def made_up(shop: Shop, factor: float = 1.0, environment: ShopEnvironment | None = None) -> FloatArray:
    """Features of 40 made-up visitors of three replicates, (3, 40, N, d)."""
    sample = (environment or shop.open(SeedSequence(4).spawn(3))).made_up
    assert sample is not None
    context = sample(np.full(3, factor), 40)
    assert context.capacity == shop.capacity
    assert context.revenue.shape == (3, 40, shop.items)
    return context.features.rows(np.broadcast_to(np.arange(shop.items), (3, 40, shop.items)))


def test_made_up_visitors_are_made_of_public_things() -> None:
    """The items of each replicate, its declaration and a public seed: not tastes, not who buys, not who came."""
    for name in ("normal", "search", "crossed", "categories", "ids"):
        shop = SHOPS[name]
        first = made_up(shop)
        assert first.shape == (3, 40, shop.items, shop.dim)
        np.testing.assert_array_equal(first, made_up(replace(shop, taste=2.5, conversion_rate=0.5)))
        environment = shop.open(SeedSequence(4).spawn(3))
        for t in range(5):
            context = environment.context(t)
            environment.choose(context, random_offer(context, np.random.default_rng(t)))
        np.testing.assert_array_equal(first, made_up(shop, environment=environment))


def test_making_visitors_up_moves_nobody() -> None:
    """Real visitors are the same, to the last bit, however often others were made up."""
    shop = SHOPS["crossed"]
    quiet, asked = (shop.open(SeedSequence(4).spawn(3)) for _ in range(2))
    made_up(shop, environment=asked)
    for t in range(3):
        one, other = quiet.context(t), asked.context(t)
        np.testing.assert_array_equal(one.features.utility(quiet.theta), other.features.utility(asked.theta))


def test_a_public_catalogue_is_shown_as_it_is() -> None:
    """What everybody sees needs no declared scale: made-up visitors see the very items, whatever is declared."""
    environment = PLAIN.open(SeedSequence(4).spawn(3))
    real = environment.context(0).features.rows(np.broadcast_to(np.arange(30), (3, 30)))
    for shop in (PLAIN, replace(PLAIN, declared="ten times")):
        np.testing.assert_array_equal(made_up(shop), np.broadcast_to(real[:, None], (3, 40, 30, 4)))


def test_scales_are_declared_right_wrong_or_not_at_all() -> None:
    """Ten times: features of search results and of visitors, but not the intercept; with nothing declared, nobody."""
    search, crossed = SHOPS["search"], SHOPS["crossed"]
    assert made_up(search)[..., 1:].std() == pytest.approx(1.0, rel=0.05)
    visitors = made_up(crossed)[:, :, 0, [4, 8]]  # (1, u) x (1, v): u is found where the item has its 1
    assert visitors.std() == pytest.approx(1.0, rel=0.15)
    for name, times in (("ten times", 10.0), ("a tenth", 0.1)):
        scale = np.array([1.0, times, times, times])
        np.testing.assert_allclose(made_up(replace(search, declared=name)), scale * made_up(search))
        scale = np.repeat([1.0, times, times], 4)
        np.testing.assert_allclose(made_up(replace(crossed, declared=name)), scale * made_up(crossed))
        np.testing.assert_allclose(made_up(crossed, factor=times), made_up(replace(crossed, declared=name)))
    nothing = replace(PLAIN, declared="nothing")
    assert nothing.open(SeedSequence(4).spawn(3)).made_up is None
    assert (PLAIN.conversion, replace(PLAIN, declared="ten times").conversion, nothing.conversion) == (0.1, 0.1, None)


def test_visitors_with_features_may_be_made_up_for_search_results() -> None:
    """Both at once: x = (1, u) x (1, v), with v drawn for each visitor."""
    shop = replace(SHOPS["search"], visitor_dim=2, correlation=0.0)
    x = made_up(shop)
    assert x.shape == (3, 40, 30, shop.dim) == (3, 40, 30, 12)
    np.testing.assert_array_equal(x[..., 0], 1.0)
    np.testing.assert_allclose(x[..., 4:8], x[..., 4:5] * x[..., :4])
    quiet = contestant("quiet", rho=5.0)
    assert np.isfinite(simulate(shop, [quiet], horizon=30, replicates=2, seed=1).regret[quiet.label]).all()


def test_what_is_declared_changes_nothing_else() -> None:
    """The same visitors, whatever the shop says of them."""
    one, other = (replace(PLAIN, declared=each).open(SeedSequence(4).spawn(3)).theta for each in ("right", "nothing"))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("taste", [0.3, 2.0])
def test_tastes_are_as_strong_as_asked_for(taste: float) -> None:
    """The standard deviation of utilities over 60 replicates of 1,000 items, within 5 %."""
    shop = Shop(items=1000, capacity=5, conversion_rate=0.1, item_dim=4, taste=taste)
    environment = shop.open(SeedSequence(5).spawn(60))
    utility = environment.context(0).features.utility(environment.theta)
    assert utility.std(axis=-1).mean() == pytest.approx(taste, rel=0.05)


def test_correlated_features_are_correlated() -> None:
    """Any two features of 20,000 items: 0.9 within 0.01."""
    law = replace(PLAIN, correlation=0.9).law
    drawn = law.columns(Streams([SeedSequence(6)]), 20_000)[0, 1:]
    assert np.asarray(np.corrcoef(drawn))[np.triu_indices(3, 1)] == pytest.approx(0.9, abs=0.01)


def test_rare_levels_are_rare_and_prices_have_heavy_tails() -> None:
    """The last of 8 levels has one item in 40; the dearest of 300 items costs more than ten times the median."""
    shop = Shop(items=300, capacity=5, conversion_rate=0.1, features="categories")
    x = shop.open(SeedSequence(7).spawn(40)).context(0).features.rows(np.broadcast_to(np.arange(300), (40, 300)))
    assert x.shape[-1] == shop.dim == 16
    assert 0.01 < x[..., 7].mean() < 0.04
    assert np.median(x[..., -1].max(axis=-1) / np.median(x[..., -1], axis=-1)) > 10
    assert set(np.unique(x[..., 1:-1])) == {0.0, 1.0}


def test_drifting_tastes_lose_half_their_correlation_in_a_half_life() -> None:
    """Over 200 replicates; they keep their strength, and those that do not drift stay."""
    shop = replace(PLAIN, half_life=40, item_dim=9)
    environment = shop.open(SeedSequence(8).spawn(200))
    start = environment.theta
    for t in range(40):
        environment.context(t)
    then, now = start[:, 1:], environment.theta[:, 1:]
    assert np.corrcoef(then.ravel(), now.ravel())[0, 1] == pytest.approx(0.5, abs=0.06)
    assert now.std() == pytest.approx(then.std(), rel=0.1)
    still = PLAIN.open(SeedSequence(8).spawn(3))
    first = still.theta
    for t in range(300):
        still.context(t)
    np.testing.assert_array_equal(still.theta, first)


def opened_by(environment: ShopEnvironment, t: int = 0) -> MixedRound:
    environment.context(t)
    opened = environment._round
    assert isinstance(opened, MixedRound)
    return opened


def enumerated(opened: MixedRound, subset: tuple[int, ...], world: int) -> float:
    """What a set of items earns on average over the classes, item by item."""
    value = 0.0
    for utility in opened.classes[:, world]:
        weight = np.exp(utility[list(subset)])
        value += float(weight @ opened.context.revenue[world, list(subset)] / (1 + weight.sum()))
    return value / len(opened.classes)


@pytest.mark.parametrize("revenue", ["equal", "uniform"])
def test_regret_of_mixed_tastes_is_exact_for_one_item(revenue: str) -> None:
    """The best item on average over the classes less the one shown, both by enumeration."""
    shop = replace(PLAIN, items=8, capacity=1, mixing=1.0, revenue=revenue)
    environment = shop.open(SeedSequence(9).spawn(3))
    opened = opened_by(environment)
    for item in range(8):
        regret = environment.regret(opened.context, np.full((3, 1), item))
        for world in range(3):
            best = max(enumerated(opened, (each,), world) for each in range(8))
            assert regret[world] == pytest.approx(best - enumerated(opened, (item,), world), abs=1e-12)


@pytest.mark.parametrize("revenue", ["equal", "uniform"])
def test_regret_of_mixed_tastes_is_against_nearly_the_best_of_several_items(revenue: str) -> None:
    """No set of at most three of eight items earns 1 % more than the one that was found; regret is never below 0."""
    shop = replace(PLAIN, items=8, capacity=3, mixing=1.0, revenue=revenue)
    environment = shop.open(SeedSequence(10).spawn(12))
    opened = opened_by(environment)
    subsets = [subset for size in (1, 2, 3) for subset in combinations(range(8), size)]
    for world in range(12):
        values = {subset: enumerated(opened, subset, world) for subset in subsets}
        assert opened.known[world] <= max(values.values()) + 1e-12
        assert opened.known[world] >= 0.99 * max(values.values())
    for subset in subsets:
        items = np.tile([*subset, *[NOTHING] * (3 - len(subset))], (12, 1))
        regret = environment.regret(opened.context, items)
        value = average_revenue(opened.classes, opened.context.revenue, np.sort(items, axis=-1))
        assert (regret >= 0).all()
        np.testing.assert_allclose(regret, np.maximum(opened.known - value, 0), atol=1e-14)


def test_the_best_on_average_is_available() -> None:
    """What is sold out earns nothing."""
    utility = np.array([[[3.0, 1.0, 0.0]]] * 2)
    sold = np.array([[False, True, True]])
    found = best_on_average(utility, np.ones((1, 3)), 2, sold)
    weight = np.exp(1.0) + 1.0
    assert found[0] == pytest.approx(weight / (1 + weight))


def test_mixed_visitors_choose_by_their_own_tastes() -> None:
    """Classes differ as much as asked for, average to the shop's tastes, and all of them come."""
    shop = replace(PLAIN, items=400, mixing=0.5, taste=2.0)
    environment = shop.open(SeedSequence(11).spawn(30))
    average = environment.theta
    seen: list[FloatArray] = []
    for t in range(40):
        opened = opened_by(environment, t)
        np.testing.assert_allclose(opened.classes.mean(axis=0), opened.context.features.utility(average), atol=1e-9)
        seen.append(np.abs(opened.classes - opened.utility).max(axis=-1).argmin(axis=0))
    assert opened.classes.shape == (CLASSES, 30, 400)
    assert set(np.unique(seen)) == set(range(CLASSES))
    apart = opened.classes - opened.classes.mean(axis=0)
    assert np.sqrt((apart**2).mean()) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("name", ["search", "crossed", "categories", "ids", "sold out"])
def test_the_oracle_loses_nothing(name: str) -> None:
    """And nobody else loses less than that."""
    result = simulate(SHOPS[name], ["oracle", "uniform"], horizon=30, replicates=4, seed=1)
    assert (result.regret["oracle"] == 0).all()
    assert (result.regret["uniform"][:, -1] > 0).all()


@pytest.mark.parametrize("name", SHOPS)
def test_rows_do_not_depend_on_workers_or_on_who_runs_beside(name: str) -> None:
    """Two processes or one, quiet alone or beside others: equal to the last bit."""
    quiet = contestant("quiet", rho=50.0)
    together = simulate(SHOPS[name], [quiet, "uniform"], horizon=40, replicates=4, seed=2, workers=1)
    alone = simulate(SHOPS[name], [quiet], horizon=40, replicates=2, seed=2)
    np.testing.assert_array_equal(together.regret[quiet.label][:2], alone.regret[quiet.label])
    if name == "mixed":
        apart = simulate(SHOPS[name], [quiet, "uniform"], horizon=40, replicates=4, seed=2, workers=2)
        np.testing.assert_array_equal(together.regret[quiet.label], apart.regret[quiet.label])


def test_what_is_not_available_is_never_shown() -> None:
    """About half of it each time, and others each time; showing it is refused."""
    environment = SHOPS["sold out"].open(SeedSequence(12).spawn(20))
    stocks = []
    for t in range(20):
        context = environment.context(t)
        assert context.available is not None
        stocks.append(context.available)
        offer = random_offer(context, np.random.default_rng(t))
        assert taken(context.available, offer)[offer != NOTHING].all()
    assert np.mean(stocks) == pytest.approx(0.5, abs=0.03)
    gone = np.argmin(stocks[-1], axis=-1)[:, None]
    with pytest.raises(ValueError, match="only available items"):
        environment.choose(context, gone)


def test_bestsellers_sell_beyond_their_features_and_new_items_come_later() -> None:
    """A tenth of the items, in every replicate; the last fifth is shown to nobody before it is there."""
    shop = SHOPS["bestsellers"]
    environment = shop.open(SeedSequence(5).spawn(4))
    effects = environment.theta[:, 4:]
    assert (np.count_nonzero(effects, axis=1) == 3).all()
    assert (effects.max(axis=1) > 0.5 * shop.taste).all()
    came = []
    for t in range(320):
        available = environment.context(t).available
        assert available is not None
        came.append(available.sum(axis=-1).tolist())
    assert came[::50] == [[24 + number] * 4 for number in (0, 1, 2, 3, 4, 5, 6)]
