"""A shelf serves, learns and refuses as a running system must."""

from __future__ import annotations

import math
import re
import threading
from typing import Any

import numpy as np
import pytest
from tests.shelf.shops import D, K, N, first_batch, shop, visit

from quietshelf import Shelf
from quietshelf.choice.features import Dense
from quietshelf.choice.maps import feature_map
from quietshelf.release.geometry import catalogue_curvature, coordinates, unknown_curvature
from quietshelf.release.noise import DiscreteGaussian, Noiseless, Simulated
from quietshelf.release.quiet import Learner, Quiet
from quietshelf.release.quiet_curator import QuietCurator
from quietshelf.shelf import AnswerConflict, OfferExpired, ShelfError, UnknownOffer
from quietshelf.statistics import Shown, contribution, svec
from quietshelf.types import Context, Round


def run(shelf: Shelf, visitors: int, seed: int = 5, **options: Any) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [visit(shelf, rng, **options) for _ in range(visitors)]


def test_offers_hold_distinct_items_and_name_their_release() -> None:
    """At most K items, none twice; the release number grows as batches close."""
    shelf = shop()
    offers = run(shelf, 60)
    assert all(len(set(offer.items)) == len(offer.items) <= K for offer in offers)
    numbers = [offer.release for offer in offers]
    assert numbers == sorted(numbers)
    assert numbers[0] == 0
    assert numbers[-1] >= 2
    assert len({offer.id for offer in offers}) == 60
    assert shelf.arrivals == 60


def test_release_comes_with_the_first_arrival_after_the_last_slot() -> None:
    """The last visitor of a batch and all before see the old release; the next arrival sees the new one."""
    shelf = shop()
    size = first_batch(shelf)
    offers = run(shelf, size + 1)
    assert [offer.release for offer in offers] == [0] * size + [1]


@pytest.mark.parametrize("patience", [1, 5, 40])
def test_patience_waits_for_arrivals_and_never_for_answers(patience: int) -> None:
    """The release comes so many arrivals later, whether everybody answered or nobody did."""
    for answers in (True, False):
        shelf = shop(patience=patience)
        size = first_batch(shelf)
        rng = np.random.default_rng(0)
        numbers = []
        for _ in range(size + patience + 2):
            offer = shelf.offer(rng.normal(size=(N, D)))
            numbers.append(offer.release)
            if answers:
                shelf.observe(offer.id, choice=None)
        assert numbers.index(1) == size + patience


def test_late_answers_count_until_their_batch_is_released() -> None:
    """Within patience an answer of the last batch is taken; afterwards any answer is refused, whatever it is."""
    shelf = shop(patience=2)
    offers = run(shelf, first_batch(shelf), seed=1)
    rng = np.random.default_rng(1)
    late = offers[-1]
    shelf.offer(rng.normal(size=(N, D)))
    answered = shelf._state.waiting[0].slots[late.id].answer
    shelf.observe(late.id, choice=None if answered < 0 else answered)
    for _ in range(2):
        shelf.offer(rng.normal(size=(N, D)))
    for choice in (None, late.items[0], 999):
        with pytest.raises(OfferExpired, match="offer must be answered before its batch is released"):
            shelf.observe(late.id, choice=choice)


def test_the_same_answer_again_is_fine_and_another_is_refused() -> None:
    """The first answer stands; nothing is counted twice."""
    shelf = shop()
    offer = shelf.offer(np.ones((N, D)))
    shelf.observe(offer.id, choice=offer.items[0])
    total = shelf._state.open.total  # type: ignore[union-attr]
    shelf.observe(offer.id, choice=offer.items[0])
    with pytest.raises(AnswerConflict, match="choice must be the one given before"):
        shelf.observe(offer.id, choice=None)
    assert shelf._state.open.total is total  # type: ignore[union-attr]


def test_unknown_offers_and_items_not_shown_are_refused() -> None:
    """Each mistake by its own type, and nothing changes."""
    shelf = shop()
    with pytest.raises(UnknownOffer, match=re.escape("offer must be one of this shelf's, got offer='0-0-abc'")):
        shelf.observe("0-0-abc", choice=None)
    offer = shelf.offer(np.ones((N, D)))
    with pytest.raises(UnknownOffer):
        shelf.observe(offer.id + "x", choice=None)
    missing = next(i for i in range(N) if i not in offer.items)
    with pytest.raises(ValueError, match="choice must be None or one of the items shown"):
        shelf.observe(offer.id, choice=missing)
    with pytest.raises(ValueError, match="choice must be a whole number from 0 on, got choice=-1"):
        shelf.observe(offer.id, choice=-1)
    shelf.observe(offer.id, choice=offer.items[1])


