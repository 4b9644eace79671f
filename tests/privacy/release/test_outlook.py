"""What a batch freezes of its outlook: coordinates, bound, expected information, each a function of what is public."""

from __future__ import annotations

import numpy as np
import pytest
from tests.privacy.release.learners import outlook_in

from quietshelf.model.choice.likelihood import shares, utilities
from quietshelf.model.types import FloatArray, Release
from quietshelf.privacy.release.outlook import BOUNDS, FACTORS, LEAST_SPREAD, LENGTH, ROOM, Moments, View, view
from quietshelf.privacy.statistics import ObservedChoice, contribution

ONE = np.asarray(1.0)


class Fixed:
    """An outlook that shows these rows (m, K, d) to anybody, stretched by the factor."""

    def __init__(self, rows: FloatArray) -> None:
        self._rows = rows

    @property
    def moments(self) -> Moments:
        raise AssertionError("a view needs no moments")

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        del release
        with np.errstate(over="ignore"):
            rows = factor[..., None, None, None] * self._rows
        return ObservedChoice(rows, np.ones(rows.shape[:-1], bool), np.full(rows.shape[:-2], -1))


def some_release(dim: int, lead: tuple[int, ...] = (), *, size: float = 1.0, seed: int = 0) -> Release:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(*lead, dim, dim))
    precision = root @ np.swapaxes(root, -1, -2) + np.eye(dim)
    theta = size * rng.normal(size=(*lead, dim))
    return Release(theta, precision, np.full(lead, 0.45), np.zeros(lead, bool), np.zeros(lead, np.int64))


def tried(lead: tuple[int, ...] = ()) -> FloatArray:
    return np.broadcast_to(np.reshape(FACTORS, (-1, *(1,) * len(lead))), (len(FACTORS), *lead))


