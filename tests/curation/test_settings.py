"""What a shelf is told once, checked before anybody comes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless

from quietshelf.curation.outlook import start
from quietshelf.curation.settings import Public, ShelfSettings, declared_dim
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.maps import MAPS, feature_map

TERMS: dict[str, Any] = {"rho": 1.0, "capacity": 2}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_uses_visitors_needs_their_length(name: str) -> None:
    """The refusal shows the line to write; a map of items alone needs none."""
    if any(block.visitor for block in feature_map(name).blocks):
        line = (
            f"visitor_dim must be given with feature_map='{name}': write visitor_dim=3 if visitors have three features"
        )
        for scale in (None, 1.0, np.asarray(2.0)):
            with pytest.raises(ValueError, match=re.escape(line)):
                declared_dim(name, None, scale)
    else:
        assert declared_dim(name, None, 1.0) == declared_dim(name, None, None) == 0
    assert declared_dim(name, 3, 1.0) == declared_dim(name, None, [1.0, 2.0, 3.0]) == declared_dim(name, 3, None) == 3
    assert declared_dim(name, 0, 1.0) == 0


def test_lengths_that_contradict_each_other_are_refused() -> None:
    """A list of scales has one for each feature."""
    with pytest.raises(ValueError, match="visitor_dim must be the length of visitor_scale, 2, got visitor_dim=3"):
        declared_dim("full", 3, [1.0, 2.0])
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match="visitor_dim must be a whole number from 0 on"):
            declared_dim("full", wrong, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"visits": 0}, "visits must be a whole number from 1 on, got visits=0"),
        ({"window": 0.0}, "window must be positive and finite, got window=0.0"),
        ({"capacity": 0}, "capacity must be a whole number from 1 on, got capacity=0"),
        ({"dim": 0}, "dim must be a whole number from 1 on, got dim=0"),
        ({"visitor_dim": -1}, "visitor_dim must be a whole number from 0 on, got visitor_dim=-1"),
        ({"feature_map": "square"}, "feature_map must be one of"),
        ({"policy": "greedy"}, "policy must be one of quiet, uniform"),
        ({"on_no_answer": "gold"}, "on_no_answer must be one of no-choice, zero"),
        ({"max_batch": 0}, "max_batch must be a whole number from 1 on, got max_batch=0"),
        ({"conversion": 1.5}, "conversion must be a share of visitors, above 0 and below 1, got conversion=1.5"),
        ({"forgetting": 0.0}, "forgetting must be in (0, 1], got forgetting=0.0"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], message: str) -> None:
    """Each rule names the value that breaks it."""
    with pytest.raises(ValueError, match=re.escape(message)):
        ShelfSettings(**{**TERMS, **options})


def test_settings_come_back_from_plain_data() -> None:
    """For files and tables."""
    given = ShelfSettings(**TERMS, visits=3, window=2.5, feature_map="full", visitor_dim=2, max_batch=7, conversion=0.1)
    assert ShelfSettings(**given.to_dict()) == given


def test_what_is_declared_reaches_the_learner() -> None:
    """Conversion, capacity and a prior among it."""
    settings = ShelfSettings(**TERMS, dim=2, conversion=0.1, forgetting=0.9)
    theta, precision = np.ones(2), 3 * np.eye(2)
    stock = Stock.of(5, None, None, None)
    public = Public.of(visitor_scale=None, curvature=None, prior=(theta, precision))
    found = start(settings, public, stock, Noiseless())
    assert (found.config.conversion, found.config.forgetting, found.capacity) == (0.1, 0.9, 2)
    np.testing.assert_array_equal(found.estimate.theta, theta)
    np.testing.assert_array_equal(found.estimate.precision, precision)
