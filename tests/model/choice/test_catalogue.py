"""Catalogues in blocks: read like an array, changed without a copy of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietshelf.model.choice import catalogue as blocks
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray

BLOCK = blocks.BLOCK


def rows(count: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(count, 3))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 5])
def test_a_catalogue_reads_like_the_array_it_was_made_of(count: int, order: str) -> None:
    """As a whole, by one item, by a range, by any items in any order, in single precision."""
    array = np.asarray(rows(count), order=order)  # type: ignore[call-overload]  # one of the two
    made = Catalogue.of(array)
    assert (len(made), made.shape) == (count, array.shape)
    np.testing.assert_array_equal(made, array)
    np.testing.assert_array_equal(made[:7], array[:7])
    if count:
        items = np.random.default_rng(1).integers(-1, count, size=(5, 9))
        np.testing.assert_array_equal(made[items], array[items])
        np.testing.assert_array_equal(made[count - 1], array[-1])
        some = items.ravel() % count
        np.testing.assert_array_equal(made.columns(some), array[some].T)
        np.testing.assert_array_equal(made.columns(some, single=True), array[some].T.astype(np.float32))
        assert made.reach == pytest.approx(np.sqrt(1 + (array**2).sum(axis=1)).max(), rel=1e-14)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40), st.booleans()), max_size=8), st.integers(1, 100))
def test_changes_give_a_new_catalogue_and_leave_the_old_one(changes: list[tuple[int, int, bool]], count: int) -> None:
    """Rows altered and rows appended, in any order, against plain arrays; nobody's older version moves."""
    kept = blocks.BLOCK
    blocks.BLOCK = 32
    try:
        array, made = rows(count), Catalogue.of(rows(count))
        versions = [(made, array)]
        for seed, (place, many, more) in enumerate(changes):
            if more:
                array, made = np.concatenate([array, rows(many, seed)]), made.with_more(rows(many, seed))
            else:
                item = place % len(array)
                array, made = array.copy(), made.with_row(item, rows(1, seed)[0])
                array[item] = rows(1, seed)[0]
            versions.append((made, array))
        for version, wanted in versions:
            np.testing.assert_array_equal(version, wanted)
    finally:
        blocks.BLOCK = kept


def test_a_change_copies_one_block() -> None:
    """The others, and their copies in single precision, are those of the catalogue before."""
    made = Catalogue.of(rows(3 * BLOCK + 10))
    singles = [block.single for block in made.blocks]
    changed, longer = made.with_row(BLOCK, np.zeros(3)), made.with_more(rows(2))
    assert [new is old for new, old in zip(changed.blocks, made.blocks, strict=True)] == [True, False, True, True]
    assert [new is old for new, old in zip(longer.blocks, made.blocks, strict=True)] == [True, True, True, False]
    assert changed.blocks[2].single is singles[2]
    assert changed.blocks[1].single[:, 0].tolist() == [0.0, 0.0, 0.0]


def test_utilities_and_norms_do_not_mind_blocks() -> None:
    """Those of a long catalogue are those of its vectors x, to rounding, and the same alone and in a group."""
    catalogue, rng = rows(BLOCK + 300), np.random.default_rng(2)
    features = Catalogued(rng.normal(size=(2, 2)), catalogue, feature_map("full"))
    theta, root = rng.normal(size=features.dim), rng.normal(size=(features.dim, features.dim))
    items = np.array([0, 5, BLOCK - 1, BLOCK, BLOCK + 299])
    x = features.rows(np.broadcast_to(items, (2, 5)))
    utility, norm = features.utility(theta), features.norm(root @ root.T)
    np.testing.assert_allclose(utility[:, items], x @ theta, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(norm[:, items], np.linalg.norm(x @ root, axis=-1), rtol=1e-12)
    alone = Catalogued(features.visitor[1], catalogue, feature_map("full"))
    np.testing.assert_array_equal(alone.utility(theta), utility[1])
    np.testing.assert_array_equal(alone.norm(root @ root.T), norm[1])


def test_a_catalogue_of_several_blocks_is_no_array_without_a_copy() -> None:
    """As arrays that would have to be copied say it."""
    with pytest.raises(ValueError, match="must be copied into one array, got copy=False"):
        np.array(Catalogue.of(rows(BLOCK + 1)), copy=False)
    with pytest.raises(ValueError, match="catalogue must have shape"):
        Catalogue.of(np.zeros(3))
