"""Rounds kept as numbers of a table: the same features, sums and fits as if they were dense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.model.choice import fit
from quietshelf.model.choice.dense import checked
from quietshelf.model.choice.factored import Factored
from quietshelf.model.choice.features import Dense
from quietshelf.model.choice.fitting import fit_sums
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.choice.tables import VisitorTable
from quietshelf.model.types import FloatArray, IntArray


def table(name: str, seed: int = 1) -> VisitorTable:
    """Seven visitors of three features beside nine items of two."""
    rng = np.random.default_rng(seed)
    return VisitorTable(rng.normal(size=(7, 3)), rng.normal(size=(9, 2)), feature_map(name), scale=1.7)


def rounds(count: int, seed: int = 2) -> tuple[IntArray, IntArray, IntArray]:
    """Who came, up to four items each, one place in four empty, and what was chosen."""
    rng = np.random.default_rng(seed)
    items = rng.random((count, 9)).argsort(axis=1)[:, :4]
    items[rng.random(items.shape) < 0.25] = -1
    position = rng.integers(-1, 4, count)
    held = (position >= 0) & (np.take_along_axis(items, np.maximum(position, 0)[:, None], axis=1)[:, 0] >= 0)
    return rng.integers(0, 7, count), items, np.where(held, position, -1)


def formed(given_table: VisitorTable, visitor: IntArray, items: IntArray, factor: FloatArray | None) -> FloatArray:
    """The features of the same rounds, in full, with the leading axis that factored sums have."""
    rows = given_table.drawn(visitor).rows(items)
    return (rows if factor is None else rows * factor[visitor[:, None], items][..., None])[None]


@pytest.mark.parametrize("name", MAPS)
def test_drawn_features_are_the_dense_ones(name: str) -> None:
    """Utility, norm, rows and lengths agree with x formed in full and divided."""
    made = table(name)
    numbers = np.array([0, 3, 3])
    dense = Dense(made.feature_map.dense(made.visitors[numbers], made.catalogue) / 1.7)
    mine, theta, metric = made.drawn(numbers), np.arange(1.0, made.dim + 1), np.diag(np.arange(1.0, made.dim + 1))
    assert (mine.items, mine.dim) == (9, made.dim)
    np.testing.assert_allclose(mine.utility(theta), dense.utility(theta))
    np.testing.assert_allclose(mine.norm(metric), dense.norm(metric))
    items = np.array([[0, 5], [2, -1], [1, 8]])
    np.testing.assert_allclose(mine.rows(items), dense.rows(items))
    np.testing.assert_allclose(made.lengths[numbers], np.linalg.norm(dense.x, axis=-1))


@given(name=st.sampled_from(sorted(MAPS)), seed=st.integers(0, 10**6), clipped=st.booleans(), chunk=st.integers(1, 60))
@settings(deadline=None, max_examples=40)
def test_factored_sums_are_those_of_the_features(name: str, seed: int, clipped: bool, chunk: int) -> None:
    """Likelihood, gradient and information at any theta, whatever the map, the factors and the size of a step."""
    made, (visitor, items, position) = table(name, seed), rounds(50, seed)
    factor = np.random.default_rng(seed).uniform(0.2, 1.0, (7, 9)) if clipped else None
    theta = np.random.default_rng(seed).normal(size=(1, made.dim))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("quietshelf.model.choice.factored.ROUNDS", chunk)
        mine = Factored(made, visitor, items, position, factor)
        found = mine.sums(theta)
    x = formed(made, visitor, items, factor)
    for one, other in zip(found, checked(x, position[None], (items >= 0)[None], True).sums(theta), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    assert mine.rounds == 50
    assert mine.largest * (1 + 1e-12) >= np.abs(x).max()


@pytest.mark.parametrize("name", ["concat", "outer", "full"])
def test_a_factored_fit_is_the_dense_one(name: str) -> None:
    """The same theta and information, from a cold start and from a warm one, with centre and linear term."""
    made, (visitor, items, position) = table(name), rounds(400)
    x = formed(made, visitor, items, None)
    given_terms = {"ridge": 0.5, "centre": np.full((1, made.dim), 0.1), "linear": np.full((1, made.dim), -0.2)}
    dense = fit(x, position[None], (items >= 0)[None], **given_terms)  # type: ignore[arg-type]
    shape = (1, made.dim)
    mine = fit_sums(Factored(made, visitor, items, position), shape, **given_terms)  # type: ignore[arg-type]
    warm = fit_sums(Factored(made, visitor, items, position), shape, **given_terms, start=mine.theta)  # type: ignore[arg-type]
    for found in (mine, warm):
        assert found.converged.all()
        np.testing.assert_allclose(found.theta, dense.theta, atol=1e-9)
        np.testing.assert_allclose(found.information, dense.information, atol=1e-8)
    assert warm.iterations < mine.iterations


def test_rounds_without_anything_shown_add_nothing() -> None:
    """Empty offers, of visitors who do not count, change no sum."""
    made, (visitor, items, position) = table("full"), rounds(30)
    theta = np.ones((1, made.dim))
    empty = np.full_like(items, -1)
    twice = Factored(
        made,
        np.append(visitor, visitor),
        np.concatenate([items, empty]),
        np.append(position, np.full_like(position, -1)),
    )
    for one, other in zip(twice.sums(theta), Factored(made, visitor, items, position).sums(theta), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_ragged_rounds_are_refused_by_name() -> None:
    """Rows of unequal length are no array, and the message says whose."""
    x = np.ones((2, 2, 1))
    with pytest.raises(ValueError, match="choice must be an array, all its rows equally long"):
        fit(x, [[0], [0, 1]])
    with pytest.raises(ValueError, match="available must be an array, all its rows equally long"):
        fit(x, [0, 1], [[True], [True, False]])


def test_tables_refuse_what_is_not_finite() -> None:
    """By name."""
    with pytest.raises(ValueError, match="catalogue must be finite"):
        VisitorTable(np.ones((2, 1)), np.array([[np.nan]]), feature_map("outer"))
    with pytest.raises(ValueError, match="scale must be positive"):
        VisitorTable(np.ones((2, 1)), np.ones((2, 1)), feature_map("outer"), scale=0.0)
