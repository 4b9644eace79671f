"""Offers from large catalogues: screening finds what scoring every item would, to the last tie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quietshelf.curation.coins import Coins, SlotCoins
from quietshelf.model.assortment import items_for
from quietshelf.model.choice import catalogue as blocks
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.choice.screening import Common, Scores
from quietshelf.model.types import NOTHING, BoolArray, Context, FloatArray, IntArray, Release
from quietshelf.policies import POLICIES, Greedy, Optimistic, OptimisticDraw, shortlist
from quietshelf.policies.chance import JITTER

SIZES = [1.0, 1.0, 1.0, 0.0, 1e-320, 1e-160, 1e-13, 1e5, 1e100, 1e160, 1e200, 1e307]
"""Of visitors' features: ordinary, nothing, denormal, such that squares vanish or overflow, such that utilities do."""
SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few items count as many, in blocks of a few: everything is reached with arrays that can be scored in full."""
    monkeypatch.setattr(shortlist, "MANY", 1)
    monkeypatch.setattr(shortlist, "FINE", 8)
    monkeypatch.setattr(shortlist, "GROUP", 3)
    monkeypatch.setattr(blocks, "BLOCK", 64)


def coins_of(visitors: IntArray | int) -> SlotCoins:
    return Coins(b"a secret of this test").of([(0, int(who)) for who in np.atleast_1d(visitors)])


def exact(scores: Scores, who: int, items: IntArray) -> FloatArray:
    found: FloatArray = scores.exact(np.array([who]), items[None])[0]
    return found


def in_full(
    context: Context, release: Release, theta: FloatArray, radius: FloatArray, coins: FloatArray, who: int
) -> list[int]:
    """What the definition says for one visitor: the largest scores of all, with everybody's coins drawn."""
    features = context.features
    assert isinstance(features, Catalogued)
    form = features.form(release.covariance)
    slope = np.broadcast_to(features.slope(theta), (len(coins), form.shape[-1]))
    scores = Scores(features.stored, slope, np.broadcast_to(form, (len(coins), *form.shape[-2:])), radius)
    items = np.arange(features.items)
    score = exact(scores, who, items) + JITTER * max(scores.size[who], 1.0) * coins[who]
    own = part_of(context, who)
    return [item for item in items_for(own, score, own.revenue).tolist() if item != NOTHING]


