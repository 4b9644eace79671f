"""The estimator: the numbers of the fits it stands for, scikit-learn's contracts, and what it refuses."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from quietshelf import Shelf, choice
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray, IntArray
from quietshelf.privacy.accounting import DELTA, Ledger, Promise, epsilon_of, together
from quietshelf.research.estimators import ChoiceModel, CollinearFeatures, ScalesNotDeclared, from_long

TASTES = np.array([-0.5, -0.8, 0.6])
"""Of a 1, of price per 40 above 120, of rating."""
DECLARED: dict[str, Any] = {"features": ["price", "rating"], "scales": {"price": (120, 40), "rating": 1}, "capacity": 4}


def rounds(count: int, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Rounds of up to four offered places, of which each but the first is empty with probability 0.2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 4, 2)) * [40.0, 1.0] + [120.0, 0.0]
    empty = rng.random((count, 4)) < [0.0, 0.2, 0.2, 0.2]
    utility = np.where(empty, -np.inf, TASTES[0] + (X - [120, 0]) / [40, 1] @ TASTES[1:])
    X[empty] = np.nan
    y = np.argmax(np.pad(utility, ((0, 0), (1, 0))) + rng.gumbel(size=(count, 5)), axis=1) - 1
    return X, y


def promise_of(model: ChoiceModel) -> Promise:
    assert model.privacy_ is not None
    return model.privacy_


def ledger_of(model: ChoiceModel) -> Ledger:
    assert model.ledger_ is not None
    return model.ledger_


def test_exact_fit_is_that_of_the_library() -> None:
    """The same tastes, errors and likelihood as `quietshelf.choice.fit` on features in declared units."""
    X, y = rounds(2000)
    model = ChoiceModel(**DECLARED).fit(X, y)
    offered = ~np.isnan(X[..., 0])
    units = np.where(offered[..., None], (X - [120, 0]) / [40, 1], 0.0)
    x = feature_map("item").dense(np.zeros((len(X), 0)), units) * offered[..., None]
    found = choice.fit(x, y, offered)
    assert np.allclose(model.coef_, found.theta, atol=1e-8)
    assert np.allclose(model.standard_errors_, found.standard_errors)
    assert model.score(X, y) == pytest.approx(float(found.log_likelihood) / len(y))
    assert model.feature_names_out_ == ["intercept", "price", "rating"]
    assert model.privacy_ is None


def test_private_fit_finds_tastes_within_its_errors_and_says_what_it_cost() -> None:
    """Three coefficients, each within six standard errors: a false alarm has a chance of 1e-8."""
    X, y = rounds(5000)
    model = ChoiceModel(rho=2.0, **DECLARED).fit(X, y)
    assert (np.abs(model.coef_ - TASTES) < 6 * model.standard_errors_).all()
    assert (model.standard_errors_ < 0.2).all()
    assert promise_of(model).rho == pytest.approx(2.0)
    assert promise_of(model).epsilon == epsilon_of(promise_of(model).rho, DELTA)
    assert (promise_of(model).unit, promise_of(model).budget) == ("visit", None)


def test_every_private_fit_is_new_and_costs_again() -> None:
    """Noise has no seed; ledgers of two fits add up."""
    X, y = rounds(500)
    model = ChoiceModel(rho=1.0, **DECLARED)
    first, ledger = model.fit(X, y).coef_, ledger_of(model)
    assert not np.array_equal(first, model.fit(X, y).coef_)
    assert together(ledger, ledger_of(model)) == pytest.approx(2.0)
    assert "random_state" not in model.get_params()


def test_groups_are_persons_whose_first_round_counts() -> None:
    """Whatever else they did is not looked at: later rounds may hold anything, and the same noise gives the same."""
    X, y = rounds(600)
    who = np.array([f"p{number % 300}" for number in range(600)])
    model = ChoiceModel(rho=1e6, **DECLARED)  # next to no noise
    both, first = model.fit(X, y, groups=who).coef_, model.fit(X[:300], y[:300], groups=who[:300]).coef_
    assert np.allclose(both, first, atol=0.01)
    assert promise_of(model).unit == "person"
    assert not np.allclose(both, model.fit(X, y).coef_, atol=0.01)


def test_probabilities_are_those_of_the_model() -> None:
    """They add up to one, are zero where nothing is offered, and the likeliest is predicted."""
    X, y = rounds(400)
    model = ChoiceModel(**DECLARED).fit(X, y)
    share = model.predict_proba(X)
    assert share.shape == (400, 5)
    assert model.classes_.tolist() == [-1, 0, 1, 2, 3]
    assert np.allclose(share.sum(axis=1), 1.0)
    assert (share[:, 1:][np.isnan(X[..., 0])] == 0).all()
    assert np.array_equal(model.predict(X), model.classes_[share.argmax(axis=1)])
    assert model.score(X, y) == pytest.approx(np.log(share[np.arange(400), y + 1]).mean())


def test_visitor_columns_meet_items_as_the_map_says() -> None:
    """Named products; a visitor who changes within a round is refused, by the round."""
    X, y = rounds(300)
    age = np.broadcast_to(np.random.default_rng(1).normal(size=(300, 1, 1)), (300, 4, 1))
    wide = np.where(np.isnan(X[..., :1]), np.nan, np.concatenate([X / [40, 1], age], axis=-1))
    model = ChoiceModel(features=["price", "rating", "age"], visitor=["age"], feature_map="full").fit(wide, y)
    assert model.feature_names_out_ == ["intercept", "price", "rating", "age", "age:price", "age:rating"]
    wide[7, 0, 2] += 1
    with pytest.raises(ValueError, match=r"columns of the visitor must be equal in all places, got round=\[7\]"):
        model.fit(wide, y)


def test_persons_stay_apart() -> None:
    """Ids that end in a NUL, or differ by it; groups as floats, or missing, are refused."""
    X, y = rounds(3)
    model = ChoiceModel(rho=1.0, **DECLARED)
    who = ["a", "a\0", "b"]
    table = {"round": [1, 2, 3], "chosen": [0, 0, 0], "price": [1, 2, 3], "who": who}
    found = from_long(table, round="round", chosen="chosen", features=["price"], person="who").groups
    assert found is not None
    assert found.tolist() == who
    assert promise_of(model.fit(X, y, groups=found)).unit == "person"
    wrong: list[Any] = [[1.0, 2.0, 3.0], [1, np.nan, 2], np.array([1.0, 1.0, np.nan]), ["1", 1, 2], [None, "a", "b"]]
    for groups in wrong:
        with pytest.raises(ValueError, match=r"groups must be all text or all whole numbers"):
            model.fit(X, y, groups=groups)


def test_a_private_fit_becomes_a_prior() -> None:
    """With names, units and cost, even if the estimator is changed later; an exact fit has none."""
    X, y = rounds(2000)
    model = ChoiceModel(rho=2.0, **DECLARED).fit(X, y, groups=np.arange(2000))
    prior = model.set_params(scales=None).to_prior()
    np.testing.assert_array_equal(prior.theta, model.coef_)
    np.testing.assert_allclose(np.sqrt(np.diagonal(np.linalg.inv(prior.precision))), model.standard_errors_)
    assert (prior.names, prior.scales) == (model.feature_names_out_, {"price": (120.0, 40.0), "rating": (0.0, 1.0)})
    assert (prior.rho, prior.unit) == (promise_of(model).rho, "person")
    assert "costs again, and costs add up" in prior.statement
    shelf = Shelf(catalogue=np.eye(4, 2), feature_map="concat", visitor_dim=0, capacity=2, rho=1.0, prior=prior)
    assert shelf.privacy().budget == pytest.approx(3.0)
    with pytest.raises(ValueError, match="a prior must come from a private fit: give rho, got rho=None"):
        ChoiceModel(**DECLARED).fit(X, y).to_prior()


def test_the_promise_of_a_fit_says_that_the_next_one_costs_again() -> None:
    """Nothing refuses it."""
    X, y = rounds(50)
    assert "Every further fit" in promise_of(ChoiceModel(rho=1.0, **DECLARED).fit(X, y)).words


def test_features_that_move_together_are_named() -> None:
    """By an exact fit; a ridge needs no warning, and a private fit does not look."""
    X, y = rounds(300)
    twice: dict[str, Any] = {"features": ["price", "eur"], "scales": [40, 40]}
    both = np.repeat(X[..., :1], 2, axis=-1) * [1, 0.9]
    with pytest.warns(CollinearFeatures, match="price and eur move together: drop one"):
        ChoiceModel(**twice).fit(both, y)
    wishes: list[dict[str, Any]] = [{"ridge": 1.0}, {"rho": 1.0}]
    for options in wishes:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ChoiceModel(**twice, **options).fit(both, y)


def test_scikit_learn_can_copy_search_and_validate_it() -> None:
    """clone, set_params, cross_val_score and GridSearchCV work on rounds as they are."""
    X, y = rounds(300)
    model = ChoiceModel(rho=1.0, **DECLARED)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert repr(copy) == repr(model) != repr(ChoiceModel())
    assert copy.set_params(rho=None).rho is None
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert (cross_val_score(copy, X, y, cv=3) > math.log(1 / 5)).all()
    assert (cross_val_score(copy, X, y, cv=3, params={"groups": np.arange(300)}) > math.log(1 / 5)).all()
    found = GridSearchCV(ChoiceModel(**DECLARED), {"ridge": [0.0, 1e6]}, cv=3).fit(X, y)
    assert found.best_params_ == {"ridge": 0.0}


def test_private_fit_without_scales_warns_and_is_as_private() -> None:
    """What to declare is said; an exact fit needs no scales."""
    X, y = rounds(300)
    with pytest.warns(ScalesNotDeclared, match=r"scales=\{'x0': spread, 'x1': spread\} .* never measured"):
        model = ChoiceModel(rho=1.0).fit(X / [40, 1], y)
    assert promise_of(model).rho == pytest.approx(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChoiceModel().fit(X / [40, 1], y)


def test_separable_rounds_are_told() -> None:
    """No maximiser: a warning, and ridge helps."""
    X, y = np.array([[[1.0]], [[-1.0]]]), np.array([0, -1])
    with pytest.warns(ConvergenceWarning, match="try ridge"):
        ChoiceModel(intercept=False).fit(X, y)
    assert ChoiceModel(intercept=False, ridge=1.0).fit(X, y).coef_[0] > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rho": -1.0}, "rho must be positive and finite, got rho=-1.0"),
        ({"rho": 1.0, "ridge": 1.0}, "ridge is for exact fits, got ridge=1.0, rho=1.0"),
        ({"delta": 1.0}, r"delta must be in \(0, 1\), got delta=1.0"),
        ({"scales": "standard"}, "scales must declare each of price, rating, and nothing else, got scales='standard'"),
        ({"scales": {"price": 40}}, "scales must declare each of price, rating, and nothing else"),
        ({"scales": [40, 1, 1]}, "scales must declare each of price, rating, and nothing else"),
        ({"scales": [40, 0]}, r"scales\['rating'\] must be positive"),
        ({"scales": ["auto", 1]}, r"scales\['price'\] must be an array of numbers"),
        ({"features": ["price"]}, r"features must name each column of X, got features=\['price'\], columns=2"),
        ({"features": ["a", "a"]}, "features must have distinct names"),
        ({"visitor": ["age"]}, r"visitor must be among the columns price, rating, got unknown=\['age'\]"),
        ({"feature_map": "cross"}, "feature_map must be one of item, concat, outer, full"),
    ],
)
def test_wrong_settings_are_refused_at_fit(given: dict[str, Any], message: str) -> None:
    """As scikit-learn wants it: `__init__` checks nothing; the rule and the value."""
    model = ChoiceModel(**{**DECLARED, "rho": 1.0, **given})
    with pytest.raises(ValueError, match=message):
        model.set_params(rho=given.get("rho", 1.0)).fit(*rounds(20))


def test_wrong_rounds_are_refused_with_their_place() -> None:
    """A shape, a half-empty place, an impossible choice, persons of another length."""
    X, y = rounds(20)
    X[3] = 1.0
    half = X.copy()
    half[3, 2, 1] = np.nan
    for given, chosen, groups, message in (
        (X[0], y, None, r"X must have shape \(rounds, places, columns\), got shape=\(4, 2\)"),
        (half, y, None, "NaN in all columns .*, got round=3, place=2, column='rating', value=nan"),
        (X, y + 10, None, "choice must be a position from -1 to 3"),
        (X, y, ["a"], r"groups must have one entry per round, got shape=\(1,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            ChoiceModel(rho=1.0, **DECLARED).fit(given, chosen, groups)


def test_long_table_becomes_rounds() -> None:
    """Rows in any order; rounds of different sizes; persons by round."""
    table = pd.DataFrame(
        {
            "search": ["b", "a", "b", "a", "c"],
            "booked": [False, True, False, False, False],
            "price": [1.0, 2.0, 3.0, 4.0, 5.0],
            "user": [7, 8, 7, 8, 7],
        }
    )
    found = from_long(table, round="search", chosen="booked", features=["price"], person="user")
    assert np.array_equal(found.X[..., 0], [[1.0, 3.0], [2.0, 4.0], [5.0, np.nan]], equal_nan=True)
    assert found.y.tolist() == [-1, 0, -1]
    assert found.groups is not None
    assert found.groups.tolist() == [7, 8, 7]


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("booked", [1, 1, 0], "booked must be true in one row of a round at most, got search='a'"),
        ("booked", [0, 2, 0], r"booked must be 0 or 1, got row=\[1\], value=\[2\]"),
        ("user", [1, 2, 3], "user must be the same in all rows of a round, got search='a'"),
        ("price", ["x", 1, 2], "price must be an array of numbers"),
        ("user", [1.0, 1.0, 2.0], r"user must be all text or all whole numbers, .* got user=1.0 in row 1"),
        ("user", np.array([1, 1, np.nan]), r"user must be all text or all whole numbers, .* got user=.*1.0.* in row 1"),
        ("user", [1, 1, "1"], r"user must be all text or all whole numbers.* got user='1' in row 3"),
        ("user", ["a", "a", None], r"user must be all text or all whole numbers.* got user=None in row 3"),
        ("search", [1.0, 2.0, 3.0], r"search must be all text or all whole numbers.* got search=1.0 in row 1"),
    ],
)
def test_wrong_long_tables_are_refused(column: str, values: list[Any], message: str) -> None:
    """The rule and the round."""
    table = {"search": ["a", "a", "b"], "booked": [0, 1, 0], "price": [1.0, 2.0, 3.0], "user": [1, 1, 2]}
    with pytest.raises(ValueError, match=message):
        from_long({**table, column: values}, round="search", chosen="booked", features=["price"], person="user")
    with pytest.raises(ValueError, match=r"the table must have the column 'stars', got columns="):
        from_long(table, round="search", chosen="booked", features=["stars"])


def test_coefficients_become_a_table() -> None:
    """One row per feature."""
    frame = ChoiceModel(**DECLARED).fit(*rounds(200)).to_pandas()
    assert list(frame.columns) == ["estimate", "standard_error"]
    assert list(frame.index) == ["intercept", "price", "rating"]


def test_without_scikit_learn_the_extra_is_named() -> None:
    """One line that says what to install."""
    code = "import sys; sys.modules['sklearn'] = None; import quietshelf.research.estimators"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = "ModuleNotFoundError: the estimator needs scikit-learn: pip install '.[data]' in a checkout"
    assert found.stderr.strip().endswith(last)
