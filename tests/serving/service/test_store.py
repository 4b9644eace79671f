"""The store under any order of events, on both databases: a model in memory says what must be there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serving.service.harness import WINDOW, FakeClock, answered, inline, offered, stocked

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Ticket, Vault

NUMBER = st.integers(0, 10**8)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("offer"), st.integers(0, 6)),
        st.tuples(st.just("answer"), st.integers(0, 40), st.integers(-1, 2)),
        st.tuples(st.just("wait"), st.floats(0.0, 0.7)),
    ),
    min_size=10,
    max_size=50,
)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_any_order_of_offers_answers_and_waiting_is_kept(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Retries repeat, answers stand, other and late ones are refused; what is stored is what was acknowledged."""
    from tests.serving.service.conftest import fresh_postgres

    url = f"sqlite:///{tmp_path}/shop.db"
    if kind == "postgres":
        url = fresh_postgres(request.getfixturevalue("postgres"))
    clock, count = FakeClock(), [0]
    with inline(url, tmp_path, clock=clock, poll_seconds=3600.0) as client:

        @given(steps=STEPS)
        @settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
        def run(steps: list[tuple[Any, ...]]) -> None:
            count[0] += 1
            name = f"shelf-{count[0]}"
            stocked(client, name)
            _replay(client, clock, name, steps)

        run()


def _replay(client: Any, clock: FakeClock, name: str, steps: list[tuple[Any, ...]]) -> None:
    """Each step against a model: offers by key, when they were made, and the first answer to each."""
    made: dict[str, tuple[dict[str, Any], float]] = {}
    given_answers: dict[str, str | None] = {}
    for step in steps:
        if step[0] == "wait":
            clock.time += step[1] * WINDOW
        elif step[0] == "offer":
            reply = offered(client, name, retry=f"{name} {step[1]}")
            known = made.get(f"{name} {step[1]}")
            assert reply.status_code == 200, reply.text
            assert known is None or known[0] == reply.json()
            made.setdefault(f"{name} {step[1]}", (reply.json(), clock.time))
        elif made:
            offer, when = list(made.values())[step[1] % len(made)]
            item = None if step[2] < 0 else offer["items"][step[2]]
            reply = answered(client, offer["offer"], item)
            first = given_answers.get(offer["offer"], item)
            expected = 409 if clock.time >= when + WINDOW or first != item else 204
            assert reply.status_code == expected
            if expected == 204:
                given_answers[offer["offer"]] = item
    found = client.get(f"/v1/shelves/{name}").json()
    assert found["arrivals"] == len(made)
    with client.service.store.read() as connection:
        number = int(next(iter(made.values()))[0]["offer"].split(".")[0]) if made else -1
        table = schema.offers
        rows = connection.execute(sa.select(table.c.answer).where(table.c.shelf == number)).scalars().all()
    assert sum(row is not None for row in rows) == len(given_answers)


def test_migrations_lead_to_the_tables_in_the_code(database: str, tmp_path: Path) -> None:
    """From nothing, and again from the last step: what Alembic built is what the code declares."""
    store = Store(_driver(database), Vault(tmp_path / "secrets"))
    store.migrate()
    store.migrate()
    with store.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    store.close()


@given(shelf=NUMBER, batch=NUMBER, slot=NUMBER, nonce=st.binary(min_size=9, max_size=9))
def test_offer_ids_are_recognised_and_cannot_be_made_up(
    tmp_path_factory: pytest.TempPathFactory, shelf: int, batch: int, slot: int, nonce: bytes
) -> None:
    """What the vault made it knows again; the same id with anything altered it does not."""
    vault = Vault(tmp_path_factory.getbasetemp() / "vault")
    ticket = Ticket(shelf, batch, slot, nonce)
    name = vault.offer_id(ticket)
    assert vault.ticket(name) == ticket
    other = vault.offer_id(ticket._replace(slot=slot + 1))
    assert vault.ticket(name.rpartition(".")[0] + "." + other.rpartition(".")[2]) is None
    for wrong in ("", "1.2.3", name + "A", name.upper(), name.replace(".", "-"), "é" + name):
        assert vault.ticket(wrong) is None or wrong == name


def test_the_database_is_its_owners_alone(tmp_path: Path) -> None:
    """New files and SQLite's logs are made so, whatever the umask; files that others could read are closed to them."""
    path, before = tmp_path / "shop.db", os.umask(0o022)
    try:
        for _ in range(2):
            store = Store(f"sqlite:///{path}", Vault(tmp_path / "secrets"))
            store.migrate()
            found = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.glob("shop.db*")}
            assert found == dict.fromkeys(("shop.db", "shop.db-wal", "shop.db-shm"), 0o600)
            for each in tmp_path.glob("shop.db*"):
                each.chmod(0o644)
            store.close()
    finally:
        os.umask(before)


def _driver(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


def test_a_person_has_another_hash_on_every_shelf_and_under_every_key(tmp_path: Path) -> None:
    """Two shelves, or two databases, cannot be joined by their hashes."""
    vault, other = Vault(tmp_path / "one"), Vault(tmp_path / "other")
    assert vault.person(1, "anna") == Vault(tmp_path / "one").person(1, "anna")
    assert len({vault.person(1, "anna"), vault.person(2, "anna"), other.person(1, "anna")}) == 3