def plain(seen: ObservedChoice, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Plain information of one visitor, on average, by its definition; and how items lie around their means."""
    total, away = np.zeros((theta.size, theta.size)), []
    for rows in seen.rows:
        weight = np.exp(rows @ theta)
        share = weight / (1 + weight.sum())
        mean = share @ rows
        total += (rows.T * share) @ rows - np.outer(mean, mean)
        away.append(rows - mean)
    return total / len(seen.rows), np.concatenate(away)


@pytest.mark.parametrize("dim", [1, 3, 6])
@pytest.mark.parametrize("size", [0.0, 1.0, 3.0])
def test_coordinates_whiten_the_information_of_made_up_visitors(dim: int, size: float) -> None:
    """L Γ L' is a multiple of I, and in these coordinates items are LENGTH away from the mean, on average."""
    release, outlook = some_release(dim, size=size), outlook_in(dim)
    found = view(outlook, release, factor=ONE, tried=tried())
    information, away = plain(outlook.shown(release, ONE), release.theta)
    white = found.coordinates @ information @ found.coordinates.T
    assert np.linalg.cond(information) < 100  # else it is floored
    np.testing.assert_allclose(white, np.eye(dim) * np.trace(white) / dim, atol=1e-9 * np.trace(white))
    assert np.linalg.norm(away @ found.coordinates.T, axis=1).mean() == pytest.approx(LENGTH)


def test_features_of_another_scale_are_seen_in_other_coordinates_and_expected_alike() -> None:
    """Where nothing is known of tastes, the unit of features makes no difference: L shrinks as they grow."""
    release = some_release(3, size=0.0)
    usual, large = (
        view(outlook_in(3), release, factor=np.asarray(f), tried=np.full((1,), f)) for f in (FACTORS[2], FACTORS[4])
    )
    rotated = large.coordinates @ np.linalg.inv(usual.coordinates)
    np.testing.assert_allclose(10 * np.abs(rotated), np.eye(3), atol=1e-6)
    np.testing.assert_allclose(large.bound, usual.bound, rtol=1e-9)


def test_expected_information_is_the_mean_over_made_up_visitors() -> None:
    """For each factor, of bounded contributions in the frozen coordinates; larger features hold more of it."""
    release, outlook = some_release(3), outlook_in(3)
    found = view(outlook, release, factor=ONE, tried=tried())
    assert found.expected.shape == (len(FACTORS), 3, 3)
    for place, factor in enumerate(FACTORS):
        seen = outlook.shown(release, np.asarray(factor))
        pair = contribution(seen, release.theta, found.coordinates, found.bound)
        np.testing.assert_allclose(found.expected[place], pair.information.mean(0), atol=1e-12)
    sizes = np.trace(found.expected, axis1=1, axis2=2)
    assert (np.diff(sizes[:3]) > 0).all()
    assert (np.linalg.eigvalsh(found.expected)[:, 0] >= -1e-12).all()


def test_few_made_up_visitors_are_shortened_by_the_bound() -> None:
    """It is 2.5 times the mean size of their information."""
    release, outlook = some_release(4), outlook_in(4)
    found = view(outlook, release, factor=ONE, tried=tried())
    pair = contribution(outlook.shown(release, ONE), release.theta, found.coordinates, 1e6)
    sizes = np.sqrt((pair.information**2).sum((-1, -2)))
    assert found.bound == pytest.approx(ROOM * sizes.mean())
    assert (sizes > found.bound).mean() < 0.1


def test_spread_is_the_variance_of_scores_over_their_information() -> None:
    """By its definition, over all choices; at most 1, and near it where hardly anything is clipped."""
    release, outlook = some_release(3, size=0.2), outlook_in(3)
    found = view(outlook, release, factor=ONE, tried=tried())
    seen = outlook.shown(release, ONE)
    share = shares(utilities(seen.rows, release.theta), seen.offered)
    square = trace = 0.0
    for choice in range(-1, seen.rows.shape[-2]):
        chance = share.none if choice < 0 else share.items[:, choice]
        made = seen._replace(position=np.full(len(seen.rows), choice))
        pair = contribution(made, release.theta, found.coordinates, found.bound)
        square += float(chance @ (pair.score**2).sum(-1))
        trace = float(np.trace(pair.information, axis1=-2, axis2=-1).sum())
    assert found.spread == pytest.approx(np.clip(square / trace, LEAST_SPREAD, 1.0))


EXTREME = [0.0, 1e-310, 1e-200, 1e-5, 1e5, 1e100, 1e200, 1e307]


@pytest.mark.parametrize("size", EXTREME)
@pytest.mark.parametrize("theta", [0.0, 1.0, 1e3])
def test_features_of_any_size_have_a_finite_view(size: float, theta: float) -> None:
    """Zeros, denormals, such that overflow: L is finite and invertible, the bound and the spread within theirs."""
    rows = np.random.default_rng(1).normal(size=(16, 3, 2))
    for x in (rows, rows[:, :1], rows[:1], np.ones((4, 3, 2)), rows * np.array([1.0, 0.0])):
        found = view(Fixed(size * x), some_release(2, size=theta), factor=ONE, tried=tried())
        assert all(np.isfinite(part).all() for part in found)
        assert np.linalg.matrix_rank(found.coordinates) == 2
        assert BOUNDS[0] <= found.bound <= BOUNDS[1]
        assert LEAST_SPREAD <= found.spread <= 1.0


def test_one_overflowing_visitor_leaves_a_finite_view() -> None:
    """Beside fifteen ordinary ones."""
    rows = np.random.default_rng(1).normal(size=(16, 3, 2))
    rows[3] *= 1e306
    found = view(Fixed(rows), some_release(2, size=1e3), factor=ONE, tried=tried())
    assert all(np.isfinite(part).all() for part in found)


def test_places_that_are_empty_count_for_nothing() -> None:
    """Whatever stands in their rows; where all are empty the view is blind and finite."""
    rows = np.random.default_rng(2).normal(size=(16, 3, 2))
    padded = np.concatenate([rows, np.full((16, 1, 2), 7.0)], axis=1)

    class Padded(Fixed):
        def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
            seen = super().shown(release, factor)
            offered = np.broadcast_to(np.arange(4) < 3, seen.offered.shape)
            return seen._replace(offered=offered, rows=np.where(offered[..., None], seen.rows, 0.0))

    class Empty(Fixed):
        def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
            seen = super().shown(release, factor)
            return seen._replace(offered=np.zeros_like(seen.offered), rows=np.zeros_like(seen.rows))

    release = some_release(2)
    mine, other = (view(each, release, factor=ONE, tried=tried()) for each in (Padded(padded), Fixed(rows)))
    for left, right in zip(mine, other, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
    blind = view(Empty(rows), release, factor=ONE, tried=tried())
    assert all(np.isfinite(part).all() for part in blind)
    np.testing.assert_array_equal(blind.expected, 0.0)


def test_a_view_is_a_function_of_release_and_outlook() -> None:
    """The same twice, to the bit, from equal values in other objects."""
    first, again = (view(outlook_in(4), some_release(4), factor=ONE, tried=tried()) for _ in range(2))
    for left, right in zip(first, again, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dim", [1, 2, 5, 12])
def test_each_world_sees_what_it_would_alone(dim: int) -> None:
    """To the bit: with worlds of other tastes and factors beside it, by itself with an axis, and without one."""
    release, factor = some_release(dim, (4,)), np.array([1.0, 10.0, 0.1, 1.0])
    together = view(outlook_in(dim, (4,)), release, factor=factor, tried=tried((4,)))
    for world in range(4):
        for who, lead in ((slice(world, world + 1), (1,)), (world, ())):
            own = Release(**{name: getattr(release, name)[who] for name in Release.arrays})
            alone = view(outlook_in(dim, lead), own, factor=np.asarray(factor[who]), tried=tried(lead))
            mine = View(together.coordinates[who], together.bound[who], together.expected[:, who], together.spread[who])
            for left, right in zip(mine, alone, strict=True):
                np.testing.assert_array_equal(left, right)
