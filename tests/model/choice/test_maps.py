"""Feature maps: what x holds, in which order, and under which names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.model.choice.maps import MAPS, FeatureMap, feature_map
from quietshelf.model.types import FloatArray

u = np.array([2.0, 3.0])
v = np.array([[5.0, 7.0, 11.0], [13.0, 17.0, 19.0]])


def by_hand(name: str, visitor: FloatArray, item: FloatArray, *, intercept: bool) -> FloatArray:
    """One item's x, written out from the definition."""
    one = np.ones(1 if intercept else 0)
    product: FloatArray = np.kron(visitor, item).astype(np.float64)
    parts: dict[str, list[FloatArray]] = {
        "item": [one, item],
        "concat": [one, visitor, item],
        "outer": [product],
        "full": [one, item, visitor, product],
    }
    return np.concatenate(parts[name])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_dense_is_the_definition_item_by_item(name: str, intercept: bool) -> None:
    """Every row is the concatenation that the map's definition writes down, exactly."""
    x = feature_map(name, intercept=intercept).dense(u, v)
    np.testing.assert_array_equal(x, [by_hand(name, u, item, intercept=intercept) for item in v])


@settings(deadline=None)
@given(
    name=st.sampled_from(list(MAPS)),
    intercept=st.booleans(),
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    sizes=st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 3)),
    own_items=st.booleans(),
)
def test_dense_carries_batch_axes(
    name: str, intercept: bool, batch: tuple[int, ...], sizes: tuple[int, int, int], own_items: bool
) -> None:
    """A batch of visitors, each with the same items or with items of its own, gives the vectors of each alone."""
    visitor_dim, items, item_dim = sizes
    rng = np.random.default_rng(0)
    visitors = rng.normal(size=(*batch, visitor_dim))
    catalogues = rng.normal(size=(*(batch if own_items else ()), items, item_dim))
    fmap = feature_map(name, intercept=intercept)
    x = fmap.dense(visitors, catalogues)
    assert x.shape == (*batch, items, fmap.dim(visitor_dim, item_dim))
    for world in np.ndindex(batch):
        alone = catalogues[world] if own_items else catalogues
        expected = [by_hand(name, visitors[world], item, intercept=intercept) for item in alone]
        np.testing.assert_array_equal(x[world], expected)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_names_say_which_features_a_place_multiplies(name: str, intercept: bool) -> None:
    """Multiplying the features that a name lists gives what x holds at that place."""
    fmap = feature_map(name, intercept=intercept)
    value = {"a": 2.0, "b": 3.0, "p": 5.0, "q": 7.0, "r": 11.0, "intercept": 1.0}
    names = fmap.names(["a", "b"], ["p", "q", "r"])
    products = [np.prod([value[word] for word in label.split(":")]) for label in names]
    np.testing.assert_array_equal(fmap.dense(u, v)[0], products)
    assert len(set(names)) == len(names) == fmap.dim(2, 3)


@pytest.mark.parametrize(
    ("name", "with_one", "without"), [("item", 4, 3), ("concat", 6, 5), ("outer", 6, 6), ("full", 12, 11)]
)
def test_dim_counts_the_places(name: str, with_one: int, without: int) -> None:
    """Two visitor and three item features give the dimensions that the definitions imply; outer never holds a 1."""
    assert feature_map(name).dim(2, 3) == with_one
    assert feature_map(name, intercept=False).dim(2, 3) == without
    assert feature_map(name).intercept == (name != "outer")
    assert not feature_map(name, intercept=False).intercept


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_pull_multiplies_by_the_transposed_affine_map(name: str, intercept: bool) -> None:
    """``pull`` is A(u)' C for the matrix A(u) that takes (1, v) to x, read off the map itself."""
    fmap = feature_map(name, intercept=intercept)
    at_zero = fmap.dense(u, np.zeros((1, 3)))[0]
    A = np.column_stack([at_zero, (fmap.dense(u, np.eye(3)) - at_zero).T])
    C = np.random.default_rng(1).normal(size=(2, fmap.dim(2, 3), 4))
    np.testing.assert_allclose(fmap.pull(u, C, 3), A.T @ C, rtol=0, atol=1e-12)


def test_feature_map_refuses_an_unknown_name() -> None:
    """The error lists the known names, then the one given."""
    with pytest.raises(
        ValueError, match=r"^feature_map must be one of item, concat, outer, full, got feature_map='kron'$"
    ):
        feature_map("kron")


def test_feature_maps_are_values() -> None:
    """Maps of the same definition are equal and hash alike, whichever way they were asked for."""
    assert feature_map("outer") == feature_map("outer", intercept=False)
    assert feature_map("full") != feature_map("full", intercept=False)
    assert {feature_map("item"): 1}[FeatureMap("item", MAPS["item"])] == 1


@pytest.mark.parametrize("name", MAPS)
def test_effects_follow_and_meet_nobody(name: str) -> None:
    """One place per item, the same for every visitor; the rest of x is as without effects."""
    plain, made = feature_map(name), feature_map(name, effects=3)
    x = made.dense(u, v, np.array([2, 5]))
    np.testing.assert_array_equal(x[:, :-3], plain.dense(u, v))
    np.testing.assert_array_equal(x[:, -3:], [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(made.dense(u, v)[:, -3:], np.eye(2, 3))
    assert made.dim(2, 3) == plain.dim(2, 3) + 3 == len(made.names(["a", "b"], ["c", "d", "e"]))
    np.testing.assert_array_equal(made.in_product(2, 3), plain.in_product(2, 3))