def test_shelf_equals_the_curator_on_the_same_visitors() -> None:
    """The same rounds through `Shelf` and through the simulation's curator give the same estimate and ledger."""
    shelf, rng = shop(seed=3), np.random.default_rng(8)
    source = Simulated(np.random.default_rng(3))
    config = Quiet(rho=4.0, declared=False)
    curator = QuietCurator(Learner.start(config, unknown_curvature(D), source=source), source)
    for _ in range(80):
        x = rng.normal(size=(N, D))
        offer = shelf.offer(x)
        choice = None if rng.random() < 0.3 else offer.items[int(rng.integers(len(offer.items)))]
        shelf.observe(offer.id, choice=choice)
        items = np.array(offer.items)
        picked = np.asarray(-1 if choice is None else choice)
        curator.observe(Round(Context(Dense(x), np.ones(N), K), items, picked))
    shelf.offer(x)
    np.testing.assert_allclose(shelf.estimate().theta, curator.release.theta, rtol=1e-9)
    assert shelf.privacy().rho == curator.ledger.rho
    assert shelf.estimate().releases == len(curator.learner.records) >= 3


def test_silence_is_a_choice_of_nothing_or_nothing_at_all() -> None:
    """By rule: silent visitors count as choosing none, or contribute zero."""
    x = np.random.default_rng(0).normal(size=(40, N, D))
    scores = {}
    for silence in ("no-choice", "zero"):
        shelf = shop(silence=silence, source=Noiseless())
        for t in range(first_batch(shelf) + 1):
            shelf.offer(x[t])
        (record,) = shelf._state.learner.records  # type: ignore[union-attr]
        scores[silence] = np.linalg.norm(record.score)
    assert scores["zero"] == 0.0
    assert scores["no-choice"] > 0.0


def test_a_person_counts_as_often_as_allowed_and_once_a_batch() -> None:
    """Visits beyond the cap are served, take their slot and contribute zero."""
    shelf = shop(visits=2, rho=8.0)
    rng = np.random.default_rng(0)
    size = first_batch(shelf)
    counted = []
    for t in range(4 * size):
        offer = shelf.offer(rng.normal(size=(N, D)), person="anna" if t % 3 == 0 else f"visitor {t}")
        batch = shelf._state.batch_of(offer.id)
        if t % 3 == 0:
            counted.append((batch.frozen.number, batch.slots[offer.id].rows is not None))
    assert sum(counts for _, counts in counted) == 2
    assert len({number for number, counts in counted if counts}) == 2
    assert shelf.privacy().rho == pytest.approx(8.0)
    assert "anna" not in repr(shelf._state.persons.counted)


def test_promise_is_to_persons_only_if_all_are_named() -> None:
    """One anonymous visitor, and the statement speaks of visits."""
    named, mixed = shop(), shop()
    run(named, 3, person=None)
    assert named.privacy().unit == "visit"
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
    assert str(shelf.privacy(delta=1e-6))


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


def test_offers_respect_what_is_asked_of_them() -> None:
    """Available, required, excluded, capacity and revenue of one offer."""
    shelf = shop()
    x = np.ones((N, D))
    assert set(shelf.offer(x, available=[1, 4, 5]).items) == {1, 4, 5}
    assert 7 in shelf.offer(x, required=[7]).items
    assert not {0, 1} & set(shelf.offer(x, exclude=[0, 1]).items)
    assert len(shelf.offer(x, capacity=1).items) == 1
    revenue = np.full(N, -1.0)
    revenue[3] = 5.0
    assert shelf.offer(x, revenue=revenue).items == (3,)


def test_an_empty_offer_still_takes_a_slot() -> None:
    """Nothing to show is an arrival like any other."""
    shelf = shop()
    for _ in range(first_batch(shelf)):
        offer = shelf.offer(np.ones((N, D)), available=[])
        assert offer.items == ()
        shelf.observe(offer.id, choice=None)
    assert shelf.offer(np.ones((N, D))).release == 1


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
    ({"features": np.ones((N, D)), "available": np.ones((1, N), bool)}, "available must be one visitor's, (items,)"),
    ({"features": np.ones((N, D)), "revenue": np.ones((2, N))}, "revenue must be one visitor's, (items,)"),
    ({"person": "\ud800"}, "person must be text that UTF-8 can hold"),
    ({"features": None}, "features of every item must be given with each offer"),
    ({"capacity": 4}, "capacity must be between 1 and the shelf's capacity=3, got capacity=4"),
    ({"capacity": 0}, "capacity must be between 1 and the shelf's capacity=3, got capacity=0"),
    ({"required": [8]}, "required must name items from 0 to 7"),
    ({"required": [0, 1, 2, 3]}, "required must name at most capacity=3 items"),
    ({"required": [0], "exclude": [0]}, "required items must be available"),
    ({"available": [1, 1]}, "available must name each item at most once"),
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


