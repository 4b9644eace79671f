"""A shelf whose items are known: they come, change and go."""

from __future__ import annotations

import numpy as np
import pytest
from tests.shelf.shops import K, N, rows_of, shop

from quietshelf.choice.maps import feature_map
from quietshelf.release.geometry import catalogue_curvature

CATALOGUE = np.random.default_rng(4).normal(size=(N, 2)) + 1.0


def test_catalogue_shelf_freezes_the_declared_geometry_at_the_first_offer() -> None:
    """Γ0 is that of the offerable catalogue and the declared scales; later items do not change it."""
    shelf = shop(catalogue=CATALOGUE, feature_map="concat", visitor_scale=[1.0, 2.0])
    shelf.retire(0)
    shelf.offer([0.1, 0.2])
    learner = shelf.learner
    assert learner is not None
    expected = catalogue_curvature(CATALOGUE[1:], feature_map("concat"), visitor_scale=[1.0, 2.0], capacity=K)
    assert learner.curvature.shape == (5, 5)
    np.testing.assert_allclose(np.linalg.eigvalsh(learner.curvature)[-1], np.linalg.eigvalsh(expected)[-1])
    before = learner.curvature
    shelf.add(np.full((3, 2), 50.0))
    shelf.offer([0.1, 0.2])
    assert shelf.learner is learner
    assert learner.curvature is before
    with pytest.raises(ValueError, match="features must have length 2, got length=3"):
        shelf.offer([0.1, 0.2, 0.3])


def test_items_come_change_and_go_and_offers_keep_what_they_used() -> None:
    """New items can be shown, retired and unavailable ones cannot, and a change does not reach back."""
    shelf = shop(catalogue=CATALOGUE, feature_map="item")
    offer = shelf.offer()
    used = rows_of(shelf, offer.id).copy()
    for item in offer.items:
        shelf.change(item, features=[9.0, 9.0], revenue=2.0)
    np.testing.assert_array_equal(rows_of(shelf, offer.id), used)
    (new,) = shelf.add([[0.0, 0.0]], revenue=3.0)
    assert new == N
    assert new in shelf.offer(required=[new]).items
    shelf.retire(new)
    shelf.change(0, available=False)
    for _ in range(20):
        assert not {0, new} & set(shelf.offer().items)
    with pytest.raises(ValueError, match=f"item must not be retired, got item={new}"):
        shelf.change(new, revenue=1.0)
    with pytest.raises(ValueError, match=f"item must be from 0 to {new}, got item=99"):
        shelf.retire(99)
    with pytest.raises(ValueError, match="items can be added only to a catalogue"):
        shop().add(np.ones((1, 2)))
