"""What may be asked of a shelf, and what is refused before anything changes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.serving.shelf.shops import D, K, N, first_batch, run, shop

from quietshelf import Shelf


def test_offers_respect_what_is_asked_of_them() -> None:
    """Candidates, required, excluded, capacity and revenue of one offer."""
    shelf = shop()
    x = np.ones((N, D))
    assert set(shelf.offer(x, candidates=[1, 4, 5]).items) == {1, 4, 5}
    assert 7 in shelf.offer(x, required=[7]).items
    assert not {0, 1} & set(shelf.offer(x, exclude=[0, 1]).items)
    assert len(shelf.offer(x, capacity=1).items) == 1
    revenue = np.full(N, -1.0)
    revenue[3] = 5.0
    assert shelf.offer(x, revenue=revenue).items == (3,)


def test_groups_limit_what_is_shown_together() -> None:
    """At most one item of each brand."""
    shelf = shop(groups=[0, 0, 0, 0, 1, 1, 1, 1], limits=[1, 1])
    items = shelf.offer(np.ones((N, D))).items
    assert len(items) == 2
    assert {item // 4 for item in items} == {0, 1}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"features": np.ones((N, D + 1))}, "features must have shape (..., 8, 2)"),
    ({"features": np.full((N, D), np.nan)}, "features must be finite"),
    ({"features": np.ones((1, N, D))}, "features must be one visitor's, (items, dim), got shape=(1, 8, 2)"),
    ({"features": np.ones((N, D)), "candidates": np.ones((1, N), bool)}, "candidates must be one visitor's, (items,)"),
    ({"features": np.ones((N, D)), "revenue": np.ones((2, N))}, "revenue must be one visitor's, (items,)"),
    ({"person": "\ud800"}, "person must be text that UTF-8 can hold"),
    ({"features": None}, "features of every item must be given with each offer"),
    ({"capacity": 4}, "capacity must be between 1 and the shelf's capacity=3, got capacity=4"),
    ({"capacity": 0}, "capacity must be between 1 and the shelf's capacity=3, got capacity=0"),
    ({"required": [8]}, "required must name items from 0 to 7"),
    ({"required": [0, 1, 2, 3]}, "required must name at most capacity=3 items"),
    ({"required": [0], "exclude": [0]}, "required items must be available"),
    ({"candidates": [1, 1]}, "candidates must name each item at most once"),
    ({"revenue": np.ones(3)}, "revenue must have shape"),
    ({"person": ""}, "person must be a non-empty text"),
    ({"person": 7}, "person must be a non-empty text"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_an_invalid_request_is_not_a_visitor(change: dict[str, Any], message: str) -> None:
    """It raises, takes no slot, releases nothing, and leaves every number as it was."""
    shelf = shop()
    size = first_batch(shelf)
    run(shelf, size)
    arguments: dict[str, Any] = {"features": np.ones((N, D)), **change}
    with pytest.raises(ValueError, match=re.escape(message)):
        shelf.offer(**arguments)
    assert shelf.arrivals == size
    assert shelf.estimate().releases == 0
    assert shelf.offer(np.ones((N, D))).release == 1


@pytest.mark.parametrize("wrong", [None, [], [0.3, 0.4], [[0.3]]])
def test_a_first_visitor_of_the_wrong_length_is_refused_and_changes_nothing(wrong: Any) -> None:
    """The length of visitor features is declared: a mistaken first visitor neither fixes it nor freezes a learner."""
    shelf = shop(catalogue=np.eye(4, 2), feature_map="full", visitor_dim=1, capacity=2)
    with pytest.raises(ValueError, match=r"features must (have length 1, got length=|be one visitor's)"):
        shelf.offer(wrong)
    assert shelf.arrivals == 0
    assert shelf.learner is None
    assert shelf.batches == ()
    shelf.change(0, features=[2.0, 0.0])
    assert len(shelf.offer([0.3]).items) == 2
    assert shelf.learner is not None
    late = shop(catalogue=[[2.0, 0.0], *np.eye(4, 2)[1:]], feature_map="full", visitor_dim=1, capacity=2)
    late.offer([0.3])
    assert late.learner is not None
    np.testing.assert_array_equal(shelf.learner.moments.second, late.learner.moments.second)
    np.testing.assert_array_equal(shelf.batches[0].frozen.coordinates, late.batches[0].frozen.coordinates)


def test_visitors_without_features_are_declared_too() -> None:
    """A map that could use visitor features may be told that there are none."""
    shelf = shop(catalogue=np.eye(4, 2), feature_map="full", visitor_dim=0, capacity=2)
    assert len(shelf.offer([]).items) == len(shelf.offer().items) == 2


LENGTHS: list[tuple[dict[str, Any], str]] = [
    (
        {"feature_map": name},
        f"visitor_dim must be given with feature_map='{name}': write visitor_dim=3 if visitors have three features",
    )
    for name in ("concat", "outer", "full")
] + [
    ({"visitor_scale": None}, "write visitor_dim=3 if visitors have three features"),
    (
        {"visitor_dim": 2, "visitor_scale": [1.0]},
        "visitor_dim must be the length of visitor_scale, 1, got visitor_dim=2",
    ),
    ({"visitor_dim": -1}, "visitor_dim must be a whole number from 0 on, got visitor_dim=-1"),
    ({"visitor_dim": 1.5}, "visitor_dim must be a whole number from 0 on, got visitor_dim=1.5"),
]


@pytest.mark.parametrize(("options", "message"), LENGTHS)
def test_visitor_dim_errors_show_what_to_write(options: dict[str, Any], message: str) -> None:
    """Where the map uses visitor features and nothing declares their length, the refusal is the line to write."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Shelf(catalogue=np.eye(4, 2), capacity=2, rho=1.0, **options)


