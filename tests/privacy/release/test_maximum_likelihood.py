"""The refitted maximum-likelihood curator: what it fits, when, and what it releases in between."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.privacy.release.crowds import DIM, ITEMS, PLACES, rounds

from quietshelf.model.choice import fit, information
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Curator, FloatArray, Release, Round
from quietshelf.privacy.release.maximum_likelihood import ConfidenceWidth, MaximumLikelihood

Schedule = Literal["determinant", "intervals"]


def single(many: list[Round], world: int) -> list[Round]:
    """One world of many."""
    features = [
        Dense(r.context.features.rows(np.broadcast_to(np.arange(ITEMS), (*r.choice.shape, ITEMS)))[world]) for r in many
    ]
    return [
        Round(replace(r.context, features=f), r.assortment[world], r.choice[world])
        for r, f in zip(many, features, strict=True)
    ]


def seen(done: list[Round]) -> tuple[FloatArray, Any, Any]:
    """Rows, chosen places and filled places of single rounds, found the slow way."""
    rows = np.array([[r.context.features.rows(np.array([i]))[0] for i in r.assortment] for r in done])
    place = [list(r.assortment).index(r.choice) if r.choice >= 0 else -1 for r in done]
    return rows, place, np.array([r.assortment >= 0 for r in done])


def brute(done: list[Round], ridge: float) -> FloatArray:
    rows, _, _ = seen(done)
    flat = rows.reshape(-1, rows.shape[-1])
    return np.asarray(ridge * np.eye(rows.shape[-1]) + sum(np.outer(x, x) for x in flat))


@pytest.mark.parametrize("schedule", ["determinant", "intervals"])
def test_theta_equals_the_fit_to_all_rounds_at_every_refit(schedule: Schedule) -> None:
    """Whenever the count rises, theta is the ridge estimate from everything seen so far; else it stands still."""
    curator = MaximumLikelihood(DIM, PLACES, schedule=schedule, growth=0.5, ridge=0.7, precision="information")
    done, refits = rounds(80), 0
    for t, each in enumerate(done, start=1):
        before = curator.release
        after = curator.observe(each)
        if after.count == before.count:
            assert after is before
            continue
        refits += 1
        rows, place, filled = seen(done[:t])
        expected = fit(rows, place, filled, ridge=0.7)
        np.testing.assert_allclose(after.theta, expected.theta, atol=1e-8)
        np.testing.assert_allclose(after.precision, expected.information + 0.7 * np.eye(DIM), atol=1e-6)
    assert refits == curator.release.count > 3


def test_gram_precision_equals_brute_force_every_round() -> None:
    """V_t = ridge I plus the sum of x x' of all items offered, after every round, exploring or not."""
    curator, done = MaximumLikelihood(DIM, PLACES, ridge=0.5), rounds(40)
    np.testing.assert_array_equal(curator.release.precision, 0.5 * np.eye(DIM))
    for t, each in enumerate(done, start=1):
        np.testing.assert_allclose(curator.observe(each).precision, brute(done[:t], 0.5), rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(growth=st.sampled_from([0.3, 1.0, 3.0]), explore=st.integers(0, 6), seed=st.integers(0, 1000))
def test_determinant_trigger_fires_exactly_when_the_determinant_has_grown(
    growth: float, explore: int, seed: int
) -> None:
    """After the first fit, a fit happens in the very round where det V_t > (1 + growth) det V at the last fit."""
    curator = MaximumLikelihood(DIM, PLACES, explore=explore, growth=growth)
    done = rounds(40, seed=seed)
    last = float(np.linalg.det(brute(done[:explore], 1.0))) if explore else 1.0
    for t, each in enumerate(done, start=1):
        before = int(curator.release.count)
        fired = int(curator.observe(each).count) - before
        now = float(np.linalg.det(brute(done[:t], 1.0)))
        due = t == explore or (t > explore and now > (1 + growth) * last)
        assert fired == due
        last = now if due else last


def test_intervals_refit_when_the_rounds_have_grown() -> None:
    """With five exploring rounds and growth 1 the fits are at 5, 10, 20, 40, 80; without exploring at 1, 2, 4, ..."""
    for explore, expected in ((5, [5, 10, 20, 40, 80]), (0, [1, 2, 4, 8, 16, 32, 64])):
        curator = MaximumLikelihood(DIM, PLACES, schedule="intervals", growth=1.0, explore=explore)
        counts = [0] + [int(curator.observe(each).count) for each in rounds(90)]
        assert (np.flatnonzero(np.diff(counts)) + 1).tolist() == expected


def test_fits_are_capped_for_ever() -> None:
    """With fits=2, the one after exploring included, the count stays at two while V goes on."""
    curator = MaximumLikelihood(DIM, PLACES, fits=2)
    releases = [curator.observe(each) for each in rounds(100)]
    assert [int(r.count) for r in releases].count(2) > 50
    assert max(int(r.count) for r in releases) == 2
    second = next(r for r in releases if r.count == 2)
    np.testing.assert_array_equal(releases[-1].theta, second.theta)
    assert np.trace(releases[-1].precision) > np.trace(second.precision)


@pytest.mark.parametrize("precision", ["gram", "information"])
def test_explore_lasts_for_the_first_rounds_only(precision: Literal["gram", "information"]) -> None:
    """Random assortments are asked for from the first visitor up to visitor ``explore``, never after."""
    curator = MaximumLikelihood(DIM, PLACES, explore=4, precision=precision)
    asked = [bool(curator.release.explore)] + [bool(curator.observe(each).explore) for each in rounds(8)]
    assert asked == [True] * 4 + [False] * 5
    assert not MaximumLikelihood(DIM, PLACES, explore=0).release.explore


@pytest.mark.parametrize("schedule", ["determinant", "intervals"])
@pytest.mark.parametrize("precision", ["gram", "information"])
def test_parallel_worlds_equal_single_worlds(schedule: Schedule, precision: Literal["gram", "information"]) -> None:
    """Each of three worlds run together releases, bit for bit, what it releases when run alone."""
    options: dict[str, Any] = {
        "schedule": schedule,
        "precision": precision,
        "radius": ConfidenceWidth(dim=DIM, scale=0.5),
    }
    many = rounds(60, (3,), seed=5)
    together = MaximumLikelihood(DIM, PLACES, worlds=(3,), growth=0.6, **options)
    alone = [MaximumLikelihood(DIM, PLACES, growth=0.6, **options) for _ in range(3)]
    parts = [single(many, world) for world in range(3)]
    for t, each in enumerate(many):
        release = together.observe(each)
        for world in range(3):
            same(release, alone[world].observe(parts[world][t]), world)


def same(many: Release, one: Release, world: int) -> None:
    for name in Release.arrays:
        np.testing.assert_array_equal(getattr(many, name)[world], getattr(one, name), err_msg=name)


def test_any_leading_axes_give_the_same_worlds() -> None:
    """Worlds arranged (2, 3) are those arranged (6,), reshaped."""
    grid, line = MaximumLikelihood(DIM, PLACES, worlds=(2, 3)), MaximumLikelihood(DIM, PLACES, worlds=(6,))
    for each in rounds(30, (2, 3), seed=9):
        x = each.context.features.rows(np.broadcast_to(np.arange(ITEMS), (2, 3, ITEMS))).reshape(6, ITEMS, DIM)
        flat = Round(replace(each.context, features=Dense(x)), each.assortment.reshape(6, -1), each.choice.reshape(6))
        one, other = grid.observe(each), line.observe(flat)
        np.testing.assert_array_equal(one.theta.reshape(6, DIM), other.theta)
        np.testing.assert_array_equal(one.count.reshape(6), other.count)


def test_radius_is_for_the_next_visitor() -> None:
    """After t rounds the width is that of visitor t + 1; with the information flavour it waits for the next fit."""
    curator = MaximumLikelihood(DIM, PLACES, radius=float)
    frozen = MaximumLikelihood(DIM, PLACES, radius=float, precision="information", schedule="intervals", explore=2)
    assert curator.release.radius == 1.0
    got = [(float(curator.observe(each).radius), float(frozen.observe(each).radius)) for each in rounds(5)]
    assert got == [(2.0, 1.0), (3.0, 3.0), (4.0, 3.0), (5.0, 5.0), (6.0, 5.0)]
    assert MaximumLikelihood(DIM, PLACES, radius=0.25).release.radius == 0.25


def test_confidence_width_is_the_published_one_at_its_scale() -> None:
    """alpha_t = sqrt(2 d log(1 + t/d) + 2 log t) / (2 kappa), at d = 5, t = 100, kappa = 0.1."""
    width = ConfidenceWidth(dim=5, scale=1 / 0.2)(100)
    assert width == pytest.approx(5 * math.sqrt(10 * math.log(21) + 2 * math.log(100)))
    assert ConfidenceWidth(dim=5, scale=0.3 / 0.2)(100) == pytest.approx(0.3 * width)


def test_visits_that_do_not_count_change_nothing() -> None:
    """A world whose visitors never count keeps theta = 0 and V = ridge I."""
    curator = MaximumLikelihood(DIM, PLACES, worlds=(2,))
    for each in rounds(20, (2,)):
        release = curator.observe(replace(each, counts=np.array([True, False])))
    assert release.theta[0].any()
    assert not release.theta[1].any()
    np.testing.assert_array_equal(release.precision[1], np.eye(DIM))


@pytest.mark.parametrize(("places", "dim"), [(1, 1), (1, 3), (4, 1)])
def test_one_place_or_one_dimension_still_learns(places: int, dim: int) -> None:
    """K = 1 and d = 1 are no special cases: every fitted coordinate is near the true 1 after 1500 rounds.

    Three standard errors are at most 0.4 here, by the information released; false-alarm rate below 1 %.
    """
    curator = MaximumLikelihood(dim, places, precision="information", schedule="intervals")
    for each in rounds(1500, places=places, dim=dim, seed=3):
        release = curator.observe(each)
    error = 3 * np.sqrt(np.diag(release.covariance))
    assert error.max() < 0.4
    assert (np.abs(release.theta - 1.0) < error).all()


def test_empty_assortments_teach_nothing_and_break_nothing() -> None:
    """With no item ever offered theta stays zero and the precision at the ridge."""
    curator: Curator = MaximumLikelihood(DIM, PLACES, worlds=(2,), precision="information")
    each = rounds(1, (2,))[0]
    for _ in range(12):
        release = curator.observe(replace(each, assortment=np.full((2, PLACES), -1), choice=np.full(2, -1)))
    assert not release.theta.any()
    np.testing.assert_array_equal(release.precision, np.broadcast_to(np.eye(DIM), (2, DIM, DIM)))
    assert not release.explore.any()


@pytest.mark.parametrize("choice", [-1, 0])
def test_one_sided_data_and_identical_items_keep_theta_finite(choice: int) -> None:
    """Never chosen, or always the first of identical items: the ridge holds theta where the likelihood would not."""
    curator = MaximumLikelihood(DIM, PLACES, ridge=0.1)
    context = Context(Dense(np.ones((ITEMS, DIM))), np.ones(ITEMS), PLACES)
    for _ in range(300):
        release = curator.observe(Round(context, np.arange(PLACES), np.array(choice)))
    assert np.isfinite(release.theta).all()
    assert (np.sign(release.theta) == (1 if choice == 0 else -1)).all()
    np.testing.assert_allclose(release.theta[0], release.theta[1])


def test_information_flavour_counts_the_rounds_up_to_the_fit() -> None:
    """The precision is the sum of the rounds' Fisher informations at theta, plus the ridge."""
    curator = MaximumLikelihood(DIM, PLACES, precision="information", schedule="intervals", ridge=2.0)
    done = rounds(10)
    for each in done:
        release = curator.observe(each)
    rows, _, filled = seen(done)
    expected = information(rows, release.theta, filled).sum(0) + 2.0 * np.eye(DIM)
    np.testing.assert_allclose(release.precision, expected, rtol=1e-10)


def test_ledger_is_infinite() -> None:
    """Exact estimates are promised to be private to nobody."""
    assert MaximumLikelihood(DIM, PLACES).ledger.rho == math.inf


def test_a_bad_round_changes_no_state() -> None:
    """After a refused round the curator goes on as if it had never come."""
    first, second = MaximumLikelihood(DIM, PLACES), MaximumLikelihood(DIM, PLACES)
    done = rounds(12)
    bad = replace(done[0], context=replace(done[0].context, features=Dense(np.full((ITEMS, DIM), np.inf))))
    for each in done:
        before = second.release
        with pytest.raises(ValueError, match="features must be finite"):
            second.observe(bad)
        assert second.release is before
        one, other = first.observe(each), second.observe(each)
        np.testing.assert_array_equal(one.theta, other.theta)
        np.testing.assert_array_equal(one.precision, other.precision)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"ridge": 0.0}, "ridge must be positive and finite, got ridge=0.0"),
        ({"growth": -1.0}, "growth must be positive and finite, got growth=-1.0"),
        ({"explore": -1}, "explore must be a whole number from 0 on, got explore=-1"),
        ({"fits": 0}, "fits must be a whole number from 1 on, got fits=0"),
        ({"schedule": "daily"}, "schedule must be one of determinant, intervals, got schedule='daily'"),
        ({"precision": "none"}, "precision must be one of gram, information, got precision='none'"),
        ({"radius": -0.5}, "radius must be at least zero and finite, got radius=-0.5"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], rule: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=rule):
        MaximumLikelihood(DIM, PLACES, **options)
