"""Dense and structured features answer alike, and the structured ones never form x."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import MAPS, feature_map
from quietshelf.model.types import Features, FloatArray

BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]
TOLERANCE = 1e-10


def positive_definite(rng: np.random.Generator, batch: tuple[int, ...], dim: int) -> FloatArray:
    root = rng.normal(size=(*batch, dim, dim))
    metric: FloatArray = root @ np.swapaxes(root, -1, -2) / dim + np.eye(dim)
    return metric


def alike(one: FloatArray, other: FloatArray) -> None:
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)


@settings(deadline=None)
@given(
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    items=st.integers(1, 6),
    dim=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_dense_answers_item_by_item(batch: tuple[int, ...], items: int, dim: int, seed: int) -> None:
    """Utility, norm and rows equal their definitions, computed for one item of one world at a time."""
    rng = np.random.default_rng(seed)
    x, theta = rng.normal(size=(*batch, items, dim)), rng.normal(size=(*batch, dim))
    metric, shown = positive_definite(rng, batch, dim), rng.integers(-1, items, size=(*batch, 4))
    features = Dense(x)
    utility, norm, rows = features.utility(theta), features.norm(metric), features.rows(shown)
    assert (features.items, features.dim) == (items, dim)
    assert (utility.shape, norm.shape, rows.shape) == ((*batch, items), (*batch, items), (*batch, 4, dim))
    for world in np.ndindex(batch):
        for j in range(items):
            row = x[(*world, j)]
            assert utility[(*world, j)] == pytest.approx(row.dot(theta[world]), rel=1e-12, abs=1e-12)
            assert norm[(*world, j)] == pytest.approx(np.sqrt(row.dot(metric[world]).dot(row)), rel=1e-12)
        for place, j in enumerate(shown[world]):
            np.testing.assert_array_equal(rows[(*world, place)], x[(*world, j)] if j >= 0 else np.zeros(dim))


def test_dense_broadcasts_worlds_against_each_other() -> None:
    """One x for many thetas, many x for one theta, and crossed worlds give what an explicit copy gives."""
    rng = np.random.default_rng(2)
    theta, metric = rng.normal(size=(4, 1, 3)), positive_definite(rng, (4, 1), 3)
    shown = rng.integers(-1, 6, size=(4, 1, 2))
    for shape in [(6, 3), (5, 6, 3), (1, 5, 6, 3)]:
        x = rng.normal(size=shape)
        features, copied = Dense(x), Dense(np.broadcast_to(x, (4, 5, 6, 3)))
        np.testing.assert_array_equal(
            np.broadcast_to(features.rows(shown), (4, 5, 2, 3)), copied.rows(np.broadcast_to(shown, (4, 5, 2)))
        )
        alike(np.broadcast_to(features.utility(theta), (4, 5, 6)), copied.utility(theta))
        alike(np.broadcast_to(features.norm(metric), (4, 5, 6)), copied.norm(metric))
        alike(features.utility(theta[0, 0]), np.einsum("...nd,d->...n", x, theta[0, 0]))


def test_dense_uses_an_array_laid_out_by_columns_in_place() -> None:
    """An x whose memory is (..., d, N) is not copied, and answers exactly as its row-ordered twin."""
    rng = np.random.default_rng(3)
    memory = rng.normal(size=(7, 5, 40))
    theta, metric, shown = rng.normal(size=(7, 5)), positive_definite(rng, (7,), 5), rng.integers(-1, 40, (7, 3))
    by_columns = Dense(np.swapaxes(memory, -1, -2))
    by_rows = Dense(np.ascontiguousarray(by_columns.x))
    np.testing.assert_array_equal(by_columns.utility(theta), by_rows.utility(theta))
    np.testing.assert_array_equal(by_columns.norm(metric), by_rows.norm(metric))
    np.testing.assert_array_equal(by_columns.rows(shown), by_rows.rows(shown))
    assert np.shares_memory(by_columns._columns, memory)


def test_norm_of_a_null_direction_is_zero_not_nan() -> None:
    """Along the null space of a singular metric rounding gives squares below zero; the norm is real and tiny."""
    rng = np.random.default_rng(4)
    direction = rng.normal(size=(200, 6))
    across = np.linalg.qr(direction[:, :, None], mode="complete")[0][..., 1:]
    metric = 1e3 * across @ np.swapaxes(across, -1, -2)
    outer, one = feature_map("outer"), np.ones(1)
    assert ((direction[:, None] @ metric @ direction[..., None]) < 0).any()
    for norm in [
        Dense(direction[:, None]).norm(metric),
        np.array([Catalogued(one, direction[[k]], outer).norm(metric[k]) for k in range(200)]),
    ]:
        assert (norm >= 0).all()
        assert norm.max() < 1e-5


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", MAPS)
def test_catalogued_equals_dense(name: str, intercept: bool, batch: tuple[int, ...]) -> None:
    """Utility and norm agree to 1e-10 and rows exactly, for each mixture of batch axes on visitor, theta and metric."""
    rng = np.random.default_rng(5)
    fmap, catalogue = feature_map(name, intercept=intercept), rng.normal(size=(50, 4))
    dim = fmap.dim(3, 4)
    for visitor_batch, other_batch in [(batch, batch), (batch, ()), ((), batch)]:
        visitor = rng.normal(size=(*visitor_batch, 3))
        structured, dense = Catalogued(visitor, catalogue, fmap), Dense(fmap.dense(visitor, catalogue))
        theta, metric = rng.normal(size=(*other_batch, dim)), positive_definite(rng, other_batch, dim)
        shown = rng.integers(-1, 50, size=(*other_batch, 7))
        assert (structured.items, structured.dim) == (dense.items, dense.dim) == (50, dim)
        alike(structured.utility(theta), dense.utility(theta))
        alike(structured.norm(metric), dense.norm(metric))
        np.testing.assert_array_equal(structured.rows(shown), dense.rows(shown))
        assert (structured.rows(shown)[np.broadcast_to(shown < 0, (*batch, 7))] == 0).all()


@pytest.mark.parametrize("name", MAPS)
def test_catalogued_equals_dense_beyond_one_chunk(name: str) -> None:
    """A catalogue worked through in several steps, in either memory order, agrees with dense features to 1e-10."""
    rng = np.random.default_rng(6)
    fmap, catalogue, visitor = feature_map(name), rng.normal(size=(9001, 3)), rng.normal(size=(2, 2))
    theta, metric = rng.normal(size=fmap.dim(2, 3)), positive_definite(rng, (2,), fmap.dim(2, 3))
    dense = Dense(fmap.dense(visitor, catalogue))
    for ordered in [catalogue, np.asfortranarray(catalogue)]:
        structured = Catalogued(visitor, ordered, fmap)
        alike(structured.utility(theta), dense.utility(theta))
        alike(structured.norm(metric), dense.norm(metric))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("name", ["outer", "full"])
def test_catalogued_never_forms_x(name: str, order: str) -> None:
    """With 200,000 items x would take at least 160 MB; an answer needs less than three vectors of length N."""
    rng = np.random.default_rng(7)
    items, fmap = 200_000, feature_map(name)
    catalogue = np.array(rng.normal(size=(items, 10)), order="F" if order == "F" else "C")
    features = Catalogued(rng.normal(size=10), catalogue, fmap)
    theta, metric = rng.normal(size=features.dim), positive_definite(rng, (), features.dim)
    shown = rng.integers(0, items, size=10)
    answers: list[Callable[[], FloatArray]] = [
        lambda: features.utility(theta),
        lambda: features.norm(metric),
        lambda: features.rows(shown),
    ]
    for answer in answers:
        assert peak_bytes(answer) < 3 * items * 8


def peak_bytes(answer: Callable[[], FloatArray]) -> int:
    tracemalloc.start()
    try:
        answer()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_peak_bytes_sees_a_formed_x() -> None:
    """The memory test would fail if x were formed: the same measure reports the whole of a dense x."""
    rng = np.random.default_rng(8)
    visitor, catalogue, fmap = rng.normal(size=10), rng.normal(size=(2_000, 10)), feature_map("outer")
    assert peak_bytes(lambda: fmap.dense(visitor, catalogue)) >= 2_000 * 100 * 8


def test_features_fit_the_protocol_and_are_frozen() -> None:
    """Both kinds are ``Features``; neither lets its array be replaced, and each equals itself alone."""
    dense = Dense(np.ones((3, 2)))
    structured = Catalogued(np.ones(1), np.ones((3, 2)), feature_map("item"))
    for features, field in [(dense, "x"), (structured, "visitor")]:
        assert isinstance(features, Features)
        with pytest.raises(AttributeError):
            setattr(features, field, np.ones((3, 2)))
        assert features != Dense(np.ones((3, 2)))
        assert len({features, features}) == 1


def test_features_refuse_wrong_shapes() -> None:
    """A shape that does not fit is refused by name, also where slices or broadcasting would let it pass."""
    dense = Dense(np.ones((4, 3)))
    structured = Catalogued(np.ones(2), np.ones((4, 3)), feature_map("concat"))
    for features in (dense, structured):
        for dim in (1, features.dim - 1, features.dim + 1):
            with pytest.raises(ValueError, match=r"^theta must have shape \(\.\.\., \d\), got shape="):
                features.utility(np.ones(dim))
            with pytest.raises(ValueError, match=r"^metric must have shape \(\.\.\., \d, \d\), got shape="):
                features.norm(np.ones((dim, features.dim)))
    with pytest.raises(ValueError, match=r"^features must have shape \(\.\.\., N, d\), got shape=\(3,\)$"):
        Dense(np.ones(3))
    with pytest.raises(ValueError, match=r"^catalogue must have shape \(N, item features\), got shape=\(2, 4, 3\)$"):
        Catalogued(np.ones(2), np.ones((2, 4, 3)), feature_map("item"))
    with pytest.raises(ValueError, match=r"^visitor must have shape \(\.\.\., visitor features\), got shape=\(\)$"):
        Catalogued(np.array(1.0), np.ones((4, 3)), feature_map("item"))


def test_rows_refuse_an_item_beyond_the_last() -> None:
    """An index past the end is an error, never a wrong row."""
    for features in (Dense(np.ones((4, 3))), Catalogued(np.ones(2), np.ones((4, 3)), feature_map("full"))):
        with pytest.raises(IndexError):
            features.rows(np.array([0, 4]))


@settings(deadline=None)
@given(
    name=st.sampled_from(list(MAPS)),
    intercept=st.booleans(),
    batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    effects=st.integers(1, 6),
    item_dim=st.integers(0, 3),
    numbered=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_effects_are_looked_up_as_if_they_were_features(
    name: str, intercept: bool, batch: tuple[int, ...], effects: int, item_dim: int, numbered: bool, seed: int
) -> None:
    """Utility, norm and rows equal those of the vectors x; some items have an effect and some have none."""
    rng = np.random.default_rng(seed)
    visitor, catalogue = rng.normal(size=(*batch, 2)), rng.normal(size=(4, item_dim))
    numbers = rng.permutation(8)[:4] if numbered else None
    made = feature_map(name, intercept=intercept, effects=effects)
    features = Catalogued(visitor, catalogue, made, numbers)
    dense = Dense(made.dense(visitor, catalogue, numbers))
    theta, metric = rng.normal(size=(*batch, features.dim)), positive_definite(rng, batch, features.dim)
    alike(features.utility(theta), dense.utility(theta))
    alike(features.norm(metric), dense.norm(metric))
    shown = rng.integers(-1, 4, size=(*batch, 3))
    np.testing.assert_array_equal(features.rows(shown), dense.rows(shown))


def test_many_effects_cost_a_look_each() -> None:
    """A norm of 1,000 ids takes no matrix beside the metric: less than a tenth of one."""
    count = 1000
    features = Catalogued(np.empty(0), np.empty((count, 0)), feature_map("item", intercept=False, effects=count))
    metric = np.diag(np.arange(1.0, count + 1))
    tracemalloc.start()
    norm = features.norm(metric)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(norm**2, np.arange(1.0, count + 1))
    assert peak < metric.nbytes / 10
