"""What a shelf promises, to whom, and what others see of one visitor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.serving.shelf.shops import D, K, N, first_batch, open_slots, rows_of, run, shop

from quietshelf import Shelf
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import GRID, DiscreteGaussian, Simulated
from quietshelf.privacy.release.quiet import OpenBatch
from quietshelf.privacy.statistics import ObservedChoice, contribution, svec
from quietshelf.serving.shelf.state import AT_ONCE
from quietshelf.serving.shelf.testing import state_of


def test_a_person_counts_as_often_as_allowed_and_once_a_batch() -> None:
    """Visits beyond the cap are served, take their slot and contribute zero."""
    shelf = shop(visits=2, rho=8.0)
    rng = np.random.default_rng(0)
    size = first_batch(shelf)
    counted = []
    for t in range(4 * size):
        offer = shelf.offer(rng.normal(size=(N, D)), person="anna" if t % 3 == 0 else f"visitor {t}")
        if t % 3 == 0:
            counted.append((int(offer.id.partition("-")[0]), rows_of(shelf, offer.id) is not None))
    assert sum(counts for _, counts in counted) == 2
    assert len({number for number, counts in counted if counts}) == 2
    assert shelf.privacy().rho == pytest.approx(8.0)
    assert "anna" not in repr(state_of(shelf).persons.counted)


def test_promise_is_to_persons_only_if_all_are_named() -> None:
    """One anonymous visitor, and the statement speaks of visits."""
    anonymous, mixed = shop(), shop()
    run(anonymous, 3)
    assert anonymous.privacy().unit == "visit"
    for t in range(3):
        mixed.offer(np.ones((N, D)), person=f"p{t}")
    assert mixed.privacy().unit == "person"
    mixed.offer(np.ones((N, D)))
    assert mixed.privacy().unit == "visit"


def test_promise_never_exceeds_rho_and_is_zero_before_a_release() -> None:
    """Nothing is spent before the first release, and rho in all afterwards."""
    shelf = shop(rho=0.5)
    assert shelf.privacy(delta=1e-6).epsilon == 0.0
    run(shelf, first_batch(shelf) + 1)
    assert shelf.privacy(delta=1e-6).rho == pytest.approx(0.5)
    assert "rho = 0.5" in str(shelf.privacy(delta=1e-6))


def test_noiseless_shelf_owns_up() -> None:
    """With the injected source the promise reads infinite."""
    shelf = shop(source=Noiseless())
    run(shelf, first_batch(shelf) + 1)
    assert shelf.privacy().rho == math.inf


def test_default_noise_is_the_exact_discrete_gaussian() -> None:
    """A shelf made the ordinary way draws from the operating system, on a grid; there is no seed to set."""
    shelf = Shelf(items=N, dim=D, capacity=K, rho=4.0)
    assert isinstance(shelf._source, DiscreteGaussian)
    run(shelf, first_batch(shelf) + 1)
    assert {event.assumption.value for event in shelf.privacy().events} == {"exact-grid"}


def test_visits_above_one_need_persons() -> None:
    """Where visits are counted, an anonymous visitor is refused."""
    with pytest.raises(ValueError, match="person must be given where visits of a person are counted"):
        shop(visits=2).offer(np.ones((N, D)))


class Cancelling:
    """Noise that is frozen but for a shift of the first draws."""

    grid, noiseless, assumption = 0.0, False, Simulated.assumption

    def __init__(self, shifts: list[np.ndarray]) -> None:
        self._shifts = list(shifts)
        self._rng = np.random.default_rng(3)

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        noise = scale * self._rng.standard_normal(size)
        return noise + self._shifts.pop(0) if self._shifts else noise

    def only(self, worlds: np.ndarray) -> Cancelling:
        raise AssertionError(worlds)


def others_see(
    answer: int | str | None, delay: int, shifts: list[np.ndarray]
) -> tuple[list[Any], np.ndarray, OpenBatch]:
    """What 60 visitors are shown if the fourth answers so, so late; what the fourth was shown, and their batch."""
    shelf = shop(source=Cancelling(shifts))
    rng, seen, rows, pending = np.random.default_rng(7), [], np.zeros(0), None
    for t in range(60):
        x = rng.normal(size=(N, D))
        offer = shelf.offer(x)
        seen.append((offer.items, offer.release))
        if t == 3:
            frozen = open_slots(shelf).batch.frozen
            rows, pending = x[list(offer.items)], offer
        else:
            shelf.choose(offer.id, offer.items[0])
        if pending is not None and t == 3 + delay and answer != "silent":
            shelf.choose(pending.id, None if answer is None else pending.items[int(answer)])
    return seen, rows, frozen


@pytest.mark.parametrize(("answer", "delay"), [(1, 0), (None, 2), ("silent", 0), (2, 3)])
def test_others_see_the_same_but_for_the_release(answer: int | str | None, delay: int) -> None:
    """One visitor's answer, silence or delay, with noise that makes released sums equal: no other screen differs."""
    base, rows, frozen = others_see(0, 0, [])

    def pair(position: int) -> tuple[np.ndarray, np.ndarray]:
        seen = ObservedChoice(rows, np.ones(K, bool), np.asarray(position))
        found = contribution(seen, frozen.theta, frozen.coordinates, frozen.scales.bound)
        return found.score, svec(found.information)

    position = answer if isinstance(answer, int) else -1
    shifts = [a - b for a, b in zip(pair(0), pair(position), strict=True)]
    assert others_see(answer, delay, shifts)[0] == base
    if position:
        assert others_see(answer, delay, [])[0] != base  # without the noise's help the release would differ


def test_contributions_are_on_the_grid_of_the_noise() -> None:
    """Else the fraction of a grid step would leave without noise: every sum is a whole number of steps."""
    shelf = shop(real=True)
    run(shelf, first_batch(shelf) - 1)
    total = open_slots(shelf).finished("no-choice")
    frozen = open_slots(shelf).batch.frozen
    fine = float(batch_pair.grids(frozen.scales, frozen.size, GRID).rows) ** 2
    for part in (total.score / GRID, total.information / fine):
        np.testing.assert_array_equal(part, np.rint(part))
        assert part.any()


def test_features_are_dropped_once_their_contribution_is_summed() -> None:
    """Some answers at a time, their features go; those of an offer that waits for its answer stay."""
    shelf = shop(rho=0.01)
    waiting = shelf.offer(np.ones((N, D)))
    answered = [shelf.offer(np.ones((N, D))) for _ in range(AT_ONCE)]
    for offer in answered:
        assert rows_of(shelf, offer.id) is not None
        shelf.choose(offer.id, None)
    assert [rows_of(shelf, offer.id) for offer in answered] == [None] * AT_ONCE
    assert rows_of(shelf, waiting.id) is not None


def test_offer_ids_cannot_be_foreseen() -> None:
    """Two shelves that make the same offers name them differently."""
    one, other = (shop().offer(np.ones((N, D))) for _ in range(2))
    assert one.items == other.items
    assert one.id != other.id


def test_a_waiting_batch_is_released_in_the_coordinates_it_opened_with() -> None:
    """Opened before the first release and released after it, the second batch keeps theta and coordinates."""
    shelf = shop(wait_arrivals=5)
    run(shelf, first_batch(shelf) + 1)
    frozen = open_slots(shelf).batch.frozen
    run(shelf, frozen.size + 10)
    assert shelf.learner is not None
    _, second, *_ = shelf.learner.records
    np.testing.assert_array_equal(second.theta, frozen.theta)
    np.testing.assert_array_equal(second.coordinates, frozen.coordinates)