def some_items(rng: np.random.Generator, items: int, dim: int) -> FloatArray:
    """Items many of which are tied, exactly or nearly, and some of which are extreme."""
    rows = rng.normal(size=(items, dim))
    if rng.random() < 0.6:
        rows = rows[rng.integers(0, max(1, items // int(rng.integers(1, 40))), size=items)]
    if rng.random() < 0.4:
        rows = rows * (1.0 + rng.choice([0.0, 1e-15, 1e-13, 1e-12], size=(items, 1)))
    if rng.random() < 0.3:
        rows[rng.integers(items)] *= rng.choice([1e-310, 1e-40, 1e5, 1e15])
    return np.asarray(rows)


def some_release(rng: np.random.Generator, dim: int) -> Release:
    """Of any precision, also one that knows some directions 1e8 times as well as others."""
    root = rng.normal(size=(dim, dim)) * 10.0 ** rng.uniform(-4, 4, size=(dim, 1)) ** rng.integers(0, 2)
    theta = rng.normal(size=dim) * rng.choice([0.0, 1e-13, 1.0, 1.0, 1e3])
    radius = np.asarray(rng.choice([0.0, 1e-9, 0.5, 2.0, 1e3]))
    return Release(theta, root @ root.T + np.eye(dim), radius, np.asarray(False), np.asarray(0), np.asarray(1.0))


def some_context(rng: np.random.Generator, visitors: int, items: int) -> Context:
    d1, d2 = int(rng.integers(0, 4)), int(rng.integers(1, 6))
    named = feature_map(str(rng.choice([name for name in MAPS if d1 or name != "outer"])))
    visitor = rng.normal(size=(visitors, d1)) * rng.choice(SIZES, size=(visitors, 1))
    capacity = int(rng.integers(1, min(items, 12) + 1))
    made = Context(Catalogued(visitor, some_items(rng, items, d2), named), np.ones((visitors, items)), capacity)
    if rng.random() < 0.4:
        share = rng.choice([0.003, 0.3, 0.99])
        made = replace(made, available=rng.random((visitors, items)) < share)
    if rng.random() < 0.3:
        required = np.zeros((visitors, items), dtype=bool)
        for row in required:
            row[rng.choice(items, size=int(rng.integers(0, capacity + 1)), replace=False)] = True
        free = None if made.available is None else made.available | required
        made = replace(made, required=required, available=free)
    if rng.random() < 0.4:
        groups, limits = rng.integers(-1, 3, size=items), rng.integers(0, 4, size=3)
        if rng.random() < 0.5:
            groups = np.abs(groups)
        for row in () if made.required is None else made.required:
            limits = np.maximum(limits, np.bincount(groups[row & (groups >= 0)], minlength=3))
        made = replace(made, groups=groups, limits=limits)
    return made


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([2, 63, 64, 65, 300, 1500]))
def test_a_shortlist_gives_what_scoring_every_item_gives(seed: int, visitors: int, items: int) -> None:
    """Ties, near ties, extreme items and visitors, required and unavailable items, limits on groups, any radius."""
    rng = np.random.default_rng(seed)
    context = some_context(rng, visitors, items)
    release = some_release(rng, context.features.dim)
    assert shortlist.suits(context)
    theta = release.theta + rng.normal(size=(visitors, release.theta.size)) * rng.choice([0.0, 1.0])
    everybody = coins_of(np.arange(visitors))
    with np.errstate(all="ignore"):
        found, sound, drawn = shortlist.shortlisted(context, release, theta, release.radius, everybody)
        assert drawn is None
        coins, radius = everybody.random((visitors, items)), np.broadcast_to(release.radius, visitors)
        for who in np.flatnonzero(sound):
            shown = found[who][found[who] != NOTHING].tolist()
            assert shown == in_full(context, release, theta, radius, coins, int(who))
            assert found[who].tolist() == shown + [NOTHING] * (context.capacity - len(shown))


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.sampled_from([65, 300, 1500]))
def test_everybody_is_shown_the_same_alone_and_in_any_group(seed: int, visitors: int, items: int) -> None:
    """Beside visitors whose scores overflow, who explore nothing less, and whose items earn different amounts."""
    rng = np.random.default_rng(seed)
    context = some_context(rng, visitors, items)
    if rng.random() < 0.3:
        unequal = np.where(rng.random((visitors, 1)) < 0.5, rng.uniform(0.1, 1.0, size=(visitors, items)), 1.0)
        context = replace(context, revenue=unequal)
    release = some_release(rng, context.features.dim)
    for policy in (Optimistic(), Greedy(), OptimisticDraw()):
        together = policy.offer(context, release, coins_of(np.arange(visitors)))
        for who in ([0], [visitors - 1], rng.permutation(visitors)[:4].tolist()):
            alone = policy.offer(part_of(context, who), release, coins_of(np.asarray(who)))
            np.testing.assert_array_equal(together[who], alone)


def part_of(context: Context, who: Any) -> Context:
    features = context.features
    assert isinstance(features, Catalogued)
    own = replace(features, visitor=features.visitor[who].copy())

    def rows(mask: BoolArray | None) -> BoolArray | None:
        return None if mask is None else mask[who]

    part = replace(context, features=own, revenue=context.revenue[who])
    return replace(part, available=rows(context.available), required=rows(context.required))


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.sampled_from([65, 700]))
def test_no_score_exceeds_its_bounds(seed: int, items: int) -> None:
    """Coarse and fine, in single precision, of visitors and items of any size."""
    rng = np.random.default_rng(seed)
    context = some_context(rng, 5, items)
    release, features = some_release(rng, context.features.dim), context.features
    assert isinstance(features, Catalogued)
    with np.errstate(all="ignore"):
        slope, form = (
            features.slope(np.broadcast_to(release.theta, (5, features.dim))),
            features.form(release.covariance),
        )
        scores = Scores(features.stored, slope, form, np.broadcast_to(release.radius, 5))
        scores = scores.only(np.flatnonzero(scores.size <= 1e290))
        common = Common.of(features, release.covariance)
        coarse, fine, everything = scores.coarse(common), scores.fine(), np.arange(items)
        upper = coarse.everywhere(features.stored, common).upper
        columns = features.stored.columns(everything, single=True)
        for who in range(len(scores.radius)):
            known = exact(scores, who, everything)
            assert (np.abs(known) <= np.maximum(scores.size[who] * (1 + 1e-9), 1e-60)).all()
            assert (upper[who] >= coarse.floors(known[:, None])[:, who]).all()
            assert (fine.of(who, columns) >= fine.floors(known[:, None])[:, who]).all()


def test_a_bound_without_its_error_would_lose_items() -> None:
    """The allowance for rounding is needed: without it some score of these exceeds its bound."""
    rng = np.random.default_rng(0)
    features = Catalogued(rng.normal(size=(50, 3)), rng.normal(size=(200, 4)), feature_map("full"))
    scores = Scores(features.stored, features.slope(rng.normal(size=(50, 20))), features.form(np.eye(20)), np.ones(50))
    fine = replace(scores.fine(), error=np.zeros(50))
    columns = features.stored.columns(np.arange(200), single=True)
    over = [exact(scores, who, np.arange(200)) / fine.scale[who] > fine.of(who, columns) for who in range(50)]
    assert np.any(over)


