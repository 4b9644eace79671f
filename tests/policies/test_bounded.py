"""Bounds on norms: what they decide is what all norms would have decided, and nobody beside a visitor changes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.coins import Coins, SelectiveCoins, part_of

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Policy, Release
from quietshelf.policies import Greedy, Optimistic, OptimisticDraw
from quietshelf.policies.bounded import WORTH_BOUNDING, bounded, suits_bounds
from quietshelf.policies.chance import decide

N, D, K, MANY = 300, 60, 4, 5
SIZES = [1.0, 1e-13, 1e-160, 1e5, 1e140, 1e200, np.nan]


def released(rng: np.random.Generator, spread: float, *, explore: bool = False) -> Release:
    """Variances that lie as far apart as 1 and ``10 ** -spread``."""
    turn, _ = np.linalg.qr(rng.normal(size=(D, D)))
    precision = (turn * 10.0 ** rng.uniform(0.0, spread, size=D)) @ turn.T
    return Release(
        theta=rng.normal(size=D),
        precision=0.5 * (precision + precision.T),
        radius=np.asarray(0.5),
        explore=np.asarray(explore),
        count=np.asarray(1),
        draws=np.asarray(0.3),
    )


def visitors(rng: np.random.Generator, size: float, *, ties: bool, wishes: bool) -> Context:
    """Of whom the first has features of that size."""
    x = rng.normal(size=(MANY, N, D))
    if ties:
        x = x[:, rng.integers(0, 3, size=N)]
    x[0] *= size
    context = Context(Dense(x), np.broadcast_to(1.0, (MANY, N)), K)
    if not wishes:
        return context
    available = (rng.random((MANY, N)) < 0.5) | (rng.random((MANY, 1)) < 0.5)
    available[1, K - 1 :] = False  # too few
    required = (np.arange(N) == 7) & (np.arange(MANY)[:, None] == 2) & available
    return replace(context, available=available, required=required)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(SIZES), st.sampled_from([0.0, 1.0, 6.0]), st.booleans(), st.booleans()
)
def test_what_bounds_decide_is_what_all_norms_decide(
    seed: int, size: float, spread: float, ties: bool, wishes: bool
) -> None:
    """Alike and unlike variances; visitors whose numbers vanish or overflow, ties, wishes."""
    rng = np.random.default_rng(seed)
    context, release = visitors(rng, size, ties=ties, wishes=wishes), released(rng, spread)
    with np.errstate(over="ignore", invalid="ignore"):
        found, decided, coins = bounded(context, release, release.theta, release.radius, Coins(np.arange(MANY)))
        utility = context.features.utility(release.theta) + 0.5 * context.features.norm(release.covariance)
        whole = decide(context, release, utility, Coins(np.arange(MANY)), coins)
    np.testing.assert_array_equal(found[decided], whole[decided])
    if not (ties or wishes or spread):
        assert decided[1:].all()  # else nothing was shown above
    assert not (decided[0] and not np.abs(size) < 1e150)


@pytest.mark.parametrize("policy", [Optimistic(), OptimisticDraw(), Greedy()])
@pytest.mark.parametrize("coins", [Coins, SelectiveCoins])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(SIZES), st.booleans(), st.booleans())
def test_together_everybody_is_shown_what_they_are_shown_alone(
    policy: Policy, coins: type[Coins], seed: int, size: float, ties: bool, wishes: bool
) -> None:
    """Decided by bounds or not, beside a visitor of any size."""
    rng = np.random.default_rng(seed)
    context, release = visitors(rng, size, ties=ties, wishes=wishes), released(rng, 2.0)
    together = policy.offer(context, release, coins(np.arange(MANY)))
    for who in range(MANY):
        alone = policy.offer(part_of(context, who), release, coins(np.asarray(who)))
        np.testing.assert_array_equal(together[who], alone)


def test_who_is_decided_by_bounds() -> None:
    """Long vectors of many items under one release, if no limits on groups bind; never to explore."""
    rng = np.random.default_rng(0)
    context, release = visitors(rng, 1.0, ties=False, wishes=False), released(rng, 0.0)
    assert N * D**2 >= WORTH_BOUNDING
    assert suits_bounds(context, release)
    assert not suits_bounds(replace(context, capacity=N // 2), release)
    assert not suits_bounds(replace(context, features=Dense(context.features.rows(np.arange(N))[:, :200])), release)
    assert not suits_bounds(replace(context, groups=np.zeros(N, np.int64), limits=np.array([1])), release)
    exploring = released(rng, 0.0, explore=True)
    _, decided, _ = bounded(context, exploring, exploring.theta, exploring.radius, Coins(np.arange(MANY)))
    assert not decided.any()
