"""A prior as a file: what it holds, what it refuses, and what using it costs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.curation.priors import not_private, prior

from quietshelf.curation.ledger_unit import addressed
from quietshelf.curation.prior_file import FIELDS, PriorFile
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.accounting import Assumption, Ledger, gaussian
from quietshelf.privacy.release.geometry import scaled_curvature
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.private_newton import private_newton
from quietshelf.privacy.statistics import ObservedChoice


def test_a_prior_comes_back_to_the_bit_and_equal_priors_give_equal_files(tmp_path: Path) -> None:
    """No date, no order of making: the same content is the same file."""
    prior().save(tmp_path / "one.json")
    scales = {"price": (120.0, 40.0), "visitor_age": (40.0, 15.0)}  # in another order
    prior(scales=scales).save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    found = PriorFile.load(tmp_path / "one.json")
    np.testing.assert_array_equal(found.theta, prior().theta)
    np.testing.assert_array_equal(found.precision, prior().precision)
    assert found.to_dict() == prior().to_dict()
    assert tuple(found.to_dict()) == FIELDS
    assert found.names == ["intercept", "visitor_age", "price"]


def test_a_prior_that_is_not_private_says_so_and_is_refused_without_a_flag(tmp_path: Path) -> None:
    """Stated clearly in the file; loading it needs explicit acceptance."""
    not_private().save(tmp_path / "prior.json")
    record = json.loads((tmp_path / "prior.json").read_text())
    assert record["private"] is False
    assert record["cost"]["rho"] == "infinity"
    with pytest.raises(ValueError, match=r"this prior is not private.*allow_not_private=True"):
        PriorFile.load(tmp_path / "prior.json")
    assert PriorFile.load(tmp_path / "prior.json", allow_not_private=True).rho == math.inf


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"kind": "shelf"}, "a prior must be of the kind 'quietshelf prior', got kind='shelf'"),
        ({"version": 2}, "version of a prior must be 1, got version=2"),
        ({"more": 1}, r"a prior must have the fields .* got differ=\['more'\]"),
        ({"private": False}, "private must be true exactly if rho is finite, got private=False"),
        ({"theta": [1.0, 2.0]}, r"theta of a prior must have one number per feature, 3, got shape=\(2,\)"),
        ({"theta": [1.0, math.nan, 2.0]}, r"theta of a prior must be finite, got theta of a prior\[1\]=nan"),
        ({"precision": [[1.0]]}, r"precision of a prior must be \(3, 3\), got shape=\(1, 1\)"),
        ({"intercept": "no"}, "intercept of a prior must be true or false, got intercept='no'"),
        ({"names": ["intercept", "price", "visitor_age"]}, "names must be those of the map concat"),
        ({"feature_map": "cross"}, "feature_map must be one of item, concat, outer, full, got feature_map='cross'"),
        ({"scales": {"price": [0, 1]}}, r"scales of a prior must be of its features.*differ=\['visitor_age'\]"),
        ({"scales": {"price": [0, 0], "visitor_age": [0, 1]}}, "spread of price must be positive"),
        ({"cost": {"rho": 1.0}}, "cost of a prior must have rho, unit and statement"),
        ({"cost": {"rho": 1.0, "unit": "row", "statement": ""}}, "unit must be one of visit, person, got unit='row'"),
        ({"item_names": "price"}, "item_names of a prior must be a list of names, got item_names='price'"),
    ],
)
def test_a_malformed_prior_is_refused_by_rule_and_value(changes: dict[str, Any], rule: str) -> None:
    """Whatever a hand or another version may have altered."""
    with pytest.raises(ValueError, match=rule):
        PriorFile.from_dict({**prior().to_dict(), **changes})


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    """Missing, or not JSON, or not an object."""
    with pytest.raises(ValueError, match="the prior file must exist, got path="):
        PriorFile.load(tmp_path / "none.json")
    for text, rule in (
        ("theta", "a prior file must be JSON"),
        ("[1]", "a prior must be a JSON object, got type='list'"),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match=rule):
            PriorFile.load(tmp_path / "bad.json")


def spent(batches: int, **settings: Any) -> Ledger:
    """A ledger with this many releases of rho = 1 each."""
    ledger = Ledger(**settings)
    for batch in range(batches):
        exact = Assumption.EXACT_GRID
        ledger = ledger.spend(gaussian("pair", sensitivity=2**0.5, noise=1.0, batch=batch, assumption=exact))
    return ledger


def with_log(ledger: Ledger, log: PriorFile, **options: Any) -> Ledger:
    """The ledger as stated if every visitor was named."""
    named = {"arrivals": 5, "anonymous": 0, "history_incomplete": None, "rho_per_release": 1.0}
    return addressed(ledger, **{**named, **options}, log=log)


def test_the_cost_of_a_log_is_paid_once_on_top_of_the_shelfs() -> None:
    """By somebody who is in the log and comes as often as counts: 0.75 + 2, not 0.75 times visits squared."""
    found = with_log(spent(5, visits=2, unit="person", budget=2.0 + 1e-9), prior())
    assert found.rho == pytest.approx(2.75)
    assert (found.unit, found.visits) == ("person", 2)
    assert found.budget == pytest.approx(2.75)
    assert Ledger.from_json(found.to_json()) == found
    words = found.promise(delta=1e-6).words
    assert "whose fit cost rho = 0.75 to each person" in words
    assert "rho = 2.75" in words.replace("2.751", "2.75")


def test_before_the_first_release_the_log_is_what_it_costs() -> None:
    """Offers rest on the log from the first visitor on."""
    found = with_log(spent(0, budget=1.0), prior(), arrivals=0)
    assert found.rho == 0.75
    assert "Nothing has been released" not in found.promise(delta=1e-6).words


@pytest.mark.parametrize("visits", [1, 3])
def test_a_log_without_persons_leaves_a_promise_to_visits(visits: int) -> None:
    """One person may have any number of rows in it: nothing finite can be said to persons."""
    found = with_log(spent(4, visits=visits, unit="person"), prior(unit="visit"))
    assert (found.unit, found.visits) == ("visit", 1)
    assert found.rho == pytest.approx(1.75)
    assert "told no persons apart" in found.promise(delta=1e-6).words


def test_a_log_that_promises_nothing_makes_the_shelf_promise_nothing() -> None:
    """Infinite, and in words that name it."""
    found = with_log(spent(1, budget=1.0 + 1e-9), not_private())
    assert found.rho == math.inf
    assert "No privacy is promised" in found.promise(delta=1e-6).words
    assert "log behind the prior" in found.promise(delta=1e-6).words


def test_a_restored_shelf_still_counts_its_log() -> None:
    """Releases that may be missing come first, then the log."""
    found = with_log(spent(1), prior(), history_incomplete="why")
    assert found.unit == "visit"
    assert found.rho == pytest.approx(1.75)


def test_errors_are_as_large_as_the_precision_says() -> None:
    """Squared errors over those claimed, 20 fits of 6 tastes: 1 give or take 0.13 if all is right."""
    found, kind = [], feature_map("item")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = np.concatenate([np.ones((1000, 5, 1)), rng.normal(size=(1000, 5, 5))], axis=2)
        tastes = np.append(-2.0, rng.normal(size=5) / 5**0.5)
        noisy = np.append(rows @ tastes, np.zeros((1000, 1)), axis=1) + rng.gumbel(size=(1000, 6))
        choice = np.where(noisy.argmax(axis=1) == 5, -1, noisy.argmax(axis=1))
        guess = scaled_curvature(kind, visitor_scale=np.ones(0), item_scale=np.ones(5), capacity=5)
        shown = ObservedChoice(rows, np.ones((1000, 5), dtype=bool), choice)
        fitted = private_newton(shown, rho=1.0, curvature=guess, source=Simulated(rng))
        made = PriorFile.of(fitted, kind, item_names=tuple("abcde"))
        found.append((made.theta - tastes) @ made.precision @ (made.theta - tastes) / 6)
    assert 0.55 < np.mean(found) < 1.5
    assert made.unit == "visit"
    assert made.rho == pytest.approx(1.0)
    assert "rho = 1 (zCDP)" in made.statement
