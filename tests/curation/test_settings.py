"""What a shelf is told once, checked before anybody comes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from quietshelf.choice.maps import MAPS, feature_map
from quietshelf.curation.settings import Public, Settings, declared_dim, start
from quietshelf.curation.stock import Stock
from quietshelf.release.geometry import catalogue_curvature
from quietshelf.release.noise import Noiseless

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
        ({"forgetting": 0.0}, "forgetting must be in (0, 1], got forgetting=0.0"),
    ],
)
def test_senseless_settings_are_refused(options: dict[str, Any], message: str) -> None:
    """Each rule names the value that breaks it."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings(**{**TERMS, **options})


def test_settings_come_back_from_plain_data() -> None:
    """For files and tables."""
    given = Settings(**TERMS, visits=3, window=2.5, feature_map="full", visitor_dim=2, max_batch=7, forgetting=0.5)
    assert Settings(**given.to_dict()) == given


def test_the_learner_starts_from_what_is_public() -> None:
    """Declared scales and offerable items make Γ0; without a scale it is the blind guess, and said to be."""
    catalogue = np.random.default_rng(0).normal(size=(5, 2))
    stock = Stock.of(5, catalogue, None, None).without(0)
    settings = Settings(**TERMS, feature_map="concat", visitor_dim=3)
    for scale, each in ((2.0, [2.0] * 3), ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])):
        found = start(settings, Public.of(visitor_scale=scale, curvature=None, prior=None), stock, Noiseless())
        expected = catalogue_curvature(catalogue[1:], feature_map("concat"), visitor_scale=each, capacity=2)
        assert found.config.declared
        np.testing.assert_allclose(np.linalg.eigvalsh(found.curvature)[-1], np.linalg.eigvalsh(expected)[-1])
    blind = start(settings, Public.of(visitor_scale=None, curvature=None, prior=None), stock, Noiseless())
    assert not blind.config.declared
    np.testing.assert_array_equal(blind.curvature, np.eye(6) / 6)


def test_a_catalogue_of_zeros_declares_nothing() -> None:
    """Nothing can be learnt of such items, and the shop opens all the same: its features may come later."""
    settings = Settings(**TERMS, feature_map="outer", visitor_dim=2)
    stock = Stock.of(4, np.zeros((4, 1)), None, None)
    found = start(settings, Public.of(visitor_scale=1.0, curvature=None, prior=None), stock, Noiseless())
    assert not found.config.declared
    np.testing.assert_array_equal(found.curvature, np.eye(2) / 2)
