"""The online mirror-descent curator: every update is the minimiser it claims to be."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import NonlinearConstraint, minimize
from tests.privacy.release import crowds
from tests.privacy.release.crowds import DIM, ITEMS, PLACES

from quietshelf.model.choice import chosen_features, information, moments, utilities
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray, Release, Round
from quietshelf.privacy.release.mirror_descent import MirrorDescent, OnlineWidth, moved, project
from quietshelf.privacy.statistics import ObservedChoice

rounds = partial(crowds.rounds, empty=False)


def spd(rng: np.random.Generator, *shape: int, spread: float = 1.0) -> FloatArray:
    """Positive definite matrices whose eigenvalues span about ``spread`` orders of magnitude."""
    values = 10 ** rng.uniform(-spread / 2, spread / 2, size=shape[:-1])
    vectors = np.linalg.qr(rng.normal(size=shape))[0]
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def some(rng: np.random.Generator, worlds: tuple[int, ...], places: int, dim: int) -> ObservedChoice:
    rows = 2 * rng.normal(size=(*worlds, places, dim))
    return ObservedChoice(rows, np.ones((*worlds, places), dtype=bool), rng.integers(-1, places, size=worlds))


def constrained(start: FloatArray, gradient: FloatArray, metric: FloatArray, step: float, bound: float) -> FloatArray:
    """The same minimisation by a generic constrained optimiser."""
    found = minimize(
        lambda w, *_: float(gradient @ w + (w - start) @ metric @ (w - start) / (2 * step)),
        np.zeros_like(start),
        jac=lambda w, *_: gradient + metric @ (w - start) / step,
        constraints=NonlinearConstraint(lambda w: np.atleast_1d(w @ w), 0.0, bound**2, jac=lambda w: 2 * w[None]),
        method="SLSQP",
        tol=1e-14,
    )
    return np.asarray(found.x, dtype=np.float64)


@pytest.mark.parametrize("bound", [0.3, 1.0, 10.0])
def test_update_equals_a_generic_constrained_optimiser(bound: float) -> None:
    """From random states, the step solves the mirror-descent problem, with the constraint active and without."""
    rng, step, active = np.random.default_rng(1), 3.0, 0
    for _ in range(20):
        seen, precision = some(rng, (), 4, 3), spd(rng, 3, 3)
        theta = rng.normal(size=3)
        theta *= bound * rng.random() / np.linalg.norm(theta)
        after, _ = moved(seen, theta, precision, step=step, bound=bound)
        mean = moments(seen.rows, utilities(seen.rows, theta)).mean
        gradient = mean - chosen_features(seen.rows, seen.position)
        metric = precision + step * information(seen.rows, theta)
        np.testing.assert_allclose(after, constrained(theta, gradient, metric, step, bound), atol=2e-5 * bound)
        active += bool(np.linalg.norm(after) > bound * (1 - 1e-9))
    assert active == 20 if bound == 0.3 else 0 < active < 20


@settings(max_examples=200, deadline=None)
@given(dim=st.integers(1, 6), seed=st.integers(0, 10_000), far=st.floats(-3, 6), spread=st.floats(0, 10))
def test_projection_meets_the_optimality_conditions(dim: int, seed: int, far: float, spread: float) -> None:
    """Inside it is the identity; outside it lies on the sphere with metric (theta - y) = m y for one m >= 0."""
    rng = np.random.default_rng(seed)
    metric, theta = spd(rng, dim, dim, spread=spread), rng.normal(size=dim)
    theta *= 10**far / np.linalg.norm(theta)
    y = project(theta, metric, 1.0)
    if far <= 0:
        np.testing.assert_array_equal(y, theta)
        return
    assert np.linalg.norm(y) == pytest.approx(1.0, abs=1e-12)
    pull = metric @ (theta - y)
    multiplier = float(pull @ y)
    assert multiplier >= 0
    np.testing.assert_allclose(pull, multiplier * y, atol=1e-8 * float(np.linalg.norm(metric @ theta)))


def test_precision_is_the_ridge_plus_informations_at_the_next_theta() -> None:
    """H_(t+1) = H_t + G_t(theta_(t+1)), and theta never leaves the ball."""
    curator = MirrorDescent(DIM, PLACES, ridge=0.5, bound=0.8)
    expected = 0.5 * np.eye(DIM)
    np.testing.assert_array_equal(curator.release.precision, expected)
    for t, each in enumerate(rounds(60), start=1):
        release = curator.observe(each)
        expected = expected + information(each.context.features.rows(each.assortment), release.theta)
        np.testing.assert_allclose(release.precision, expected, rtol=1e-12)
        assert np.linalg.norm(release.theta) <= 0.8 * (1 + 1e-15)
        assert release.count == t


def test_default_step_is_the_published_one() -> None:
    """With |theta| <= 1, eta = log(K + 1)/2 + 2: the first step is eta (ridge + eta G)^-1 times the score."""
    each = rounds(1)[0]
    rows = each.context.features.rows(each.assortment)
    eta = math.log(PLACES + 1) / 2 + 2
    score = rows[list(each.assortment).index(each.choice)] if each.choice >= 0 else np.zeros(DIM)
    score = score - rows.sum(0) / (PLACES + 1)
    metric = 100.0 * np.eye(DIM) + eta * information(rows, np.zeros(DIM))
    after = MirrorDescent(DIM, PLACES, ridge=100.0, bound=1.0).observe(each)
    np.testing.assert_allclose(after.theta, eta * np.linalg.solve(metric, score), rtol=1e-12)


def test_default_ridge_is_of_the_published_order() -> None:
    """Before the first visitor the precision is d eta I, the order of the analysis without its constant."""
    eta = math.log(PLACES + 1) / 2 + math.sqrt(DIM) + 1
    np.testing.assert_allclose(MirrorDescent(DIM, PLACES).release.precision, DIM * eta * np.eye(DIM))


def test_parallel_worlds_equal_single_worlds() -> None:
    """Three worlds together release, bit for bit, what each releases alone, projections included."""
    many = rounds(80, (3,), seed=4, theta=2.0)
    together = MirrorDescent(DIM, PLACES, worlds=(3,), bound=1.0)
    alone = [MirrorDescent(DIM, PLACES, bound=1.0) for _ in range(3)]
    everything = np.broadcast_to(np.arange(ITEMS), (3, ITEMS))
    for each in many:
        release = together.observe(each)
        x = each.context.features.rows(everything)
        for world, curator in enumerate(alone):
            context = replace(each.context, features=Dense(x[world]))
            one = curator.observe(Round(context, each.assortment[world], each.choice[world]))
            for name in Release.arrays:
                np.testing.assert_array_equal(getattr(release, name)[world], getattr(one, name), err_msg=name)


def test_estimate_approaches_the_truth() -> None:
    """In 40 worlds the root-mean-square error more than halves from 100 rounds to 1600; sqrt(16) = 4 is expected.

    The ratio of two such figures over 80 coordinates has a relative standard deviation near 12 %, so that a ratio below
    two has a false-alarm rate below 1e-6.
    """
    curator, errors = MirrorDescent(DIM, PLACES, worlds=(40,), bound=2.0), []
    for t, each in enumerate(rounds(1600, (40,), seed=6), start=1):
        release = curator.observe(each)
        if t in (100, 1600):
            errors.append(float(np.sqrt(((release.theta - 1.0) ** 2).mean())))
    assert errors[1] < errors[0] / 2


def test_never_explores_and_widens_with_time() -> None:
    """No random assortments are asked for; the radius follows the number of the next visitor."""
    curator = MirrorDescent(DIM, PLACES, radius=OnlineWidth(dim=DIM, capacity=PLACES, scale=0.5))
    releases = [curator.release] + [curator.observe(each) for each in rounds(5)]
    assert not any(bool(r.explore) for r in releases)
    expected = [0.5 * math.sqrt(DIM) * math.log(t + 2) * math.log(PLACES + 1) for t in range(6)]
    np.testing.assert_allclose([float(r.radius) for r in releases], expected)


@pytest.mark.parametrize("choice", [-1, 0])
def test_one_sided_data_and_identical_items_stay_in_the_ball(choice: int) -> None:
    """Never chosen, or always the first of identical items: theta goes to the edge of the ball and stays finite."""
    curator = MirrorDescent(DIM, PLACES, bound=1.0)
    context = Context(Dense(np.ones((ITEMS, DIM))), np.ones(ITEMS), PLACES)
    for _ in range(300):
        release = curator.observe(Round(context, np.arange(PLACES), np.array(choice)))
    np.testing.assert_allclose(release.theta, (1 if choice == 0 else -1) / math.sqrt(2), rtol=1e-9)


def test_empty_assortments_and_uncounted_visits_change_nothing() -> None:
    """Neither an empty offer nor a visit beyond somebody's cap moves theta or H."""
    curator = MirrorDescent(DIM, PLACES, worlds=(2,), ridge=1.0)
    for each in rounds(10, (2,)):
        half = np.where(np.array([True, False])[:, None], each.assortment, -1)
        release = curator.observe(replace(each, assortment=half, choice=np.where([True, False], each.choice, -1)))
        after = curator.observe(replace(each, counts=np.zeros(2, dtype=bool)))
        np.testing.assert_array_equal(after.theta, release.theta)
        np.testing.assert_array_equal(after.precision, release.precision)
    assert release.theta[0].any()
    assert not release.theta[1].any()
    np.testing.assert_array_equal(release.precision[1], np.eye(DIM))


