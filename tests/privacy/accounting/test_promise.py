"""The promise: the figures and the sentences a privacy officer reads."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietshelf.privacy.accounting import HISTORY, Assumption, Event, Ledger, epsilon_of, gaussian
from quietshelf.privacy.accounting.figures import TOLERANCE, rounded_down, rounded_up

SCORE = gaussian("score", sensitivity=2.0, noise=2.0, batch=0, assumption=Assumption.EXACT_GRID)
TREE = gaussian(
    "gram tree",
    sensitivity=2.0,
    noise=2.0,
    batch=HISTORY,
    assumption=Assumption.REAL_ARITHMETIC,
    nominal_rho=0.0625,
)
UNBOUNDED = Event(
    name="private fit",
    batch=HISTORY,
    sensitivity=math.inf,
    noise=3.0,
    rho=math.nan,
    assumption=Assumption.REAL_ARITHMETIC,
    nominal_rho=0.25,
)


def test_promise_carries_the_figures_of_the_ledger() -> None:
    """Rho, epsilon by the tight conversion, delta and the events behind them."""
    promise = Ledger(budget=1.0, visits=2, unit="person").spend(SCORE).promise(delta=1e-6)
    assert (promise.rho, promise.delta, promise.events) == (0.5, 1e-6, (SCORE,))
    assert promise.epsilon == epsilon_of(0.5, 1e-6)


def test_words_name_the_person_the_cap_and_the_figures() -> None:
    """With person ids the promise is to persons, with their cap, the figures and the assumption."""
    words = str(Ledger(budget=1.0, visits=2, unit="person").spend(SCORE).promise(delta=1e-6))
    for said in (
        "each person (at most 2 visits counted)",
        "joint differential privacy",
        "everyone else sees",
        "rho = 0.5",
        f"epsilon = {rounded_up(epsilon_of(0.5, 1e-6))} at",
        "delta = 1e-06",
        "the operator, who sees raw data, has to be trusted",
        "No more than rho = 1 will ever be spent",
        "score: exact discrete Gaussian on a public grid",
    ):
        assert said in words
    assert "each visit" not in words
    assert "Nominal" not in words


@given(value=st.floats(1e-9, 1e9))
def test_printed_figures_err_on_the_safe_side(value: float) -> None:
    """What is promised is never printed too small, noise and what an attack has shown never too large."""
    room = 2 * TOLERANCE * value
    assert float(rounded_down(value)) - room <= value <= float(rounded_up(value)) + room
    assert float(rounded_up(value)) <= 1.0011 * value
    assert float(rounded_down(value)) >= 0.9989 * value


def test_words_without_person_ids_say_so() -> None:
    """Without ids every statement says that it is about visits."""
    assert "each visit, not each person" in str(Ledger().promise(delta=1e-6))
    words = str(Ledger().spend(SCORE).promise(delta=1e-6))
    assert "each visit, not each person" in words
    assert "Somebody who comes more than once is promised less" in words
    assert "(at most 1 visit counted)" in str(Ledger(unit="person").spend(SCORE).promise(delta=1e-6))


def test_words_show_the_nominal_figure_only_beside_the_proven_one() -> None:
    """A claim that differs is shown with its own epsilon, and the proven figure comes first."""
    promise = Ledger().spend(SCORE, TREE).promise(delta=1e-6)
    words = promise.words
    assert (promise.rho, promise.nominal_rho) == (1.0, 0.5625)
    assert words.index("rho = 1 ") < words.index("rho = 0.5625")
    assert "the proven rho is 1," in words
    assert f"epsilon = {rounded_up(epsilon_of(0.5625, 1e-6))};" in words
    assert "score: exact discrete Gaussian on a public grid" in words
    assert "gram tree: continuous Gaussian; real arithmetic assumed" in words


def test_words_promise_nothing_where_the_cost_is_infinite() -> None:
    """An infinite ledger says first that nothing is promised, then why, then what was claimed."""
    promise = Ledger().spend(SCORE, UNBOUNDED).promise(delta=1e-6)
    assert promise.epsilon == promise.rho == math.inf
    assert promise.words.startswith("No privacy is promised: ")
    assert "(private fit)" in promise.words
    assert "rho = 0.75" in promise.words
    assert "the proven rho is infinite" in promise.words
    assert "joint differential privacy" not in promise.words


def test_words_do_not_speak_of_noise_that_was_not_added() -> None:
    """An exact release has no noise to describe."""
    exact = gaussian("score", sensitivity=2.0, noise=0.0, batch=0, assumption=Assumption.EXACT_GRID)
    words = Ledger().spend(exact).promise(delta=1e-6).words
    assert words == "No privacy is promised: no finite bound is proven for what was released (score)."


def test_words_of_an_empty_ledger_say_that_nothing_was_released() -> None:
    """Before the first release there is nothing to protect against."""
    promise = Ledger(budget=0.3, unit="person").promise(delta=1e-6)
    assert promise.epsilon == 0.0
    assert promise.words.startswith("Nothing has been released yet: rho = 0 so far")
    assert "No more than rho = 0.3" in promise.words


def test_promise_as_data_is_strict_json() -> None:
    """The machine-readable twin holds the same figures, with infinity as a word, and the words."""
    promise = Ledger(budget=None).spend(UNBOUNDED).promise(delta=1e-6)
    record = json.loads(json.dumps(promise.to_dict(), allow_nan=False))
    assert (record["rho"], record["epsilon"], record["delta"]) == ("infinity", "infinity", 1e-6)
    assert record["nominal_rho"] == 0.25
    assert record["words"] == promise.words
    assert Event.from_dict(record["events"][0]) == UNBOUNDED


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_promise_refuses_a_delta_outside_the_unit_interval(delta: float) -> None:
    """Even an empty ledger and an infinite one do."""
    for ledger in (Ledger(), Ledger().spend(UNBOUNDED)):
        with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
            ledger.promise(delta=delta)
