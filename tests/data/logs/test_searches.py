"""Searches with a catalogue, and the choice of a ridge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.data.logs.made_up import made_up

from quietshelf.data.logs.held_out import best_ridge, held_out
from quietshelf.model.choice.maps import feature_map


def test_rounds_are_the_items_shown_padded() -> None:
    """Features, choice and availability agree with a walk over searches and items."""
    searches = made_up(40)
    features, choice, available = searches.rounds(feature_map("full"))
    for n in range(40):
        items = np.flatnonzero(searches.shown[n])
        assert available[n].sum() == items.size
        x = feature_map("full").dense(searches.visitor[n], searches.item_features()[items])
        np.testing.assert_array_equal(features[n, : items.size], x)
        taken = -1 if choice[n] < 0 else items[choice[n]]
        assert taken == searches.choice[n]


def test_rare_items_are_dropped_and_their_takers_took_none() -> None:
    """Items keep their order; a dropped item's bookings become none."""
    searches = made_up(200)
    least = int(np.sort(searches.shown.sum(axis=0))[6])
    kept = searches.frequent(least)
    assert kept.shown.sum(axis=0).min() >= least
    was = np.isin(searches.choice, kept.item_ids) & (searches.choice >= 0)
    np.testing.assert_array_equal(kept.item_ids[kept.choice[was]], searches.choice[was])
    assert (kept.choice[~was] == -1).all()
    with pytest.raises(ValueError, match="some item must have been shown that often"):
        searches.frequent(10**6)


def test_a_choice_that_was_not_shown_is_refused_by_search() -> None:
    """The message names the search."""
    searches = made_up(20)
    bad = searches.choice.copy()
    bad[7] = int(np.flatnonzero(~searches.shown[7])[0])
    with pytest.raises(ValueError, match=r"must have been shown, got choice=\d+ in search 7"):
        replace(searches, choice=bad)
    bad[7] = 99
    with pytest.raises(ValueError, match="choice must be an item or -1, got choice=99 in search 7"):
        replace(searches, choice=bad)


def test_held_out_likelihood_prefers_a_sensible_ridge() -> None:
    """A tiny ridge loses where few searches meet many features, a huge one where tastes are strong."""
    ridges = (1e-3, 3.0, 1e4)
    few = made_up(60, strength=0.2).rounds(feature_map("full"))
    assert best_ridge(few, ridges=ridges) > 1e-3
    many = made_up(600, strength=2.0).rounds(feature_map("concat"))
    assert best_ridge(many, ridges=ridges) < 1e4
    assert held_out(many, ridges=ridges).shape == (3,)
    with pytest.raises(ValueError, match="folds must be between 2 and rounds=60"):
        held_out(few, folds=61)
