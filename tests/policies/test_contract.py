"""What every policy promises, whatever it thinks of the items: one suite, inherited by each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import NOTHING, BoolArray, Context, IntArray, Policy, Release, Streams
from quietshelf.policies import POLICIES, Greedy, Optimistic, OptimisticDraw, Thompson, Uniform

ITEMS, CAPACITY, DIM = 9, 4, 3


def release(rng: np.random.Generator, batch: tuple[int, ...], dim: int = DIM, *, explore: bool = False) -> Release:
    root = rng.normal(size=(*batch, dim, dim))
    return Release(
        theta=rng.normal(size=(*batch, dim)),
        precision=root @ np.swapaxes(root, -1, -2) + np.eye(dim),
        radius=rng.uniform(0.1, 2.0, size=batch),
        explore=np.full(batch, explore),
        count=np.zeros(batch, dtype=np.int64),
    )


def open_context(rng: np.random.Generator, batch: tuple[int, ...]) -> Context:
    return Context(Dense(rng.normal(size=(*batch, ITEMS, DIM))), rng.uniform(0.1, 1.0, (*batch, ITEMS)), CAPACITY)


def constrained(rng: np.random.Generator, batch: tuple[int, ...]) -> Context:
    """A context with every kind of constraint, met by some assortment; sometimes fewer than K items may be shown."""
    groups, limits = rng.integers(-1, 3, size=ITEMS), rng.integers(1, 3, size=3)
    required = np.zeros((*batch, ITEMS), dtype=bool)
    required[..., rng.integers(ITEMS)] = True
    available = (rng.random((*batch, ITEMS)) < 0.6) | required
    return replace(open_context(rng, batch), available=available, required=required, groups=groups, limits=limits)


def shown(items: IntArray) -> BoolArray:
    """Which items each row shows, (..., N)."""
    mask: BoolArray = (items[..., None] == np.arange(ITEMS)).any(axis=-2)
    return mask


def world(context: Context, k: int) -> Context:
    """One world of a batch, as a batch of one."""
    assert isinstance(context.features, Dense)
    features = Dense(context.features.x[k : k + 1])
    available = None if context.available is None else context.available[k : k + 1]
    required = None if context.required is None else context.required[k : k + 1]
    revenue = context.revenue[k : k + 1]
    return replace(context, features=features, revenue=revenue, available=available, required=required)


def part(whole: Release, k: int) -> Release:
    return Release(**{name: getattr(whole, name)[k : k + 1] for name in Release.arrays})


def check_constraints(context: Context, items: IntArray) -> None:
    mask = shown(items)
    assert items.shape == (*context.revenue.shape[:-1], CAPACITY)
    assert ((items >= NOTHING) & (items < ITEMS)).all()
    np.testing.assert_array_equal(mask.sum(-1), (items != NOTHING).sum(-1))
    assert context.available is not None
    assert context.required is not None
    assert context.limits is not None
    assert not (mask & ~context.available).any()
    assert mask[context.required].all()
    for group, limit in enumerate(context.limits):
        assert (mask[..., context.groups == group].sum(-1) <= limit).all()


class PolicyContract:
    """The suite."""

    policy: Policy

    @pytest.mark.parametrize("batch", [(), (5,)])
    def test_offer_depends_on_context_release_and_generator_alone(self, batch: tuple[int, ...]) -> None:
        """Equal releases, contexts and generator states give equal offers, whatever was offered before."""
        rng = np.random.default_rng(1)
        context, first, other = constrained(rng, batch), release(rng, batch), release(rng, batch)
        again = Release(first.theta.copy(), first.precision.copy(), first.radius.copy(), first.explore, first.count)
        fresh = self.policy.offer(context, first, np.random.default_rng(2))
        self.policy.offer(open_context(rng, batch), other, np.random.default_rng(3))
        np.testing.assert_array_equal(self.policy.offer(context, again, np.random.default_rng(2)), fresh)
        assert fresh.shape == (*batch, CAPACITY)
        assert fresh.dtype == np.int64

    @pytest.mark.parametrize("explore", [False, True])
    @pytest.mark.parametrize("batch", [(), (1,), (4,), (2, 3)])
    def test_offer_keeps_every_constraint(self, batch: tuple[int, ...], explore: bool) -> None:
        """At most K distinct available items, the required ones among them, no group above its limit."""
        for seed in range(40):
            rng = np.random.default_rng(seed)
            context = constrained(rng, batch)
            check_constraints(context, self.policy.offer(context, release(rng, batch, explore=explore), rng))

    @pytest.mark.parametrize("make", [open_context, constrained])
    def test_worlds_together_are_offered_what_each_is_alone(
        self, make: Callable[[np.random.Generator, tuple[int, ...]], Context]
    ) -> None:
        """With streams of their own, five worlds in a batch see, to the bit, what each sees by itself."""
        rng = np.random.default_rng(4)
        seeds = np.random.SeedSequence(5).spawn(5)
        together, alone = Streams(seeds), [Streams([seed]) for seed in seeds]
        for _ in range(8):
            context = make(rng, (5,))
            last = replace(release(rng, (5,)), explore=rng.random(5) < 0.4)
            offers = self.policy.offer(context, last, together)
            for k in range(5):
                single = self.policy.offer(world(context, k), part(last, k), alone[k])
                np.testing.assert_array_equal(offers[k], single[0])

    @pytest.mark.parametrize("name", ["item", "concat", "outer", "full"])
    def test_dense_and_catalogued_features_give_the_same_offer(self, name: str) -> None:
        """It does not matter whether x was formed."""
        rng, how = np.random.default_rng(6), feature_map(name)
        visitor, catalogue = rng.normal(size=(7, 2)), rng.normal(size=(ITEMS, 3))
        structured = Catalogued(visitor, catalogue, how)
        context = replace(open_context(rng, (7,)), features=structured)
        formed = replace(context, features=Dense(how.dense(visitor, catalogue)))
        last = release(rng, (7,), structured.dim)
        np.testing.assert_array_equal(
            self.policy.offer(context, last, np.random.default_rng(7)),
            self.policy.offer(formed, last, np.random.default_rng(7)),
        )

    def test_exploring_worlds_show_a_full_random_assortment(self) -> None:
        """Where the release asks to explore, K items in the order of chance, worthless ones too; others decide."""
        rng = np.random.default_rng(8)
        context = open_context(rng, (200,))
        context = replace(context, revenue=context.revenue - 0.5)
        last = replace(release(rng, (200,)), explore=np.arange(200) % 2 == 0)
        decided = self.policy.offer(context, replace(last, explore=np.zeros(200, dtype=bool)), np.random.default_rng(9))
        offers = self.policy.offer(context, last, np.random.default_rng(9))
        np.testing.assert_array_equal(offers[1::2], decided[1::2])
        assert (offers[::2] != NOTHING).all()
        assert len({tuple(row) for row in offers[::2].tolist()}) > 50


class TestOptimistic(PolicyContract):
    """Optimism keeps the contract."""

    policy = Optimistic()


class TestGreedy(PolicyContract):
    """Greed keeps the contract."""

    policy = Greedy()


class TestThompson(PolicyContract):
    """Thompson sampling keeps the contract."""

    policy = Thompson()


class TestOptimisticDraw(PolicyContract):
    """Drawn tastes with optimism keep the contract."""

    policy = OptimisticDraw()


class TestUniform(PolicyContract):
    """Chance keeps the contract."""

    policy = Uniform()


def test_policies_have_the_names_outsiders_rely_on() -> None:
    """Each name stands for its kind; those of the literature share the optimistic policy."""
    kinds = {name: type(policy) for name, policy in POLICIES.items()}
    optimistic = ("dpmnl", "dpmnl-eps-delta", "ucb-mnl", "ofu-mnl")
    assert kinds == {
        "quiet": OptimisticDraw,
        **dict.fromkeys(optimistic, Optimistic),
        "ts-mnl": Thompson,
        "greedy": Greedy,
        "oracle": Greedy,
        "uniform": Uniform,
    }
