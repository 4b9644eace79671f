"""A shelf serves, learns and refuses as a running system must."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.serving.shelf.shops import CONVERSION, D, K, N, first_batch, open_slots, run, shop

from quietshelf import Shelf
from quietshelf.curation.outlook import normal_outlook
from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Round
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.serving.shelf import AnswerConflict, OfferExpired, ShelfError, UnknownOffer
from quietshelf.serving.shelf.testing import state_of


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


@pytest.mark.parametrize("wait_arrivals", [1, 5, 40])
def test_wait_arrivals_waits_for_arrivals_and_never_for_answers(wait_arrivals: int) -> None:
    """The release comes so many arrivals later, whether everybody answered or nobody did."""
    for answers in (True, False):
        shelf = shop(wait_arrivals=wait_arrivals)
        size = first_batch(shelf)
        rng = np.random.default_rng(0)
        numbers = []
        for _ in range(size + wait_arrivals + 2):
            offer = shelf.offer(rng.normal(size=(N, D)))
            numbers.append(offer.release)
            if answers:
                shelf.choose(offer.id, None)
        assert numbers.index(1) == size + wait_arrivals


def test_late_answers_count_until_their_batch_is_released() -> None:
    """Within wait_arrivals an answer of the last batch is taken; afterwards any answer is refused, whatever it is."""
    shelf = shop(wait_arrivals=2)
    offers = run(shelf, first_batch(shelf), seed=1)
    rng = np.random.default_rng(1)
    late = offers[-1]
    shelf.offer(rng.normal(size=(N, D)))
    answered = state_of(shelf).waiting[0].kept[late.id].answer
    assert answered is not None
    shelf.choose(late.id, None if answered < 0 else late.items[answered])
    for _ in range(2):
        shelf.offer(rng.normal(size=(N, D)))
    for choice in (None, late.items[0], 999):
        with pytest.raises(OfferExpired, match="offer must be answered before its batch is released"):
            shelf.choose(late.id, choice)


def test_the_same_answer_again_is_fine_and_another_is_refused() -> None:
    """The first answer stands; nothing is counted twice."""
    shelf = shop()
    offer = shelf.offer(np.ones((N, D)))
    shelf.choose(offer.id, offer.items[0])
    total = open_slots(shelf).sum
    shelf.choose(offer.id, offer.items[0])
    with pytest.raises(AnswerConflict, match="item must be the one given before"):
        shelf.choose(offer.id, None)
    assert open_slots(shelf).sum is total


def test_unknown_offers_and_items_not_shown_are_refused() -> None:
    """Each mistake by its own type, and nothing changes."""
    shelf = shop()
    with pytest.raises(
        UnknownOffer, match=re.escape("offer must be the id of an offer of this shelf, got offer='0-0-abc'")
    ):
        shelf.choose("0-0-abc", None)
    offer = shelf.offer(np.ones((N, D)))
    with pytest.raises(UnknownOffer):
        shelf.choose(offer.id + "x", None)
    missing = next(i for i in range(N) if i not in offer.items)
    with pytest.raises(ValueError, match="item must be None or one of the items shown"):
        shelf.choose(offer.id, missing)
    with pytest.raises(ValueError, match="item must be a whole number from 0 on, got item=-1"):
        shelf.choose(offer.id, -1)
    shelf.choose(offer.id, offer.items[1])


def test_shelf_equals_the_curator_on_the_same_visitors() -> None:
    """The same rounds through `Shelf` and through the simulation's curator give the same estimate and ledger."""
    shelf, rng = shop(seed=3), np.random.default_rng(8)
    source = Simulated(np.random.default_rng(3))
    outlook = normal_outlook(None, D, items=N, capacity=K, policy=POLICIES["quiet"])
    learner = Learner.start(Quiet(rho=4.0, conversion=CONVERSION), outlook, capacity=K, source=source)
    curator = QuietCurator(learner, source, outlook)
    for _ in range(80):
        x = rng.normal(size=(N, D))
        offer = shelf.offer(x)
        choice = None if rng.random() < 0.3 else offer.items[int(rng.integers(len(offer.items)))]
        shelf.choose(offer.id, choice)
        items = np.array(offer.items)
        picked = np.asarray(-1 if choice is None else choice)
        curator.observe(Round(Context(Dense(x), np.ones(N), K), items, picked))
    shelf.offer(x)
    np.testing.assert_allclose(shelf.estimate().theta, curator.release.theta, rtol=1e-9)
    assert shelf.privacy().rho == curator.ledger.rho
    assert shelf.estimate().releases == len(curator.learner.records) >= 3


def test_no_answer_is_a_choice_of_nothing_or_nothing_at_all() -> None:
    """By rule: silent visitors count as choosing none, or contribute zero."""
    x = np.random.default_rng(0).normal(size=(40, N, D))
    scores = {}
    for on_no_answer in ("no-choice", "zero"):
        shelf = shop(on_no_answer=on_no_answer, source=Noiseless())
        for t in range(first_batch(shelf) + 1):
            shelf.offer(x[t])
        assert shelf.learner is not None
        (record,) = shelf.learner.records
        scores[on_no_answer] = np.linalg.norm(record.score)
    assert scores["zero"] == 0.0
    assert scores["no-choice"] > 0.0


def test_an_empty_offer_still_takes_a_slot() -> None:
    """Nothing to show is an arrival like any other."""
    shelf = shop()
    for _ in range(first_batch(shelf)):
        offer = shelf.offer(np.ones((N, D)), candidates=[])
        assert offer.items == ()
        shelf.choose(offer.id, None)
    assert shelf.offer(np.ones((N, D))).release == 1


def test_repr_says_what_it_is() -> None:
    """For those who print it."""
    assert repr(shop()) == "<Shelf: 3 of 8 items, rho = 4, 0 visitors so far>"


def test_uniform_shelf_learns_while_it_shows_at_random() -> None:
    """The offers ignore the estimate; the estimate is made all the same."""
    shelf = shop(policy="uniform")
    shown = np.zeros(N)
    x = np.zeros((N, D))
    x[:, 0] = np.arange(N)
    for _ in range(300):
        offer = shelf.offer(x)
        shown[list(offer.items)] += 1
        shelf.choose(offer.id, offer.items[-1])
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
                shelf.choose(offer.id, offer.items[0])
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
    assert shelf.learner is not None
    released = sum(record.size for record in shelf.learner.records)
    assert released + sum(len(slots.kept) for slots in state_of(shelf).slots) == 480
    assert released + sum(batch.taken for batch in shelf.batches) == 480
    assert shelf.privacy().rho == pytest.approx(4.0)