def test_enormous_features_are_served_and_contribute_zero() -> None:
    """Finite features whose utilities overflow: an offer all the same, whatever the revenues."""
    shelf = shop(source=Noiseless())
    rng = np.random.default_rng(0)
    for t in range(first_batch(shelf) + 1):
        x = 1e307 * rng.normal(size=(N, D)).clip(-1, 1)
        offer = shelf.offer(x, revenue=rng.random(N) + 0.1)
        assert 0 < len(offer.items) <= K
        assert offer.release == (t == first_batch(shelf))
    assert np.isfinite(shelf.estimate().theta).all()


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


def others_see(answer: int | str | None, delay: int, shifts: list[np.ndarray]) -> tuple[list[Any], np.ndarray]:
    """What 60 visitors are shown if the fourth answers so, so late; and what the fourth was shown."""
    shelf = shop(source=Cancelling(shifts))
    rng, seen, rows, pending = np.random.default_rng(7), [], np.zeros(0), None
    for t in range(60):
        x = rng.normal(size=(N, D))
        offer = shelf.offer(x)
        seen.append((offer.items, offer.release))
        if t == 3:
            rows, pending = x[list(offer.items)], offer
        else:
            shelf.observe(offer.id, choice=offer.items[0])
        if pending is not None and t == 3 + delay and answer != "silent":
            shelf.observe(pending.id, choice=None if answer is None else pending.items[int(answer)])
    return seen, rows


@pytest.mark.parametrize(("answer", "delay"), [(1, 0), (None, 2), ("silent", 0), (2, 3)])
def test_others_see_the_same_but_for_the_release(answer: int | str | None, delay: int) -> None:
    """One visitor's answer, silence or delay, with noise that makes released sums equal: no other screen differs."""
    base, rows = others_see(0, 0, [])
    L = coordinates(unknown_curvature(D))

    def pair(position: int) -> tuple[np.ndarray, np.ndarray]:
        found = contribution(Shown(rows, np.ones(K, bool), np.asarray(position)), np.zeros(D), L)
        return found.score, svec(found.information)

    position = answer if isinstance(answer, int) else -1
    shifts = [a - b for a, b in zip(pair(0), pair(position), strict=True)]
    assert others_see(answer, delay, shifts)[0] == base
    if position:
        assert others_see(answer, delay, [])[0] != base  # without the noise's help the release would differ


def test_senseless_shelves_are_refused() -> None:
    """Rules and values, before anything exists."""
    cases: list[tuple[dict[str, Any], str]] = [
        ({"items": 5, "capacity": 2, "rho": 1.0}, "give either items and dim, or a catalogue"),
        ({"items": 5, "dim": 2, "catalogue": np.ones((5, 2)), "capacity": 2, "rho": 1.0}, "give either items and dim"),
        ({"items": 5, "dim": 2, "capacity": 6, "rho": 1.0}, "capacity must be between 1 and items=5, got capacity=6"),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 1.0, "policy": "greedy"}, "policy must be one of quiet, uniform"),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 1.0, "silence": "gold"}, "silence must be no-choice or zero"),
        ({"items": 5, "dim": 2, "capacity": 2, "rho": 1.0, "groups": [0] * 5}, "groups and limits must be given"),
        ({"items": 0, "dim": 2, "capacity": 2, "rho": 1.0}, "items must be a whole number from 1 on, got items=0"),
        ({"catalogue": np.ones((3, 1)), "capacity": 1, "rho": 1.0, "feature_map": "x"}, "feature_map must be one of"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=re.escape(message)):
            Shelf(**arguments)


