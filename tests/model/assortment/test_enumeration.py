"""`best` against the enumeration of every allowed set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quietshelf.model.assortment import best
from quietshelf.model.types import BoolArray, FloatArray

AllowedSets = Callable[..., BoolArray]
ExactValue = Callable[[Sequence[Any], Sequence[Any], BoolArray], Any]
Fractions = Callable[[FloatArray], list[Fraction]]

KINDS = ["plain", "ties", "wide", "heavy", "infinite"]


def random_weight(rng: np.random.Generator, kind: str, items: int) -> FloatArray:
    if kind == "plain":
        return rng.lognormal(size=items)
    if kind == "ties":
        return rng.integers(0, 4, items).astype(float)
    if kind == "wide":
        return np.exp(rng.uniform(-80, 80, items))
    if kind == "heavy":
        return np.exp(rng.uniform(20, 45, items) * rng.integers(0, 2, items))
    return rng.choice([0.0, 1.0, 2.0, 5e15, 1e200, 1e308, np.inf], items)


def random_revenue(rng: np.random.Generator, items: int) -> FloatArray:
    kinds = [
        rng.uniform(-1, 2, items),
        rng.integers(-2, 4, items).astype(float),
        1 + rng.integers(-2, 3, items) * 2.0**-52,
        np.full(items, float(rng.integers(-1, 3))),
        rng.uniform(0, 1, items) * 10.0 ** rng.integers(-20, 20),
    ]
    return kinds[rng.integers(len(kinds))]


def random_rules(rng: np.random.Generator, items: int) -> dict[str, Any]:
    rules: dict[str, Any] = {"capacity": int(rng.integers(1, items + 1)), "exactly": bool(rng.random() < 0.4)}
    if rng.random() < 0.4:
        rules["available"] = rng.random(items) < 0.8
    if rng.random() < 0.4:
        rules["required"] = rng.random(items) < 0.25
    if rng.random() < 0.4:
        count = int(rng.integers(1, 4))
        rules |= {"groups": rng.integers(-1, count, items), "limits": rng.integers(0, 4, count)}
    return rules


def mask_of(chosen: tuple[int, ...], items: int) -> BoolArray:
    mask = np.zeros(items, dtype=np.bool_)
    mask[list(chosen)] = True
    return mask


@pytest.mark.parametrize("kind", KINDS)
def test_best_equals_exact_enumeration_on_random_problems(
    kind: str, allowed_sets: AllowedSets, exact_value: ExactValue, fractions: Fractions
) -> None:
    """On 700 random problems of each kind the set is allowed and, in exact arithmetic, worth the maximum to 2e-15."""
    rng = np.random.default_rng(KINDS.index(kind))
    refused = 0
    for _ in range(700):
        items = int(rng.integers(1, 8))
        weight, revenue, rules = random_weight(rng, kind, items), random_revenue(rng, items), random_rules(rng, items)
        sets = allowed_sets(items, **rules)
        if not len(sets):
            refused += 1
            with pytest.raises(ValueError, match=r"required|exactly"):
                best(weight, revenue, **rules)
            continue
        answer = best(weight, revenue, **rules)
        shown = mask_of(answer.chosen, items)
        assert (sets == shown).all(axis=1).any()
        w, r = fractions(weight), fractions(revenue)
        top, own = max(exact_value(w, r, s) for s in sets), exact_value(w, r, shown)
        scale = float(np.abs(revenue).max())
        assert float(top - own) <= 2e-15 * scale
        assert abs(float(own) - float(answer.expected_revenue)) <= 2e-15 * scale
    assert 0 < refused < 350


def test_best_equals_enumeration_on_a_large_sweep(allowed_sets: AllowedSets) -> None:
    """On 200 sets of rules, 50 problems each solved as one batch, the value is the enumerated maximum to 1e-13."""
    rng = np.random.default_rng(11)
    solved = 0
    while solved < 200:
        items = int(rng.integers(2, 11))
        rules = random_rules(rng, items)
        sets = allowed_sets(items, **rules).astype(float)
        if not len(sets):
            continue
        solved += 1
        weight = rng.lognormal(sigma=rng.choice([0.5, 1, 3]), size=(50, items)) * (rng.random((50, items)) < 0.9)
        revenue = np.stack([random_revenue(rng, items) for _ in range(50)])
        values = (weight * revenue) @ sets.T / (1 + weight @ sets.T)
        found = best(weight, revenue, **rules).expected_revenue
        scale = np.abs(revenue).max(axis=1) * 1e-13
        assert (np.abs(found - values.max(axis=1)) <= scale).all()


numbers = st.one_of(st.integers(0, 4).map(float), st.floats(0, 1e3), st.floats(0, allow_nan=False))
revenues = st.one_of(st.integers(-3, 5).map(float), st.floats(-1e6, 1e6))


@st.composite
def problems(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, dict[str, Any]]:
    items = draw(st.integers(1, 6))
    many: dict[str, Any] = {"min_size": items, "max_size": items}
    weight, revenue = draw(st.lists(numbers, **many)), draw(st.lists(revenues, **many))
    rules: dict[str, Any] = {"capacity": draw(st.integers(1, items)), "exactly": draw(st.booleans())}
    for name in ("available", "required"):
        if draw(st.booleans()):
            rules[name] = np.array(draw(st.lists(st.booleans(), **many)), dtype=np.bool_)
    if draw(st.booleans()):
        limits = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
        rules |= {"groups": draw(st.lists(st.integers(-1, len(limits) - 1), **many)), "limits": limits}
    return np.array(weight), np.array(revenue), rules


@settings(max_examples=600)
@given(problem=problems())
@example(problem=(np.array([5e15, 1.0]), np.array([1 + 2.0**-52, 2.1]), {"capacity": 1}))
@example(problem=(np.array([np.inf, 1.0, 1.0]), np.array([1.0, 3.0, 0.9]), {"capacity": 2, "exactly": True}))
def test_best_equals_exact_enumeration_on_any_problem(
    problem: tuple[FloatArray, FloatArray, dict[str, Any]],
    allowed_sets: AllowedSets,
    exact_value: ExactValue,
    fractions: Fractions,
) -> None:
    """Whatever the weights, revenues and rules, the set is allowed and worth the maximum, or the rules are refused."""
    weight, revenue, rules = problem
    sets = allowed_sets(len(weight), **rules)
    if not len(sets):
        with pytest.raises(ValueError, match=r"required|exactly"):
            best(weight, revenue, **rules)
        return
    answer = best(weight, revenue, **rules)
    shown = mask_of(answer.chosen, len(weight))
    assert (sets == shown).all(axis=1).any()
    w, r = fractions(weight), fractions(revenue)
    top, own = max(exact_value(w, r, s) for s in sets), exact_value(w, r, shown)
    scale = float(np.abs(revenue).max())
    assert float(top - own) <= 2e-15 * scale + 1e-300
    assert abs(float(own) - float(answer.expected_revenue)) <= 2e-15 * scale + 1e-300


@settings(max_examples=200)
@given(problem=problems(), copies=st.integers(2, 4))
def test_best_prefers_the_lower_index_among_like_items(
    problem: tuple[FloatArray, FloatArray, dict[str, Any]], copies: int
) -> None:
    """Of items alike in weight, revenue and rules, those shown come before those left out."""
    weight, revenue, _ = problem
    capacity = 1 + len(weight) * copies // 2
    chosen = best(np.tile(weight, copies), np.tile(revenue, copies), capacity=capacity).chosen
    for item in chosen:
        assert all(lower in chosen for lower in range(item % len(weight), item, len(weight)))
