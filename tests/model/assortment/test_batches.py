"""Shapes, broadcasting, ties, and the fast paths: all answer what one problem at a time answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.model.assortment import Assortment, best, items_for
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import NOTHING, Context, FloatArray


def one_by_one(weight: FloatArray, revenue: FloatArray, **rules: Any) -> Assortment:
    """The batch (B, N) as a loop; masks of the rules are cut along."""
    own = [{k: v[i] if np.ndim(v) == 2 else v for k, v in rules.items()} for i in range(len(weight))]
    answers = [best(w, r, **each) for w, r, each in zip(weight, revenue, own, strict=True)]
    return Assortment(
        np.array([answer.items for answer in answers]), np.array([answer.expected_revenue for answer in answers])
    )


def assert_same(one: Assortment, other: Assortment) -> None:
    np.testing.assert_array_equal(one.items, other.items)
    np.testing.assert_array_equal(one.expected_revenue, other.expected_revenue)


@pytest.mark.parametrize("kind", ["plain", "ties", "masks", "groups", "exactly", "uniform"])
def test_batch_equals_loop(kind: str) -> None:
    """500 problems at once are answered bit for bit as one by one."""
    rng = np.random.default_rng(3)
    weight, revenue = rng.lognormal(size=(500, 20)), rng.uniform(-0.2, 1, (500, 20))
    rules: dict[str, Any] = {"capacity": 5}
    if kind == "ties":
        weight, revenue = (rng.integers(0, 3, (500, 20)).astype(np.float64) for _ in range(2))
    if kind == "uniform":
        revenue = np.repeat(rng.uniform(0.1, 1, (500, 1)), 20, axis=1)
    if kind == "masks":
        rules["available"] = rng.random((500, 20)) < 0.8
        rules["required"] = rules["available"] & (rng.random((500, 20)) < 0.05)
    if kind == "groups":
        rules |= {"groups": rng.integers(-1, 4, 20), "limits": [1, 2, 0, 1]}
    if kind == "exactly":
        rules["exactly"] = True
    assert_same(best(weight, revenue, **rules), one_by_one(weight, revenue, **rules))


def test_arguments_are_broadcast_over_batch_axes() -> None:
    """Weights (4, 1, 6), revenues (3, 6) and one list of items make a batch (4, 3)."""
    rng = np.random.default_rng(4)
    weight, revenue = rng.lognormal(size=(4, 1, 6)), rng.uniform(size=(3, 6))
    answer = best(weight, revenue, capacity=2, available=[0, 2, 3, 5])
    assert answer.items.shape == (4, 3, 2)
    assert answer.expected_revenue.shape == (4, 3)
    assert_same(
        Assortment(answer.items[2, 1], answer.expected_revenue[2, 1]),
        best(weight[2, 0], revenue[1], capacity=2, available=np.array([1, 0, 1, 1, 0, 1], dtype=bool)),
    )


def test_a_single_problem_answers_without_batch_axes() -> None:
    """Items come padded with -1 at the end, revenue as a scalar."""
    answer = best([1.0, 0.0, 2.0], [-1.0, 5.0, 3.0], capacity=3)
    np.testing.assert_array_equal(answer.items, [2, NOTHING, NOTHING])
    assert answer.items.dtype == np.int64
    assert answer.chosen == (2,)
    assert np.ndim(answer.expected_revenue) == 0
    assert answer.expected_revenue == 2.0


def test_an_empty_answer_earns_nothing() -> None:
    """Where nothing is available or worth showing, all places stay empty and revenue is zero."""
    for answer in (best([1.0, 2.0], [1.0, 1.0], capacity=2, available=[]), best([1.0, 2.0], -1.0, capacity=2)):
        assert answer.chosen == ()
        np.testing.assert_array_equal(answer.items, [NOTHING, NOTHING])
        assert answer.expected_revenue == 0.0


def test_an_empty_batch_gives_an_empty_answer() -> None:
    """No problems, no answers, no error."""
    for revenue in (1.0, np.linspace(0, 1, 5)):
        answer = best(np.ones((0, 5)), revenue, capacity=2)
        assert answer.items.shape == (0, 2)
        assert answer.expected_revenue.shape == (0,)


def test_chosen_needs_a_single_problem() -> None:
    """A batch has no one tuple of items."""
    with pytest.raises(ValueError, match=r"single problem, got shape=\(2, 1\)"):
        _ = best(np.ones((2, 3)), 1.0, capacity=1).chosen


def test_items_of_zero_score_are_not_shown() -> None:
    """An item that earns exactly z leaves z unchanged, and is left out; a required one stays."""
    assert best([1.0, 3.0], [1.0, 0.5], capacity=2).chosen == (0,)
    assert best([1.0, 1.0, 1.0, 4.0], [1.0, 1.0, 1.0, 0.75], capacity=4).chosen == (0, 1, 2)
    assert best([3.0, 1.0], [0.5, 1.0], capacity=2, required=[0]).chosen == (0, 1)


def test_exactly_fills_with_the_least_harmful_items() -> None:
    """After the good items come those of zero weight, by index, then those that cost least."""
    answer = best([1.0, 1.0, 0.0, 0.0, 0.5], [2.0, -1.0, -9.0, 9.0, -1.0], capacity=4, exactly=True)
    assert answer.chosen == (0, 2, 3, 4)


def test_equal_revenues_show_the_items_of_largest_weight() -> None:
    """With one revenue for all, the best assortment is the top K by weight."""
    rng = np.random.default_rng(6)
    weight = rng.lognormal(size=(50, 30))
    answer = best(weight, 2.5, capacity=7)
    np.testing.assert_array_equal(answer.items, np.sort(np.argsort(-weight, axis=1)[:, :7], axis=1))
    total = np.take_along_axis(weight, answer.items, axis=1).sum(axis=1)
    np.testing.assert_allclose(answer.expected_revenue, 2.5 * total / (1 + total), rtol=1e-14)


def test_weights_and_utilities_answer_alike() -> None:
    """``best(exp(u))``, ``best(utility=u)`` and `items_for` give one answer."""
    rng = np.random.default_rng(7)
    utility, revenue = rng.normal(size=(40, 15)), rng.uniform(size=(40, 15))
    answer = best(utility=utility, revenue=revenue, capacity=4)
    assert_same(answer, best(np.exp(utility), revenue, capacity=4))
    context = Context(Dense(utility[..., None]), revenue, 4)
    np.testing.assert_array_equal(answer.items, items_for(context, utility, revenue))


def test_lists_of_items_and_masks_answer_alike() -> None:
    """Both ways to say which items are available and which are required mean the same."""
    weight, revenue = np.array([3.0, 1.0, 2.0, 0.5]), np.array([0.2, 1.0, 0.7, 0.9])
    listed = best(weight, revenue, capacity=2, available=[3, 0, 1], required=(0,))
    mask = np.array([True, False, False, False])
    assert_same(listed, best(weight, revenue, capacity=2, available=[True, True, False, True], required=mask))
    assert 0 in listed.chosen


@pytest.mark.parametrize("order", ["random", "rising", "falling", "equal", "few values"])
def test_long_catalogues_are_answered_as_if_sorted_in_full(order: str) -> None:
    """Three problems of 40,000 items, K = 5, far past where candidates are narrowed: equal to a full stable sort."""
    rng = np.random.default_rng(8)
    weight, revenue = rng.lognormal(size=(3, 40_000)), rng.uniform(size=(3, 40_000))
    if order in ("rising", "falling"):
        weight = np.sort(weight)[:, :: 1 if order == "rising" else -1].copy()
    if order == "equal":
        weight, revenue = np.ones_like(weight), np.full_like(revenue, 0.875) + 0.125 * (np.arange(40_000) >= 39_997)
    if order == "few values":
        weight, revenue = (rng.integers(0, 4, weight.shape).astype(np.float64) for _ in range(2))
    answer = best(weight, revenue, capacity=5)
    z = answer.expected_revenue
    for row in range(3):
        score = weight[row] * (revenue[row] - z[row])
        np.testing.assert_array_equal(answer.items[row], np.sort(np.argsort(-score, kind="stable")[:5]))
        assert score[answer.items[row]].sum() == pytest.approx(z[row], rel=1e-12)


def test_solving_leaves_the_arguments_alone() -> None:
    """Neither path writes into utilities, revenues or masks."""
    rng = np.random.default_rng(9)
    utility, revenue = rng.normal(size=(5, 8)), rng.uniform(size=(5, 8))
    masks: dict[str, Any] = {"available": rng.random((5, 8)) < 0.9, "required": np.zeros((5, 8), dtype=np.bool_)}
    kept = [array.copy() for array in (utility, revenue, *masks.values())]
    for earned in (revenue, np.ones((5, 8))):
        context = Context(Dense(utility[..., None]), earned, 3, **masks)
        items_for(context, utility, earned)
        best(utility=utility, revenue=earned, capacity=3, **masks)
    for before, after in zip(kept, (utility, revenue, *masks.values()), strict=True):
        np.testing.assert_array_equal(before, after)


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 12))
def test_a_problem_is_answered_the_same_beside_any_others(seed: int, problems: int, items: int) -> None:
    """Equal and unequal revenues, weights that vanish or overflow, ties to 1e-13: items and value to the bit."""
    rng = np.random.default_rng(seed)
    size = rng.choice([0.0, 1.0, 1.0, 30.0, 1e3, 1e200], size=(problems, 1))
    utility = size * rng.choice(rng.normal(size=4), size=(problems, items))
    utility += rng.choice([0.0, 1e-13], size=(problems, 1)) * rng.normal(size=(problems, items))
    revenue = rng.choice([0.5, 1.0, 1.0 + 2.0**-52, 2.1, -1.0], size=(problems, items))
    revenue[rng.random(problems) < 0.4] = 1.0
    rules: dict[str, Any] = {"capacity": int(rng.integers(1, items + 1))}
    if rng.random() < 0.4:
        rules["available"] = rng.random((problems, items)) < 0.7
    if rng.random() < 0.3:
        rules |= {"groups": rng.integers(-1, 3, size=items), "limits": rng.integers(0, 3, size=3)}
    together = best(utility=utility, revenue=revenue, **rules)
    for i in range(problems):
        own = {name: value[i] if np.ndim(value) == 2 else value for name, value in rules.items()}
        alone = best(utility=utility[i], revenue=revenue[i], **own)
        assert_same(Assortment(together.items[i], together.expected_revenue[i]), alone)
