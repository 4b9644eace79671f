"""Load on a service, watched from outside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import sqlalchemy as sa
from tests.serving.service.harness import Process, answered, offered

KEEP = """
CREATE TABLE kept AS SELECT batch, slot, answer, person, contribution FROM offers WITH NO DATA;
CREATE FUNCTION keep() RETURNS trigger AS $$
BEGIN INSERT INTO kept VALUES (OLD.batch, OLD.slot, OLD.answer, OLD.person, OLD.contribution); RETURN OLD; END
$$ LANGUAGE plpgsql;
CREATE TRIGGER keep BEFORE DELETE ON offers FOR EACH ROW EXECUTE FUNCTION keep();
"""
"""What a release forgets, for the test to look at."""


class Load:
    """Visitors who come to both processes by turns, and ask again with the same key until one of them answers."""

    again: tuple[int, ...] = (503,)

    def __init__(self, *processes: Process) -> None:
        self._processes, self._stop = processes, threading.Event()
        self.offers: list[str] = []
        self.answers: list[str] = []
        self.refused: list[int] = []

    def come(self, number: int) -> None:
        clients = [process.client() for process in self._processes]
        visitor = 0
        while not self._stop.is_set():
            visitor += 1
            said = self._until_answered(clients, f"{number}-{visitor}", f"person {visitor % 40}")
            if said is not None:
                self.offers.append(said["offer"])
                self._answer(clients[visitor % 2], said)
        for each in clients:
            each.close()

    def _until_answered(self, clients: list[httpx.Client], key: str, person: str) -> dict[str, Any] | None:
        attempt = 0
        while not self._stop.is_set():
            attempt += 1
            try:
                reply = offered(clients[attempt % 2], retry=key, person=person)
            except httpx.TransportError:
                continue
            if reply.status_code == 200:
                return dict(reply.json())
            if reply.status_code not in self.again:
                self.refused.append(reply.status_code)
                return None
        return None

    def _answer(self, client: httpx.Client, said: dict[str, Any]) -> None:
        try:
            if answered(client, said["offer"], said["items"][0]).status_code == 204:
                self.answers.append(said["offer"])
        except httpx.TransportError:
            return

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.come, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            self._stop.set()
            for each in threads:
                each.join()


def _place(offer: str) -> tuple[int, int]:
    _, batch, slot, _ = offer.split(".", 3)
    return int(batch), int(slot)


def check(engine: sa.Engine, load: Load) -> None:
    """Everything acknowledged is there, no slot was given twice, and a person counts once: `visits` is 1."""
    columns = "batch, slot, answer, person, contribution"
    query = sa.text(f"SELECT {columns} FROM kept UNION ALL SELECT {columns} FROM offers")  # noqa: S608 - our own
    with engine.connect() as connection:
        rows = {(row.batch, row.slot): row for row in connection.execute(query)}
    places = [_place(offer) for offer in load.offers]
    assert len(set(places)) == len(places) > 0
    assert set(places) <= set(rows)
    assert all(rows[_place(offer)].answer == 0 for offer in load.answers)
    counted = [row.person for row in rows.values() if row.contribution is not None]
    assert len(set(counted)) == len(counted)
    assert load.refused == []


@contextmanager
def watched(process: Process) -> Iterator[sa.Engine]:
    engine = sa.create_engine(process.database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sa.text(KEEP))
    try:
        yield engine
    finally:
        engine.dispose()
