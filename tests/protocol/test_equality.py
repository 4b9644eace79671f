"""The same schedule through every user of the protocol gives the same offers and the same releases, bit for bit.

One visitor per transaction or as many as wait, one worker or two, SQLite or PostgreSQL, in memory or in a simulation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.protocol.places import COINS, Place
from tests.protocol.schedules import EVEN, schedule
from tests.protocol.service_user import ServiceUser
from tests.protocol.shelf_user import ShelfUser
from tests.protocol.simulated_user import SimulatedUser
from tests.protocol.steps import Answer, Arrive, Change, Look, Schedule, Step, Write
from tests.protocol.tape import bits
from tests.protocol.worlds import Make, run
from tests.studies.size import FULL, keep

SCHEDULES = 400 if FULL else 6


def spread(found: Schedule, *, together: bool, workers: int = 1) -> Schedule:
    """The schedule with a write after every step, or only where somebody has to know the reply; by one worker or two.

    A change of the catalogue is written by itself: what comes with it in one group may see it or not. Two workers take
    turns and write at once, since they do not wait for each other (`test_two_workers`).
    """
    steps: list[Step] = []
    for place, step in enumerate(found.steps):
        turn = replace(step, worker=place % workers)
        alone = isinstance(step, Change | Look)
        if together and (alone or isinstance(step, Answer)):
            steps += [Write(worker=worker) for worker in range(workers)]
        if isinstance(step, Write):
            continue
        steps.append(turn)
        if not together or alone or workers > 1:
            steps += [Write(worker=worker) for worker in range(workers)]
    return replace(found, steps=tuple(steps), workers=workers)


def told(found: Schedule, make: Make) -> dict[str, Any]:
    """What a user makes of a schedule, in the words that all have: offers by visit, and the figures of releases."""
    seen = run(found, make)
    offers = {each.owner: each.content for step in seen.seen for each in step if each.what == "offer"}
    return {
        "offers": {visit: _items(content) for visit, content in sorted(offers.items())},
        "sums": bits([each.reshape(-1) for each in seen.tape.totals]),
        "releases": bits([each.reshape(-1) for each in seen.tape.released]),
    }


def _items(content: Any) -> list[int]:
    items = content["items"] if isinstance(content, dict) else content
    return [int(item) for item in items if int(item) >= 0]


@pytest.mark.study
def test_every_user_makes_the_same_offers_and_releases(place: Callable[[str], Place]) -> None:
    """With the same gridded noise and the same coins, and answers in any order that their windows allow."""
    served = {store: partial(ServiceUser, place=place(store)) for store in ("sqlite", "postgresql")}
    began, releases = time.monotonic(), 0
    for seed in range(SCHEDULES):
        whole = schedule(seed, EVEN)
        alone, together, both = (spread(whole, together=t, workers=w) for t, w in ((False, 1), (True, 1), (True, 2)))
        first = told(whole, partial(ShelfUser, coins=COINS))
        releases += len(first["releases"]) // 2
        for name, make in served.items():
            for way, one in (("alone", alone), ("together", together), ("two workers", both)):
                assert _upto(told(one, make), first) == first, f"seed {seed}: {name}, {way}"
    keep(f"equality-{SCHEDULES}", schedules=SCHEDULES, releases=releases, seconds=round(time.monotonic() - began))
    assert releases > SCHEDULES


@pytest.mark.study
def test_a_simulation_releases_what_a_shelf_does() -> None:
    """Where every answer comes with its visit, and a batch is released before the next arrival."""
    compared = 0
    for seed in range(20 * SCHEDULES):
        whole = schedule(seed, replace(EVEN, arms=False))
        shop = replace(whole.shop, window=1)
        steps = [step for step in whole.steps if not isinstance(step, Answer)]
        at_once = [
            each
            for step in steps
            for each in (step, *(_answers(whole, step) if isinstance(step, Arrive) else ()))
        ]  # fmt: skip
        found = replace(whole, shop=shop, steps=tuple(at_once))
        first = told(found, partial(ShelfUser, coins=COINS))
        second = told(found, partial(SimulatedUser, alone=True))
        assert _upto(second, first) == first, seed
        compared += len(first["releases"]) // 2
    assert compared > SCHEDULES


def _upto(found: dict[str, Any], shelf: dict[str, Any]) -> dict[str, Any]:
    """What was found by the last release of the shelf, which waits for an arrival: others release by the clock."""
    count = len(shelf["releases"])
    return {**found, "sums": found["sums"][:count], "releases": found["releases"][:count]}


def _answers(whole: Schedule, step: Arrive) -> list[Step]:
    """The answer that a simulation's visitor gives at once."""
    return [Answer(visit=step.visit, place=whole.visits[step.visit][0].chooses)]
