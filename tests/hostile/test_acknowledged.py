"""What `acknowledged` would notice: each fault that a service might have is planted in its database."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.hostile.acknowledged import BROKEN, compared
from tests.hostile.shoppers import Shopper, Told, shopping
from tests.serving.service.harness import Process, stocked

from quietshelf.serving.service.database import learning, schema

WINDOW = 1.0
PLANTED = {
    "offers_lost": "DELETE FROM offers WHERE answer IS NOT NULL AND slot = (SELECT min(slot) FROM offers "
    "WHERE answer IS NOT NULL)",
    "choices_lost_or_changed": "UPDATE offers SET answer = CASE answer WHEN 0 THEN 1 ELSE 0 END",
    "visits_lost": "UPDATE shelves SET arrivals = arrivals + 1",
    "visits_doubled": "UPDATE shelves SET arrivals = arrivals + 1",
    "releases_lost": "DELETE FROM releases WHERE number > 1",
    "faults_in_the_ledger": "UPDATE releases SET score_scale = 2 * score_scale + 1",
}
"""What is done to the database, by the figure that must tell of it."""


@pytest.fixture(scope="module")
def visited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sequence[Shopper]]:
    """The folder of a service that made releases and has an open batch, stopped, and those who visited."""
    folder = tmp_path_factory.mktemp("visited")
    process = Process(f"sqlite:///{folder}/shop.db", folder, program="tests.serving.service.exact")
    process.start()
    try:
        with process.client() as client:
            stocked(client, window=WINDOW)
            with shopping(process, 2, pause=0.05) as shoppers:
                while _open(client.get("/v1/shelves/teas").json()["releases"], shoppers):
                    time.sleep(0.05)
        process.stop()
    finally:
        process.end()
    return folder, shoppers


def _open(releases: int, shoppers: Sequence[Shopper]) -> bool:
    """Whether nobody was told of the latest of two releases yet."""
    return releases < 2 or max(offer.release for each in shoppers for offer in [*each.offers.values()]) < releases


@pytest.fixture
def copy(visited: tuple[Path, Sequence[Shopper]], tmp_path: Path) -> tuple[Path, Sequence[Shopper]]:
    """Of that folder, to be changed."""
    folder, shoppers = visited
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path, shoppers


def _found(folder: Path, shoppers: Sequence[Shopper]) -> dict[str, int]:
    return compared(f"sqlite:///{folder}/shop.db", folder, shoppers, exact=True)


def test_a_sound_service_breaks_no_figure(copy: tuple[Path, Sequence[Shopper]]) -> None:
    """And sums were compared."""
    found = _found(*copy)
    assert {name: found[name] for name in BROKEN if found[name]} == {}
    assert found["offers_acknowledged"] > 0
    assert found["sums_compared_with_acknowledged_choices"] > 0


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_told_by_its_figure(name: str, copy: tuple[Path, Sequence[Shopper]]) -> None:
    """One statement in the database is enough."""
    folder, shoppers = copy
    _change(folder, PLANTED[name])
    assert _found(folder, shoppers)[name] > 0


def test_a_choice_that_is_missing_in_a_released_sum_is_told(copy: tuple[Path, Sequence[Shopper]]) -> None:
    """Its row is gone by then: the sum alone can tell."""
    folder, shoppers = copy
    engine = sa.create_engine(f"sqlite:///{folder}/shop.db")
    table = schema.releases
    with engine.begin() as connection:
        row = connection.execute(sa.select(table).where(table.c.number == 1)).one()
        score = learning.unpacked(row.score, -1)
        score[0] += 1e-3
        connection.execute(sa.update(table).where(table.c.number == 1).values(score=learning.packed(score)))
    engine.dispose()
    assert _found(folder, shoppers)["sums_that_differ"] == 1


def test_a_release_before_the_end_of_its_window_is_told(copy: tuple[Path, Sequence[Shopper]]) -> None:
    """By the watches of visitors: so it was, had the window been an hour."""
    folder, shoppers = copy
    engine = sa.create_engine(f"sqlite:///{folder}/shop.db")
    with engine.begin() as connection:
        config = json.loads(connection.execute(sa.select(schema.shelves.c.config)).scalar_one())
        connection.execute(sa.update(schema.shelves).values(config=json.dumps({**config, "window": 3600.0})))
    engine.dispose()
    assert _found(folder, shoppers)["releases_early"] > 0


def test_wrong_replies_and_offers_told_twice_are_told(copy: tuple[Path, Sequence[Shopper]]) -> None:
    """What clients saw, and the database cannot know."""
    folder, shoppers = copy
    (name, told), *_ = shoppers[0].offers.items()
    again = Shopper(shoppers[0].process, 99, shoppers[0].stop, offers={name: Told(*told)}, wrong=["offers: 500"])
    again.visitors[name] = shoppers[0].visitors[name]
    found = _found(folder, [*shoppers, again])
    assert (found["offers_told_twice"], found["wrong_replies"]) == (1, 1)


def _change(folder: Path, statement: str) -> None:
    engine = sa.create_engine(f"sqlite:///{folder}/shop.db")
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()