def test_what_the_first_visitor_would_stumble_over_is_refused_at_once() -> None:
    """Where all sizes are known a wrong curvature, prior or scale never reaches a visitor."""
    known: dict[str, Any] = {"items": 5, "dim": 2, "capacity": 2, "rho": 1.0}
    for options, message in (
        ({"curvature": np.eye(3)}, "curvature must have shape (2, 2), got shape=(3, 3)"),
        ({"curvature": [[1.0, 2.0], [0.0, 1.0]]}, "curvature must be symmetric"),
        ({"prior": (np.zeros(2), -np.eye(2))}, "prior precision must be positive definite"),
        ({"visitor_scale": -1.0}, "visitor_scale must be positive, got visitor_scale=-1.0"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            Shelf(**known, **options)
    with pytest.raises(ValueError, match="features must not be empty for the map outer"):
        shop(catalogue=np.ones((4, 2)), feature_map="outer", capacity=2).offer()


def test_repr_says_what_it_is() -> None:
    """For those who print it."""
    assert repr(shop()) == "<Shelf: 3 of 8 items, rho = 4, 0 visitors so far>"


def test_visits_above_one_need_persons() -> None:
    """Where visits are counted, an anonymous visitor is refused."""
    with pytest.raises(ValueError, match="person must be given where visits of a person are counted"):
        shop(visits=2).offer(np.ones((N, D)))


CATALOGUE = np.random.default_rng(4).normal(size=(N, 2)) + 1.0


def test_catalogue_shelf_freezes_the_declared_geometry_at_the_first_offer() -> None:
    """Γ0 is that of the offerable catalogue and the declared scales; later items do not change it."""
    shelf = shop(catalogue=CATALOGUE, feature_map="concat", visitor_scale=[1.0, 2.0])
    shelf.retire(0)
    shelf.offer([0.1, 0.2])
    learner = shelf._state.learner
    assert learner is not None
    expected = catalogue_curvature(CATALOGUE[1:], feature_map("concat"), visitor_scale=[1.0, 2.0], capacity=K)
    assert learner.curvature.shape == (5, 5)
    np.testing.assert_allclose(np.linalg.eigvalsh(learner.curvature)[-1], np.linalg.eigvalsh(expected)[-1])
    before = learner.curvature
    shelf.add(np.full((3, 2), 50.0))
    shelf.offer([0.1, 0.2])
    assert shelf._state.learner.curvature is before  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="features must have length 2, as before, got length=3"):
        shelf.offer([0.1, 0.2, 0.3])


def test_items_come_change_and_go_and_offers_keep_what_they_used() -> None:
    """New items can be shown, retired and unavailable ones cannot, and a change does not reach back."""
    shelf = shop(catalogue=CATALOGUE, feature_map="item")
    offer = shelf.offer()
    used = shelf._state.open.slots[offer.id].rows.copy()  # type: ignore[union-attr]
    for item in offer.items:
        shelf.change(item, features=[9.0, 9.0], revenue=2.0)
    np.testing.assert_array_equal(shelf._state.open.slots[offer.id].rows, used)  # type: ignore[union-attr]
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


def test_uniform_shelf_learns_while_it_shows_at_random() -> None:
    """The offers ignore the estimate; the estimate is made all the same."""
    shelf = shop(policy="uniform")
    shown = np.zeros(N)
    x = np.zeros((N, D))
    x[:, 0] = np.arange(N)
    for _ in range(300):
        offer = shelf.offer(x)
        shown[list(offer.items)] += 1
        shelf.observe(offer.id, choice=offer.items[-1])
    assert shown.min() > 70  # 112.5 expected each; below 70 with probability under 1e-6
    assert shelf.estimate().releases > 2


def test_estimate_needs_an_offer_and_states_its_uncertainty() -> None:
    """Before the first offer there is nothing; afterwards the prior, then what the releases say."""
    shelf = shop()
    with pytest.raises(ShelfError, match="there is nothing to estimate before the first offer"):
        shelf.estimate()
    run(shelf, 1)
    before = shelf.estimate()
    np.testing.assert_array_equal(before.theta, 0.0)
    run(shelf, 400)
    after = shelf.estimate()
    assert (after.standard_errors < before.standard_errors).all()
    assert "direction" in after.health


def test_threads_neither_lose_nor_repeat_slots() -> None:
    """Eight threads of visitors: every arrival has one slot, every batch the right size, the ledger reads rho."""
    shelf = Shelf(items=N, dim=D, capacity=K, rho=4.0)
    offers: list[str] = []
    failures: list[Exception] = []

    def visitors(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            try:
                offer = shelf.offer(rng.normal(size=(N, D)))
                offers.append(offer.id)
                shelf.observe(offer.id, choice=offer.items[0])
            except OfferExpired:
                pass  # another thread's arrival closed the batch between offer and answer
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=visitors, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(set(offers)) == shelf.arrivals == 480
    learner = shelf._state.learner
    assert learner is not None
    released = sum(record.size for record in learner.records)
    assert released + sum(len(batch.slots) for batch in shelf._state.batches) == 480
    assert shelf.privacy().rho == pytest.approx(4.0)