@pytest.mark.parametrize(("places", "dim"), [(1, 1), (1, 3), (4, 1)])
def test_one_place_or_one_dimension_is_no_special_case(places: int, dim: int) -> None:
    """K = 1 and d = 1: an item that is always chosen grows in taste, one that never is shrinks."""
    for choice, sign in ((0, 1), (-1, -1)):
        curator = MirrorDescent(dim, places)
        context = Context(Dense(np.ones((5, dim))), np.ones(5), places)
        for _ in range(20):
            release = curator.observe(Round(context, np.arange(places), np.array(choice)))
        assert (sign * release.theta > 0).all()
        assert (np.linalg.eigvalsh(release.precision) > 0).all()


def test_ledger_is_infinite() -> None:
    """Exact estimates are promised to be private to nobody."""
    assert MirrorDescent(DIM, PLACES).ledger.rho == math.inf


def test_a_bad_round_changes_no_state() -> None:
    """A refused round leaves the release as it was."""
    curator, each = MirrorDescent(DIM, PLACES), rounds(1)[0]
    before = curator.observe(each)
    with pytest.raises(ValueError, match="features must be finite"):
        curator.observe(replace(each, context=replace(each.context, features=Dense(np.full((ITEMS, DIM), np.nan)))))
    assert curator.release is before