def test_visitors_at_the_edge_of_overflow_are_served_as_many_items() -> None:
    """Their size is finite, yet squares of their scores may round to infinity: they are not screened but scored."""
    scale = 6527050988424975.0
    rows = np.tile(np.full(7, scale), (300, 1))
    rows[100:] *= 0.5
    largest = float(np.sqrt(np.finfo(float).max / 7) / np.sqrt(1 + 7 * scale**2))
    visitors = largest * (1 + np.arange(-60, 61) * 2.0**-52)[:, None]
    context = Context(Catalogued(visitors, rows, feature_map("outer")), np.ones((121, 300)), 4)
    release = Release(np.zeros(7), np.eye(7), np.asarray(1.0), np.asarray(False), np.asarray(0), np.asarray(1.0))
    release.__dict__["covariance"] = np.ones((7, 7))
    shown = Optimistic().offer(context, release, coins_of(np.arange(121)))
    assert (shown != NOTHING).all()


def test_scores_are_the_utilities_of_the_ordinary_way() -> None:
    """To rounding: x . theta + radius |x|; and their bits do not depend on the items they are computed with."""
    rng = np.random.default_rng(1)
    features = Catalogued(rng.normal(size=(2, 3)), rng.normal(size=(500, 4)), feature_map("full"))
    theta, root = rng.normal(size=(2, 20)), rng.normal(size=(20, 20))
    metric = root @ root.T
    scores = Scores(features.stored, features.slope(theta), features.form(metric), np.array([0.7, 0.0]))
    wanted = features.utility(theta) + np.array([[0.7], [0.0]]) * features.norm(metric)
    for who in range(2):
        found = exact(scores, who, np.arange(500))
        np.testing.assert_allclose(found, wanted[who], rtol=1e-12, atol=1e-12)
        for items in (np.array([3]), np.array([499, 3, 64, 63]), np.arange(0, 500, 7)):
            np.testing.assert_array_equal(exact(scores, who, items), found[items])


def test_coins_of_single_items_are_those_of_the_whole_draw() -> None:
    """Few are computed from the counter, many by drawing all: the same numbers."""
    coins = coins_of(np.arange(2))
    whole = coins.random((2, 9000))
    for items in (np.array([0]), np.array([8999, 5, 4, 3]), np.arange(0, 9000, 3)):
        for who in range(2):
            np.testing.assert_array_equal(coins.random_at(who, items, 9000), whole[who][items])


def test_ties_are_broken_evenly_and_only_ties_draw() -> None:
    """Of six tied items for two places each is shown a third of the time; without a tie no coin is drawn."""
    items = np.concatenate([np.zeros((400, 1)), np.ones((6, 1))])
    context = Context(Catalogued(np.empty((900, 0)), items, feature_map("item")), np.ones((900, 406)), 2)
    release = Release(np.ones(2), np.eye(2), np.asarray(1.0), np.asarray(False), np.asarray(0), np.asarray(0.0))
    shown = Optimistic().offer(context, release, coins_of(np.arange(900)))
    assert shown.min() == 400
    assert np.abs(np.bincount(shown.ravel() - 400) - 300).max() < 75  # 5 standard deviations of a binomial count

    class NoCoins(SlotCoins):
        def random_at(self, visitor: int, items: IntArray, count: int) -> FloatArray:  # noqa: ARG002
            raise AssertionError("a coin was drawn")

    apart = replace(context, features=Catalogued(np.empty((1, 0)), np.arange(406.0)[:, None], feature_map("item")))
    shown = Optimistic().offer(replace(apart, revenue=np.ones((1, 406))), release, NoCoins([b"k"]))
    assert shown.tolist() == [[404, 405]]


@pytest.mark.parametrize("change", ["effects", "reach"])
def test_what_cannot_be_screened_is_scored_in_full(change: str) -> None:
    """Effects of items, and items too long for single precision."""
    rows = np.random.default_rng(0).normal(size=(100, 2))
    made = feature_map("item", effects=3 if change == "effects" else 0)
    rows[0] *= 1e30 if change == "reach" else 1.0
    context = Context(Catalogued(np.empty((1, 0)), rows, made), np.ones((1, 100)), 2)
    assert not shortlist.suits(context)


def test_screening_follows_the_release_and_the_items() -> None:
    """What is kept from one release or one version of the items is not used for another."""
    rng = np.random.default_rng(3)
    stored = Catalogue.of(rng.normal(size=(300, 3)))
    for step in range(6):
        release = some_release(rng, 4)
        for _ in range(2):
            context = Context(Catalogued(np.empty((1, 0)), stored, feature_map("item")), np.ones((1, 300)), 5)
            shown = Greedy().offer(context, release, coins_of(0))
            fresh = replace(context, features=Catalogued(np.empty((1, 0)), np.asarray(stored), feature_map("item")))
            np.testing.assert_array_equal(shown, Greedy().offer(fresh, release, coins_of(0)))
            shown = POLICIES["quiet"].offer(context, release, coins_of(0))
            np.testing.assert_array_equal(shown, POLICIES["quiet"].offer(fresh, release, coins_of(0)))
            stored = stored.with_row(int(rng.integers(300)), 3.0 * rng.normal(size=3))
        stored = stored if step % 2 else Catalogue.of(np.asarray(stored.with_more(rng.normal(size=(1, 3)))[:300]))
