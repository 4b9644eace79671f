"""The ledger: composition against brute force, refusal, and what it keeps on disk."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.privacy.accounting import (
    HISTORY,
    Assumption,
    BatchOrHistory,
    BudgetExceeded,
    Event,
    Ledger,
    gaussian,
    noise_for,
    together,
)


def cost(rho: float, batch: BatchOrHistory, nominal_rho: float | None = None) -> Event:
    """An event of a given cost."""
    return Event(
        name="score",
        batch=batch,
        sensitivity=2.0,
        noise=1.0,
        rho=rho,
        assumption=Assumption.REAL_ARITHMETIC,
        nominal_rho=nominal_rho,
    )


def person(visits: int, *events: Event) -> Ledger:
    """A ledger that protects persons."""
    return Ledger(visits=visits, unit="person", events=events)


places = st.one_of(st.just(HISTORY), st.integers(0, 5))
event_lists = st.lists(st.builds(cost, st.floats(0, 10), places), max_size=10)


@given(events=event_lists, visits=st.integers(1, 4))
@settings(deadline=None, max_examples=300)
def test_ledger_is_the_dearest_of_all_possible_visitors(events: list[Event], visits: int) -> None:
    """Brute force over everybody who comes at most so often: nobody pays more, and somebody pays exactly that.

    A visitor of a set of batches pays each event of those, and each event on the history with all visits at once.
    """
    ledger = person(visits, *events)
    batches = range(6)

    def pays(visited: tuple[int, ...], times: int) -> Fraction:
        history = sum((Fraction(event.rho) for event in events if event.batch == HISTORY), Fraction(0))
        own = sum((Fraction(event.rho) for event in events if event.batch in visited), Fraction(0))
        return times**2 * history + own

    everybody = [
        pays(visited, times) for times in range(1, visits + 1) for visited in itertools.combinations(batches, times)
    ]
    assert all(ledger.rho >= paid for paid in everybody)
    assert ledger.rho == pytest.approx(float(max(everybody)), rel=1e-15)


def test_ledger_takes_the_maximum_over_disjoint_batches() -> None:
    """At one visit each, only the dearest batch counts; events of the same batch add up."""
    events = (cost(0.5, 0), cost(0.25, 0), cost(0.5, 1), cost(0.125, 2))
    assert person(1, *events).rho == Ledger(events=events).rho == 0.75


def test_ledger_sums_the_dearest_batches_up_to_the_cap() -> None:
    """At cap 2 the two dearest batches add up; a cap beyond the number of batches sums them all."""
    events = (cost(0.5, 0), cost(0.25, 1), cost(0.125, 2))
    assert person(2, *events).rho == 0.75
    assert person(9, *events).rho == 0.875


def test_ledger_charges_the_whole_history_to_everybody() -> None:
    """Events on the history add to the dearest batch, and k visits pay them k² times (group privacy)."""
    events = (cost(0.5, 0), cost(0.25, HISTORY), cost(0.125, HISTORY))
    assert Ledger(events=events).rho == 0.875
    assert person(3, *events).rho == 0.5 + 9 * 0.375


def test_group_price_of_history_is_that_of_the_multiplied_sensitivity() -> None:
    """Three visits move a Gaussian release three times as far: the k² of the ledger is exact there."""
    one = gaussian("x", sensitivity=1.0, noise=4.0, batch=HISTORY, assumption=Assumption.EXACT_GRID)
    three = gaussian("x", sensitivity=3.0, noise=4.0, batch=HISTORY, assumption=Assumption.EXACT_GRID)
    assert person(3, one).rho == Ledger(events=(three,)).rho


@given(events=event_lists, more=event_lists, visits=st.integers(1, 4))
@settings(deadline=None)
def test_ledger_never_falls_and_does_not_mind_the_order(events: list[Event], more: list[Event], visits: int) -> None:
    """Each release adds or leaves the total; the total depends on what was released, not on when."""
    before = person(visits, *events)
    assert before.spend(*more).rho >= before.rho
    assert before.spend(*more).rho == person(visits, *more, *events).rho == before.would_cost(*more)


def test_empty_ledger_costs_nothing() -> None:
    """Nothing released, nothing spent."""
    assert Ledger().rho == Ledger().nominal_rho == Ledger(visits=3, unit="person").rho == together() == 0.0


@pytest.mark.parametrize("batch", [0, HISTORY])
def test_one_unknown_event_makes_the_ledger_infinite(batch: BatchOrHistory) -> None:
    """Unknown is infinite, wherever it stands and however small the rest."""
    ledger = Ledger().spend(cost(0.5, 1), cost(math.nan, batch))
    assert ledger.rho == math.inf
    assert ledger.would_cost(cost(1e308, HISTORY), cost(1e308, HISTORY)) == math.inf


def test_sums_beyond_the_floats_are_infinite() -> None:
    """An overflow is an infinite cost, not an error."""
    assert Ledger(events=(cost(1.7e308, HISTORY), cost(1.7e308, HISTORY))).rho == math.inf


def test_nominal_cost_composes_beside_the_proven_one() -> None:
    """Claims replace proven figures where there are some, and are composed in the same way."""
    ledger = Ledger(events=(cost(1.0, HISTORY, nominal_rho=0.125), cost(0.5, 0), cost(math.inf, 1, nominal_rho=0.25)))
    assert ledger.rho == math.inf
    assert ledger.nominal_rho == 0.125 + 0.5
    assert Ledger(events=(cost(0.5, 0),)).nominal_rho == 0.5


def test_spend_refuses_and_leaves_everything_as_it_was() -> None:
    """Several events are spent together or not at all, even if the first of them would fit."""
    ledger = Ledger(budget=1.0).spend(cost(0.5, 0))
    with pytest.raises(BudgetExceeded, match=r"rho must stay within the budget=1.0, got rho=1.25"):
        ledger.spend(cost(0.25, 0), cost(0.5, 0))
    assert ledger == Ledger(budget=1.0, events=(cost(0.5, 0),))
    assert ledger.rho == 0.5
    assert ledger.would_cost(cost(0.25, 0), cost(0.5, 0)) == 1.25
    assert ledger.spend(cost(0.25, 0)).rho == 0.75


def test_spend_refuses_what_is_infinite() -> None:
    """No budget covers a release without a bound."""
    with pytest.raises(BudgetExceeded):
        Ledger(budget=1e300).spend(cost(math.inf, 0))


def test_nominal_cost_does_not_loosen_the_budget() -> None:
    """A claim below the proven cost buys nothing."""
    with pytest.raises(BudgetExceeded):
        Ledger(budget=0.5).spend(cost(1.0, HISTORY, nominal_rho=0.1))


@given(parts=st.integers(1, 300), rho=st.floats(1e-6, 1e3))
@settings(deadline=None, max_examples=50)
def test_budget_shared_in_equal_parts_is_spent_to_the_end_and_no_further(parts: int, rho: float) -> None:
    """Rounding of the parts never blocks the last one, and one more of them is refused."""
    noise = 2.0 / math.sqrt(2 * rho / parts)
    part = gaussian("x", sensitivity=2.0, noise=noise, batch=HISTORY, assumption=Assumption.EXACT_GRID)
    ledger = Ledger(budget=rho).spend(*[part] * parts)
    assert rho * (1 - 1e-12) <= ledger.rho <= rho * (1 + 1e-12)
    with pytest.raises(BudgetExceeded):
        ledger.spend(part)


def test_budget_is_not_overspent_beyond_rounding() -> None:
    """An excess of 1e-11 of the budget, a hundredth of what would matter, is already refused."""
    with pytest.raises(BudgetExceeded):
        Ledger(budget=1.0).spend(cost(1.0 + 1e-11, 0))


def test_calibrated_batches_cost_the_budget_for_ever() -> None:
    """A long run of batches, each calibrated to rho / visits, stays at rho in all for capped persons."""
    noise = noise_for(2.0, 1.0 / 4)
    ledger = Ledger(budget=1.0, visits=4, unit="person")
    for batch in range(200):
        ledger = ledger.spend(
            gaussian("score", sensitivity=2.0, noise=noise, batch=batch, assumption=Assumption.EXACT_GRID)
        )
    assert ledger.rho == pytest.approx(1.0, rel=1e-15)
    assert len(ledger.events) == 200


def test_together_adds_the_promises_of_several_shelves() -> None:
    """Somebody in two shelves pays in both; one without bound spoils the sum."""
    one, other = Ledger(events=(cost(0.5, 0), cost(0.25, 1))), person(2, cost(0.5, 0), cost(0.25, 1))
    assert together(one, other) == 1.25
    assert together(one, Ledger(events=(cost(math.inf, 0),))) == math.inf
    assert together(*[Ledger(events=(cost(0.1, 0),))] * 10) >= 10 * Fraction(0.1)


def test_ledger_is_frozen() -> None:
    """Spending returns a new ledger; the old one cannot be altered."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Ledger().budget = 5.0  # type: ignore[misc]


