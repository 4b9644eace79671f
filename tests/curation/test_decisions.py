"""R3: what a visitor is shown is the same, to the last bit, alone and in any group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.curation.coins import Coins
from quietshelf.curation.decisions import decide
from quietshelf.curation.requests import visitor_context
from quietshelf.curation.settings import SERVED, ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.types import Context, Release
from quietshelf.policies.bounded import suits_bounds

ITEMS, VISITOR, ITEM, MANY = 30, 3, 2, 12
COINS = Coins(b"of the tests")
SLOTS = [(4, place) for place in range(MANY)]
WISHES: list[dict[str, Any]] = [{}, {}, {}, {"capacity": 2}, {"exclude": [0, 1]}, {"revenue": np.arange(ITEMS)}]


def released(rng: np.random.Generator, dim: int, *, first: bool = False) -> Release:
    """Some release; or what is known before the ``first``, when items of equal length are tied."""
    root = rng.normal(size=(dim, dim))
    return Release(
        theta=np.zeros(dim) if first else rng.normal(size=dim),
        precision=np.eye(dim) if first else root @ root.T + np.eye(dim),
        radius=np.asarray(0.5),
        explore=np.asarray(False),
        count=np.asarray(1),
    )


def visitors(rng: np.random.Generator, dense: bool, extreme: float, ties: bool) -> tuple[list[Context], Release]:
    """Visitors with and without wishes of their own, the first of them extreme; and what they are decided by."""
    if dense:
        options, stock = ShelfSettings(rho=1.0, capacity=4, dim=ITEM), Stock.of(ITEMS, None, None, None)
        made = [rng.normal(size=(ITEMS, ITEM)) for _ in range(MANY)]
        release = released(rng, ITEM, first=ties)
    else:
        options = ShelfSettings(rho=1.0, capacity=4, feature_map="full", visitor_dim=VISITOR)
        stock = Stock.of(ITEMS, np.asfortranarray(rng.normal(size=(ITEMS, ITEM))), None, None)
        made = [rng.normal(size=VISITOR) for _ in range(MANY)]
        release = released(rng, 1 + VISITOR + ITEM + VISITOR * ITEM, first=ties)
    if ties:
        made = [np.sign(each) for each in made]
    made[0] = extreme * made[0]
    contexts = [
        visitor_context(options, stock, features=each, **WISHES[place % len(WISHES)]) for place, each in enumerate(made)
    ]
    return contexts, release


@pytest.mark.parametrize("policy", SERVED)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    dense=st.booleans(),
    extreme=st.sampled_from([1.0, 0.0, 1e-310, 1e13, 1e200, 1e307]),
    ties=st.booleans(),
)
def test_visitors_decided_together_are_shown_what_each_is_shown_alone(
    policy: str, seed: int, dense: bool, extreme: float, ties: bool
) -> None:
    """Items and features are equal for every visitor of the group, also beside one whose features are extreme."""
    contexts, release = visitors(np.random.default_rng(seed), dense, extreme, ties)
    with np.errstate(over="ignore", invalid="ignore"):
        together = decide([policy] * len(contexts), contexts, release, COINS.of(SLOTS))
        each = [decide([policy], [one], release, COINS.of([slot])) for one, slot in zip(contexts, SLOTS, strict=True)]
    for place, (alone,) in enumerate(each):
        np.testing.assert_array_equal(together[place].items, alone.items)
        np.testing.assert_array_equal(together[place].rows, alone.rows)


@pytest.mark.parametrize("size", [1.0, 1e200])
def test_long_features_are_decided_alone_as_together(size: float) -> None:
    """Where bounds leave most norms out: beside a visitor of any size, with and without wishes."""
    rng = np.random.default_rng(1)
    items, dim = 300, 60
    options, stock = ShelfSettings(rho=1.0, capacity=4, dim=dim), Stock.of(items, None, None, None)
    made = [rng.normal(size=(items, dim)) for _ in range(6)]
    made[0] *= size
    wishes: list[dict[str, Any]] = [{}, {}, {"exclude": [0, 1]}, {"required": [5]}, {}, {"revenue": np.arange(items)}]
    contexts = [visitor_context(options, stock, features=x, **wish) for x, wish in zip(made, wishes, strict=True)]
    release = released(rng, dim)
    assert suits_bounds(contexts[0], release)
    together = decide(["quiet"] * 6, contexts, release, COINS.of(SLOTS[:6]))
    for place, context in enumerate(contexts):
        (alone,) = decide(["quiet"], [context], release, COINS.of([SLOTS[place]]))
        np.testing.assert_array_equal(together[place].items, alone.items)
        np.testing.assert_array_equal(together[place].rows, alone.rows)


def test_ties_are_broken_alike_beside_a_visitor_whose_utilities_overflow() -> None:
    """Utilities of 1000 that are equal to 1e-13: the coins decide, alone and in any group."""
    rng = np.random.default_rng(0)
    options, stock = ShelfSettings(rho=1.0, capacity=4, dim=ITEM), Stock.of(ITEMS, None, None, None)
    nearly = 1e3 * (1 + 1e-13 * rng.random((MANY, ITEMS, 1))) * np.sign(rng.normal(size=(MANY, ITEMS, ITEM)))
    nearly[0] *= 1e200
    contexts = [visitor_context(options, stock, features=each) for each in nearly]
    release = released(rng, ITEM, first=True)
    together = decide(["quiet"] * len(contexts), contexts, release, COINS.of(SLOTS))
    for place in range(1, MANY):
        (alone,) = decide(["quiet"], [contexts[place]], release, COINS.of([SLOTS[place]]))
        assert together[place].items.tolist() == alone.items.tolist()


def test_a_decision_holds_the_rows_of_what_is_shown() -> None:
    """As many rows as items, in the same order, and no place left empty."""
    contexts, release = visitors(np.random.default_rng(0), True, 1.0, False)
    decided = decide(["quiet"] * len(contexts), contexts, release, COINS.of(SLOTS))
    for context, found in zip(contexts, decided, strict=True):
        assert 0 < found.items.size <= context.capacity
        np.testing.assert_array_equal(found.rows, context.features.rows(found.items))


def test_decisions_come_in_the_order_of_the_visitors() -> None:
    """Even though equal requests are decided in one step."""
    stock, options = Stock.of(3, None, None, None), ShelfSettings(rho=1.0, capacity=1, dim=1)
    asked = [{"candidates": [place % 3]} if place % 2 else {"exclude": [0, 1]} for place in range(MANY)]
    contexts = [visitor_context(options, stock, features=np.ones((3, 1)), **each) for each in asked]  # type: ignore[arg-type]
    found = decide(["uniform"] * len(contexts), contexts, released(np.random.default_rng(0), 1), COINS.of(SLOTS))
    assert [each.items.tolist() for each in found] == [[place % 3] if place % 2 else [2] for place in range(MANY)]


def test_nobody_to_decide_for_is_no_decision() -> None:
    """An empty group is decided at once."""
    assert decide([], [], released(np.random.default_rng(0), 1), COINS.of([])) == []
