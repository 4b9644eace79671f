"""R7: whatever fails after a batch is announced, it is released or burnt, and never drawn again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.curation.batches import DIM, DRAWS, Counting, filled, learner, open_batch
from tests.privacy.release.learners import outlook_for
from tests.serving.shelf.shops import D, N, first_batch, run, shop

from quietshelf import Shelf
from quietshelf.curation.batches import Schedule, charge, draw
from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Round
from quietshelf.privacy.accounting import BudgetExceeded, Ledger
from quietshelf.privacy.release import records
from quietshelf.privacy.statistics import nothing
from quietshelf.serving.shelf import OfferExpired
from quietshelf.serving.shelf.testing import state_of

X = np.ones((N, D))


class Lost(Exception):  # noqa: N818 - says what happened
    """What goes wrong in these tests."""


def raising(*_: object, **__: object) -> None:
    raise Lost


def drawn_then_lost(source: Counting, patch: pytest.MonkeyPatch) -> None:
    """The source fails once its numbers were drawn."""
    draw = source.draw

    def failing(scale: float, size: tuple[int, ...]) -> np.ndarray:
        draw(scale, size)
        raise Lost

    patch.setattr(source, "draw", failing)


def record_fails(_: Counting, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "record", raising)


def rebuild_fails(_: Counting, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "rebuild", raising)


Failure = Callable[[Counting, pytest.MonkeyPatch], None]
FAILURES: list[Failure] = [drawn_then_lost, record_fails, rebuild_fails]


def burnt(source: Counting, failure: Failure, **options: Any) -> tuple[Shelf, list[Any]]:
    """A shelf whose first release was lost after its noise was drawn, and the offers of that batch."""
    shelf = shop(source=source, **options)
    offers = run(shelf, first_batch(shelf))
    while not state_of(shelf).waiting[0].batch.due_at <= shelf.arrivals:
        shelf.offer(X)
    with pytest.MonkeyPatch.context() as patch:
        failure(source, patch)
        with pytest.raises(Lost):
            shelf.offer(X)
    return shelf, offers


@pytest.mark.parametrize("failure", FAILURES)
def test_a_release_that_is_lost_is_paid_for_and_never_drawn_again(failure: Failure) -> None:
    """The cost is in the ledger, no figure is known, and the next arrivals go on with the next batch."""
    source = Counting()
    shelf, offers = burnt(source, failure)
    assert shelf.privacy().rho == pytest.approx(4.0)
    assert {event.batch for event in shelf.privacy().events} == {0}
    assert shelf.estimate().releases == 0
    np.testing.assert_array_equal(shelf.estimate().theta, 0.0)
    assert list(shelf.batches) == []
    drawn = source.draws
    assert 1 <= drawn <= DRAWS
    assert shelf.offer(X).release == 0
    (following,) = shelf.batches
    assert (following.frozen.number, following.taken) == (1, 1)
    assert source.draws == drawn
    with pytest.raises(OfferExpired):
        shelf.choose(offers[0].id, None)


@pytest.mark.parametrize("failure", FAILURES)
def test_later_batches_go_on_after_a_loss(failure: Failure) -> None:
    """The next batch is released on time, with noise of its own, and no person pays more than rho."""
    source = Counting()
    shelf, _ = burnt(source, failure)
    drawn = source.draws
    run(shelf, 1)
    (following,) = shelf.batches
    run(shelf, following.frozen.size)
    assert source.draws == drawn + DRAWS
    assert shelf.estimate().releases == 1
    assert {event.batch for event in shelf.privacy().events} == {0, 1}
    assert shelf.privacy().rho == pytest.approx(4.0)  # a visit is in one batch
    assert shelf.privacy().rho <= 4.0 * (1 + 1e-12)


def test_a_lost_arrival_was_nobody() -> None:
    """The request that ran into the failure took no slot and may be made again."""
    source = Counting()
    shelf, _ = burnt(source, rebuild_fails)
    arrivals = shelf.arrivals
    shelf.offer(X)
    assert shelf.arrivals == arrivals + 1


def test_batches_that_wait_behind_a_lost_one_are_released() -> None:
    """Only the batch that was announced is burnt: those that were full or open meanwhile keep their visitors."""
    source = Counting()
    shelf, _ = burnt(source, rebuild_fails, max_batch=3, wait_arrivals=4)
    waiting = [batch.frozen.number for batch in shelf.batches]
    assert waiting[0] == 1
    run(shelf, 6)
    assert shelf.learner is not None
    assert len(shelf.learner.records) >= 1
    charged = [event.batch for event in shelf.learner.ledger.events]
    assert charged == list(range(len(charged)))
    assert source.draws == DRAWS * len(charged)


def test_a_burnt_batch_stays_burnt_over_a_save(tmp_path: Path) -> None:
    """The cost is in the file, and the loaded shelf opens the next number."""
    shelf, _ = burnt(Counting(), rebuild_fails)
    shelf.save(tmp_path / "shop")
    loaded = Shelf.load(tmp_path / "shop")
    assert loaded.privacy() == shelf.privacy()
    assert loaded.estimate().releases == 0
    loaded.offer(X)
    assert [batch.frozen.number for batch in loaded.batches] == [1]


def test_persons_of_a_burnt_batch_have_used_their_visit() -> None:
    """Persons counted in a burnt batch stay counted: its cost was paid."""
    source = Counting()
    shelf = shop(source=source)
    for t in range(first_batch(shelf)):
        shelf.offer(X, person=f"p{t}")
    with pytest.MonkeyPatch.context() as patch:
        rebuild_fails(source, patch)
        with pytest.raises(Lost):
            shelf.offer(X, person="late")
    assert shelf.privacy().unit == "person"
    again, late = shelf.offer(X, person="p0"), shelf.offer(X, person="late")
    kept = state_of(shelf).open
    assert kept is not None
    assert kept.kept[again.id].rows is None
    assert kept.kept[late.id].rows is not None


def test_a_refused_budget_draws_nothing_in_a_shelf() -> None:
    """A ledger that has no room refuses before any noise is drawn, batch after batch; its entries stay as they were."""
    source = Counting()
    shelf = shop(source=source)
    run(shelf, first_batch(shelf))
    state = state_of(shelf)
    assert state.learner is not None
    state.learner = replace(state.learner, ledger=Ledger(budget=0.5))
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            run(shelf, 100)
        assert source.draws == 0
        assert shelf.privacy().events == ()
        assert shelf.estimate().releases == 0


@pytest.mark.parametrize("failure", FAILURES)
def test_the_pure_rules_leave_a_loss_charged(failure: Failure) -> None:
    """What was charged and not drawn is a learner with the cost and without the figure; its number is used up."""
    source = Counting()
    start = learner(source)
    schedule, batch = open_batch(Schedule(), start, source, window=1.0)
    charged = charge(start, filled(batch), source)
    with pytest.MonkeyPatch.context() as patch:
        failure(source, patch)
        with pytest.raises(Lost):
            draw(charged, filled(batch), nothing((), DIM), source)
    assert charged.ledger.rho == pytest.approx(1.0)
    assert charged.records == ()
    with pytest.raises(ValueError, match="a batch must be released once, got batch=0"):
        charge(charged, filled(batch), source)
    _, following = open_batch(schedule, charged, source, window=1.0)
    assert (following.frozen.number, following.frozen.size) == (1, 9)
    after = draw(charge(charged, filled(following), source), filled(following), nothing((), DIM), source)
    assert len(after.records) == 1
    assert {event.batch for event in after.ledger.events} == {0, 1}
    assert after.ledger.rho == pytest.approx(1.0)


def lost_in_a_simulation(source: Counting) -> QuietCurator:
    """A curator whose first release was lost after its noise was drawn."""
    start = learner(source)
    curator = QuietCurator(start, source, outlook_for(start))
    visitor = Round(Context(Dense(X), np.ones(N), 2), np.arange(2), np.asarray(0))
    for _ in range(curator.batch.frozen.size - 1):
        curator.observe(visitor)
    with pytest.MonkeyPatch.context() as patch:
        rebuild_fails(source, patch)
        with pytest.raises(Lost):
            curator.observe(visitor)
    curator.observe(visitor)
    return curator


def test_a_simulation_never_draws_a_lost_batch_again() -> None:
    """It is burnt, and the next arrival takes the first slot of the next batch."""
    source = Counting()
    curator = lost_in_a_simulation(source)
    assert curator.learner.records == ()
    assert (curator.batch.frozen.number, curator.batch.taken) == (1, 1)
    assert source.draws == DRAWS


def test_a_simulation_pays_for_a_lost_batch() -> None:
    """Its noise was drawn, so its cost is in the ledger."""
    assert lost_in_a_simulation(Counting()).ledger.rho == pytest.approx(1.0)