@given(events=event_lists, visits=st.integers(1, 4), budget=st.one_of(st.none(), st.floats(1e4, 1e9)))
@settings(deadline=None)
def test_ledger_survives_json(events: list[Event], visits: int, budget: float | None) -> None:
    """What is read back is equal to what was written, and costs the same."""
    before = Ledger(budget=budget, visits=visits, unit="person", events=tuple(events))
    after = Ledger.from_json(before.to_json())
    assert after == before
    assert after.rho == before.rho


def test_infinite_ledger_survives_strict_json() -> None:
    """Infinity is written as a word, so that every JSON reader can read it."""
    before = Ledger(events=(cost(math.inf, HISTORY, nominal_rho=0.1),))
    assert json.loads(before.to_json(), parse_constant=pytest.fail)["events"][0]["rho"] == "infinity"
    assert Ledger.from_json(before.to_json()) == before


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"schema": 2}, "schema must be 1, got schema=2"),
        ({"schema": None}, "schema must be 1"),
        ({"schema": True}, "schema must be 1"),
        ({"schema": "1"}, "schema must be 1"),
        ({"extra": 0}, "a ledger must have the fields"),
        ({"events": {}}, "events must be a list"),
        ({"events": [3]}, "an event must be a mapping"),
        ({"events": [{**cost(0.5, 0).to_dict(), "rho": -0.5}]}, "rho must be at least zero, got rho=-0.5"),
        ({"visits": 0}, "visits must be a whole number from 1 on"),
        ({"visits": 2.0}, "visits must be a whole number from 1 on"),
        ({"visits": 2}, "visits must be 1 without person ids"),
        ({"unit": "household"}, "unit must be visit or person"),
        ({"budget": -1.0}, "budget must be positive and finite"),
        ({"budget": 0.25}, "rho must stay within the budget"),
        ({"budget": "much"}, "budget must be positive and finite"),
    ],
)
def test_ledger_refuses_what_it_does_not_understand(change: dict[str, Any], rule: str) -> None:
    """Unknown schemas, missing or unknown fields, values out of range and overspent ledgers are not read."""
    record = {**Ledger(budget=1.0, events=(cost(0.5, 0),)).to_dict(), **change}
    with pytest.raises(ValueError, match=rule):
        Ledger.from_json(json.dumps(record))


@pytest.mark.parametrize("missing", ["schema", "budget", "visits", "unit", "events"])
def test_ledger_refuses_a_record_with_a_field_missing(missing: str) -> None:
    """No field has a default on disk."""
    record = Ledger().to_dict()
    del record[missing]
    with pytest.raises(ValueError, match="must"):
        Ledger.from_dict(record)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": NaN}', "[" * 100_000])
def test_ledger_refuses_what_is_not_a_json_record(text: str) -> None:
    """Broken text is a ``ValueError`` that says so."""
    with pytest.raises(ValueError, match="a ledger must be"):
        Ledger.from_json(text)


def test_ledger_refuses_what_is_not_an_event() -> None:
    """Only events can be spent."""
    with pytest.raises(ValueError, match="events must be of type Event"):
        Ledger().spend(0.5)  # type: ignore[arg-type]
