"""Utilities far beyond what exp can hold, weights beyond what digits can hold, and infinite ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import pytest

from quietshelf.model.assortment import best
from quietshelf.model.types import BoolArray, FloatArray

AllowedSets = Callable[..., BoolArray]
ExactValue = Callable[[Sequence[Any], Sequence[Any], BoolArray], Any]

SIXTY_DIGITS = Context(prec=60, Emin=-(10**9), Emax=10**9)


def random_utility(rng: np.random.Generator, items: int) -> FloatArray:
    kinds = [
        rng.uniform(-1e4, 1e4, items),
        rng.choice([-1e4, -5e3, 0.0, 5e3, 1e4], items) + rng.normal(size=items),
        rng.choice([-800.0, 0.0, 30.0, 40.0, 800.0], items) + rng.normal(size=items),
        np.full(items, -1e4) + rng.normal(size=items),
        np.full(items, 1e4) + rng.normal(size=items),
    ]
    return kinds[rng.integers(len(kinds))]


def random_rules(rng: np.random.Generator, items: int) -> dict[str, Any]:
    rules: dict[str, Any] = {"capacity": int(rng.integers(1, items + 1)), "exactly": bool(rng.random() < 0.5)}
    if rng.random() < 0.3:
        rules["required"] = np.arange(items) == rng.integers(items)
    if rng.random() < 0.3:
        rules |= {"groups": rng.integers(-1, 2, items), "limits": [1, 2]}
    return rules


def test_best_at_extreme_utilities_equals_enumeration_in_sixty_digits(
    allowed_sets: AllowedSets, exact_value: ExactValue
) -> None:
    """On 1500 problems with utilities up to ±1e4 the set is the best to 1e-13, relative even where it is e^-10000."""
    rng = np.random.default_rng(5)
    solved = 0
    while solved < 1500:
        items = int(rng.integers(1, 6))
        utility, rules = random_utility(rng, items), random_rules(rng, items)
        revenue = rng.uniform(-0.5, 2, items) if rng.random() < 0.5 else rng.integers(-1, 4, items).astype(float)
        sets = allowed_sets(items, **rules)
        if not len(sets):
            continue
        solved += 1
        answer = best(utility=utility, revenue=revenue, **rules)
        shown = np.isin(np.arange(items), answer.chosen)
        assert (sets == shown).all(axis=1).any()
        with localcontext(SIXTY_DIGITS):
            w, r = [Decimal(float(u)).exp() for u in utility], [Decimal(float(x)) for x in revenue]
            top, own = max(exact_value(w, r, s) for s in sets), exact_value(w, r, shown)
            size = exact_value(w, [abs(x) for x in r], shown)
            assert top - own <= Decimal("1e-13") * max(size, abs(top))
            assert abs(own - Decimal(float(answer.expected_revenue))) <= Decimal("1e-13") * size + Decimal("1e-300")


def test_best_leaves_out_an_overwhelming_item_that_earns_little() -> None:
    """An item of utility 1e4 that earns 0.1 is left out, and the choice among ordinary items is unharmed."""
    answer = best(utility=[1e4, 0.0, 0.5, -0.5], revenue=[0.1, 1.0, 1.0, 3.0], capacity=2)
    alone = best(utility=[0.0, 0.5, -0.5], revenue=[1.0, 1.0, 3.0], capacity=2)
    assert answer.chosen == tuple(item + 1 for item in alone.chosen)
    assert answer.expected_revenue == pytest.approx(float(alone.expected_revenue), rel=1e-15)


def test_best_chooses_among_items_nobody_wants() -> None:
    """At utilities near -1e4 the value vanishes, yet the best K are chosen."""
    answer = best(utility=[-1e4, -9998.0, -9999.0], revenue=[1.0, 1.0, 5.0], capacity=2)
    assert answer.chosen == (1, 2)
    assert answer.expected_revenue == 0.0


def test_best_accepts_utilities_up_to_1e300() -> None:
    """Utilities of any size still order the items."""
    utility = np.array([9e299, 1e-300, -1e300, 1e300])
    answer = best(utility=utility, revenue=[1.0, 2.5, 9.0, 0.5], capacity=1)
    assert answer.chosen == (1,)
    answer = best(utility=utility, revenue=[2.0, 2.5, 9.0, 2.0], capacity=1)
    assert answer.chosen == (3,)
    assert answer.expected_revenue == 2.0


@pytest.mark.parametrize("weight", [1e8, 1e12, 5e15, 1e17, 1e40, 1e149, 1e151, 1e300, np.inf])
def test_best_keeps_the_digits_that_decide_beside_a_large_weight(weight: float) -> None:
    """An item all but certain to be chosen for 1 yields to one worth 1.05, however large its weight."""
    answer = best([weight, 1.0], [1 + 2.0**-52, 2.1], capacity=1)
    assert answer.chosen == (1,)
    assert answer.expected_revenue == pytest.approx(1.05, rel=1e-15)


@pytest.mark.parametrize("weight", [1e8, 1e17, 1e151, np.inf])
def test_exactly_lets_a_large_weight_go_for_a_small_loss(weight: float) -> None:
    """Of three items exactly two: the heavy one caps revenue at 1, the other two are worth 1.3 though one earns 0.9."""
    answer = best([weight, 1.0, 1.0], [1.0, 3.0, 0.9], capacity=2, exactly=True)
    assert answer.chosen == (1, 2)
    assert answer.expected_revenue == pytest.approx(1.3, rel=1e-15)


def test_infinite_weights_share_the_choice_equally() -> None:
    """Shown infinite items are chosen equally likely, and nothing else is."""
    answer = best([np.inf, np.inf, 1.0], [2.0, 4.0, 100.0], capacity=3, required=[0, 1])
    assert answer.expected_revenue == 3.0
    assert best([np.inf, np.inf], [2.0, 4.0], capacity=2).chosen == (1,)
    assert best([np.inf, np.inf], [2.0, 4.0], capacity=2, exactly=True).expected_revenue == 3.0
    assert best([np.inf, 1.0], [0.1, 1.0], capacity=2).chosen == (1,)


def test_equal_revenues_at_extreme_utilities_and_weights() -> None:
    """The best sellers are found among utilities of any size and infinite weights, required ones kept."""
    answer = best(utility=[1e4, -1e4, 9999.0, 0.0], revenue=2.0, capacity=2)
    assert answer.chosen == (0, 2)
    assert answer.expected_revenue == 2.0
    assert best(utility=[-1e4, -9999.0], revenue=1.0, capacity=1).chosen == (1,)
    answer = best([np.inf, 1.0, np.inf, 1e308], 2.0, capacity=2, required=[1])
    assert answer.chosen == (0, 1)
    assert answer.expected_revenue == 2.0


def test_an_extreme_problem_does_not_disturb_its_neighbours() -> None:
    """Ordinary problems are answered bit for bit alike whether or not the batch holds an extreme one."""
    rng = np.random.default_rng(2)
    utility, revenue = rng.normal(size=(200, 12)) * 6, rng.uniform(-0.2, 1, (200, 12))
    alone = best(utility=utility, revenue=revenue, capacity=4)
    extreme = best(
        utility=np.vstack([utility, np.full(12, 1e4)]), revenue=np.vstack([revenue, np.ones(12)]), capacity=4
    )
    np.testing.assert_array_equal(extreme.items[:-1], alone.items)
    np.testing.assert_array_equal(extreme.expected_revenue[:-1], alone.expected_revenue)
