"""What `verified` means: whoever alters the ledger or a release in the database is found out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy import Connection
from tests.serving.service.filling import figures, fill
from tests.serving.service.harness import WINDOW, FakeClock, inline, stocked

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.queries import latest_row
from quietshelf.serving.service.releases.losses import LOST
from quietshelf.serving.service.releases.verify import verify


def altered_event(connection: Connection, name: str, change: Callable[[float], float]) -> None:
    """Change a figure of the first entry."""
    where = schema.events.c.number == 0
    found = json.loads(connection.execute(sa.select(schema.events.c.event).where(where)).scalar_one())
    found[name] = change(found[name])
    connection.execute(sa.update(schema.events).where(where).values(event=json.dumps(found)))


def altered_release(connection: Connection, **changes: Any) -> None:
    """Change the first release."""
    connection.execute(sa.update(schema.releases).where(schema.releases.c.number == 1).values(**changes))


def moved(connection: Connection, column: str) -> None:
    """Change the first number of something that was released, a little."""
    content = connection.execute(sa.select(schema.releases.c[column]).where(schema.releases.c.number == 1)).scalar_one()
    numbers = np.frombuffer(content).copy()
    numbers[0] += 1e-3
    altered_release(connection, **{column: numbers.tobytes()})


def added_event(connection: Connection) -> None:
    """Enter the first entry again, of a batch that was never released: no budget would notice."""
    found = dict(connection.execute(sa.select(schema.events).where(schema.events.c.number == 0)).mappings().one())
    event = json.dumps({**json.loads(found["event"]), "batch": 77})
    connection.execute(sa.insert(schema.events), {**found, "number": 99, "batch": 77, "event": event})


def lost_release(connection: Connection, **factors: float) -> None:
    """Enter a release that a restored backup lacks, with figures that are so many times the true ones."""
    query = sa.select(schema.events).where(schema.events.c.number < 1).order_by(schema.events.c.number)
    for row in connection.execute(query).mappings().all():
        event = {**json.loads(row["event"]), "batch": 77, "detail": LOST}
        event |= {name: factor * event[name] for name, factor in factors.items()}
        entry = {**row, "number": 98 + row["number"], "batch": 77, "event": json.dumps(event)}
        connection.execute(sa.insert(schema.events), entry)


def smaller_promise(connection: Connection) -> None:
    """Change the settings to a promise that was spent long ago."""
    config = json.loads(connection.execute(sa.select(schema.shelves.c.config)).scalar_one())
    connection.execute(sa.update(schema.shelves).values(config=json.dumps({**config, "rho": config["rho"] / 2})))


TAMPERING: dict[str, Callable[[Connection], Any]] = {
    "a cost one bit too low": lambda c: altered_event(c, "rho", lambda rho: math.nextafter(rho, 0)),
    "noise that was not drawn": lambda c: altered_event(c, "noise", lambda noise: 2 * noise),
    "a smaller sensitivity": lambda c: altered_event(c, "sensitivity", lambda sensitivity: sensitivity / 2),
    "an entry of another batch": lambda c: altered_event(c, "batch", lambda batch: batch + 1),
    "an entry struck out": lambda c: c.execute(sa.delete(schema.events).where(schema.events.c.number == 0)),
    "an entry too many": added_event,
    "a lost release that cost nothing": lambda c: lost_release(c, rho=0.0),
    "a lost release with more noise": lambda c: lost_release(c, rho=0.25, noise=2.0),
    "a smaller promise": smaller_promise,
    "a release struck out": lambda c: c.execute(sa.delete(schema.releases).where(schema.releases.c.number == 1)),
    "a release with less noise": lambda c: altered_release(c, score_scale=1e-3),
    "a release with another bound": lambda c: altered_release(c, bound=2.0),
    "a release of two events that has one": lambda c: altered_release(c, bound=None),
    "another score": lambda c: moved(c, "score"),
    "another estimate": lambda c: moved(c, "theta"),
    "another precision": lambda c: moved(c, "precision"),
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with two releases, whose service has stopped."""
    folder, clock = tmp_path_factory.mktemp("shop"), FakeClock()
    url = f"sqlite:///{folder}/shop.db"
    with inline(url, folder, clock=clock) as client:
        stocked(client)
        while figures(client)[1] < 2:
            fill(client)
            clock.time += 2 * WINDOW
    return url


@pytest.mark.parametrize("tampering", TAMPERING)
def test_what_was_altered_is_found(tampering: str, shop: str) -> None:
    """The shelf is in order; each alteration is told; undone, all is in order again."""
    with sa.create_engine(shop).connect() as connection:
        assert verify(connection, latest_row(connection, "teas")) == []
        TAMPERING[tampering](connection)
        assert verify(connection, latest_row(connection, "teas")) != []
        connection.rollback()
        assert verify(connection, latest_row(connection, "teas")) == []


def test_a_lost_release_that_cost_its_share_is_in_order(shop: str) -> None:
    """What a restore enters is no alteration."""
    with sa.create_engine(shop).connect() as connection:
        lost_release(connection)
        assert verify(connection, latest_row(connection, "teas")) == []
