"""A shelf whose items are known: they come, change and go."""

from __future__ import annotations

import numpy as np
import pytest
from tests.serving.shelf.shops import N, rows_of, shop

from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.outlook import FACTORS

CATALOGUE = np.random.default_rng(4).normal(size=(N, 2)) + 1.0


def test_catalogue_shelf_freezes_its_prior_at_the_first_offer() -> None:
    """From the moments of the offerable catalogue and the declared scales; later items do not change it."""
    shelf = shop(catalogue=CATALOGUE, feature_map="concat", visitor_scale=[1.0, 2.0])
    shelf.retire(0)
    shelf.offer([0.1, 0.2])
    learner = shelf.learner
    assert learner is not None
    own = list(FACTORS).index(1.0)
    mean, second = learner.moments.mean[own], learner.moments.second[own]
    assert second.shape == (5, 5)
    left = np.hstack([np.ones((N - 1, 1)), CATALOGUE[1:]])
    item, visitor = [0, 3, 4], [1, 2]
    assert feature_map("concat").dense(np.array([7.0, 8.0]), CATALOGUE[:1])[0, visitor].tolist() == [7.0, 8.0]
    np.testing.assert_allclose(mean[item], left.mean(axis=0))
    np.testing.assert_allclose(second[np.ix_(item, item)], left.T @ left / (N - 1))
    assert np.sqrt(np.diag(second)[visitor]) == pytest.approx([1.0, 2.0], rel=0.3)  # of 32 made-up visitors
    np.testing.assert_allclose(learner.moments.second[-1][np.ix_(visitor, visitor)] / 100, second[1:3, 1:3], atol=1e-12)
    shelf.add(np.full((3, 2), 50.0))
    shelf.offer([0.1, 0.2])
    assert shelf.learner is learner
    with pytest.raises(ValueError, match="features must have length 2, got length=3"):
        shelf.offer([0.1, 0.2, 0.3])


def test_a_batch_opens_with_the_items_of_then() -> None:
    """Made-up visitors of the next batch see what may be offered now, so its coordinates are those of a new catalogue.

    A shelf whose items stayed differs; which visitors came makes no difference before the first release.
    """
    still, moved = (shop(catalogue=CATALOGUE, feature_map="item", wait_arrivals=30) for _ in range(2))
    moved.offer()
    moved.add(np.random.default_rng(5).normal(size=(20, 2)) * 30)
    for shelf in (still, moved):
        while len(shelf.batches) < 2:
            shelf.offer()
    first, second = ([batch.frozen.coordinates for batch in shelf.batches] for shelf in (still, moved))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[0], first[1])
    assert np.linalg.norm(second[1]) < np.linalg.norm(second[0]) / 3  # longer features, smaller L


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
