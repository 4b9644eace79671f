"""Utilities and norms of a visitor have the same bits alone and in a group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.types import Features, FloatArray

SIZES = np.array([1.0, 1.0, 0.0, 1e-320, 1e5, 1e200, 1e307])


def same_bits(one: FloatArray, other: FloatArray) -> None:
    assert one.shape == other.shape
    assert one.tobytes() == other.tobytes()


def check(features: Features, alone: Features, who: int, theta: FloatArray, metric: FloatArray) -> None:
    """With theta and metric shared, and with those of each."""
    with np.errstate(over="ignore", invalid="ignore"):
        same_bits(features.utility(theta[0])[who], alone.utility(theta[0]))
        same_bits(features.norm(metric[0])[who], alone.norm(metric[0]))
        same_bits(features.utility(theta)[who], alone.utility(theta[who]))
        same_bits(features.norm(metric)[who], alone.norm(metric[who]))


@pytest.mark.parametrize("name", [*MAPS, "dense"])
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 70), st.integers(1, 6), st.integers(1, 18))
def test_a_visitor_has_the_same_utilities_and_norms_alone(
    name: str, seed: int, visitors: int, items: int, d1: int, d2: int
) -> None:
    """Every map and dense features, beside visitors whose numbers vanish or overflow."""
    rng = np.random.default_rng(seed)
    size = rng.choice(SIZES, size=(visitors, 1))
    features: Catalogued | Dense
    if name == "dense":
        features = Dense(rng.normal(size=(visitors, items, d1 * d2)) * size[..., None])  # short vectors, and long ones
    else:
        catalogue = rng.normal(size=(items, d2))
        catalogue = np.asfortranarray(catalogue) if seed % 2 else catalogue
        named = feature_map(name, effects=int(rng.choice([0, 1, items])))
        features = Catalogued(size * rng.normal(size=(visitors, d1)), catalogue, named)
    theta = rng.normal(size=(visitors, features.dim))
    root = rng.normal(size=(visitors, features.dim, features.dim))
    metric = root @ np.swapaxes(root, -1, -2)
    for who in rng.integers(0, visitors, size=3).tolist():
        if isinstance(features, Dense):
            check(features, Dense(features.x[who].copy()), who, theta, metric)
        else:
            alone = Catalogued(features.visitor[who].copy(), features.catalogue, features.feature_map)
            check(features, alone, who, theta, metric)


def test_a_last_chunk_of_one_item_changes_no_bit() -> None:
    """4,097 items are taken in two steps, the second of a single item."""
    rng = np.random.default_rng(0)
    features = Catalogued(rng.normal(size=(5, 2)), rng.normal(size=(4097, 3)), feature_map("full"))
    theta, root = rng.normal(size=(5, 12)), rng.normal(size=(5, 12, 12))
    for who in range(5):
        alone = Catalogued(features.visitor[who], features.catalogue, features.feature_map)
        check(features, alone, who, theta, root @ np.swapaxes(root, -1, -2))