@pytest.mark.parametrize(
    ("options", "visitor"),
    [
        ({"feature_map": "item"}, []),
        ({"feature_map": "full", "visitor_dim": 3}, [0.1, 0.2, 0.3]),
        ({"feature_map": "full", "visitor_scale": [1.0, 2.0]}, [0.1, 0.2]),
        ({"feature_map": "full", "visitor_scale": None, "visitor_dim": 2}, [0.1, 0.2]),
    ],
)
def test_visitor_dim_may_be_left_out_where_it_is_known(options: dict[str, Any], visitor: list[float]) -> None:
    """A map that uses no visitor features, or a list of scales, one each, says as much."""
    assert len(shop(catalogue=np.eye(4, 2), capacity=2, **options).offer(visitor).items) == 2


def test_enormous_features_are_served_and_contribute_zero() -> None:
    """Finite features whose utilities overflow: an offer all the same, whatever the revenues."""
    shelf = shop(source=Noiseless())
    rng = np.random.default_rng(0)
    for t in range(first_batch(shelf) + 1):
        x = 1e307 * rng.normal(size=(N, D)).clip(-1, 1)
        offer = shelf.offer(x, revenue=rng.random(N) + 0.1)
        assert 0 < len(offer.items) <= K
        assert offer.release == (t == first_batch(shelf))
    assert shelf.learner is not None
    (record,) = shelf.learner.records
    assert not record.score.any()
    np.testing.assert_array_equal(shelf.estimate().theta, 0.0)


def test_senseless_shelves_are_refused() -> None:
    """Rules and values, before anything exists."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"items": 5, "capacity": 2, "rho": 1.0}, "give either items and dim, or a catalogue"),
        ({"items": 5, "dim": 2, "catalogue": np.ones((5, 2)), "capacity": 2, "rho": 1.0}, "give either items and dim"),
        ({"items": 5, "dim": 2, "capacity": 6, "rho": 1.0}, "capacity must be between 1 and items=5, got capacity=6"),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 1.0, "policy": "greedy"}, "policy must be one of quiet, uniform"),
        (
            {"items": 5, "dim": 2, "capacity": 2, "rho": 1.0, "on_no_answer": "gold"},
            "on_no_answer must be one of no-choice, zero",
        ),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 1.0, "groups": [0] * 5}, "groups and limits must be given"),
        ({"items": 0, "dim": 2, "capacity": 2, "rho": 1.0}, "items must be a whole number from 1 on, got items=0"),
        ({"catalogue": np.ones((3, 1)), "capacity": 1, "rho": 1.0, "feature_map": "x"}, "feature_map must be one of"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=re.escape(message)):
            Shelf(**arguments)


def test_what_the_first_visitor_would_stumble_over_is_refused_at_once() -> None:
    """A wrong curvature, prior or scale never reaches a visitor, nor does a map that has nothing to multiply."""
    known: dict[str, Any] = {"items": 5, "dim": 2, "capacity": 2, "rho": 1.0}
    for options, message in (
        ({"curvature": np.eye(3)}, "curvature must have shape (2, 2), got shape=(3, 3)"),
        ({"curvature": [[1.0, 2.0], [0.0, 1.0]]}, "curvature must be symmetric"),
        ({"prior": (np.zeros(2), -np.eye(2))}, "prior precision must be positive definite"),
        ({"visitor_scale": -1.0}, "visitor_scale must be positive, got visitor_scale=-1.0"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            Shelf(**known, **options)
    with pytest.raises(ValueError, match=re.escape("curvature must have shape (5, 5), got shape=(2, 2)")):
        shop(catalogue=np.ones((4, 2)), feature_map="concat", visitor_dim=2, curvature=np.eye(2))
    with pytest.raises(ValueError, match="features must not be empty for the map outer"):
        shop(catalogue=np.ones((4, 2)), feature_map="outer", visitor_dim=0, capacity=2)
