"""Locks that let services share a database, and `quietshelf restore` have it alone.

Every process of a service holds a shared lock on two files while it lives: one in the secrets folder, and one beside a
SQLite database, which could be served with another folder. A process that dies releases them. Services on other
machines that share a PostgreSQL have their own folders; their sessions' names give them away.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.settings import ServiceSettings

SERVICE = "quietshelf serve"
"""The application name of a service's sessions on PostgreSQL. Commands use another."""
FILE = "in-use"
GRACE_SECONDS = 2.0
"""PostgreSQL still lists a session for a moment after its process has ended."""
RULE = "restore needs a database that no service is using (stop `quietshelf serve` first)"
RESTORING = "the database must not be under restore (wait for `quietshelf restore` to end), got its lock on {path}"
SESSIONS = (
    "{rule}, got sessions of a service on PostgreSQL: {found}; if a session's machine is lost, end the session "
    "with SELECT pg_terminate_backend({first})"
)


def shared(settings: ServiceSettings) -> AbstractContextManager[None]:
    """Use the database together with other services; refused while it is being restored."""
    return _locked(settings, fcntl.LOCK_SH, RESTORING)


def alone(settings: ServiceSettings) -> AbstractContextManager[None]:
    """Use the database and its epoch file alone; refused while a service of this machine uses them."""
    return _locked(settings, fcntl.LOCK_EX, f"{RULE}, got one that holds a lock on {{path}}")


def check_sessions(store: Store) -> None:
    """Refuse if any machine's service has a session on this PostgreSQL database."""
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        with store.read() as connection:
            if not sessions(connection):
                return
        time.sleep(0.05)
    with store.read() as connection:
        refuse_sessions(connection)


def refuse_sessions(connection: Connection) -> None:
    """Refuse if a service has a session now, as seen from one transaction."""
    found = sessions(connection)
    if found:
        listed = ", ".join(f"process {pid} from {address}" for pid, address in found.items())
        raise ValueError(SESSIONS.format(rule=RULE, found=listed, first=next(iter(found))))


def sessions(connection: Connection) -> dict[int, str]:
    """Services' sessions on this database and their addresses; none on SQLite."""
    if connection.dialect.name == "sqlite":
        return {}
    query = sa.text(
        "SELECT pid, coalesce(host(client_addr), 'the same machine') AS address FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = :name ORDER BY pid"
    )
    return {row.pid: row.address for row in connection.execute(query, {"name": SERVICE})}


@contextmanager
def _locked(settings: ServiceSettings, how: int, refusal: str) -> Iterator[None]:
    with ExitStack() as held:
        for path in _files(settings):
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            held.callback(os.close, file)
            require(_got(file, how), refusal.format(path=path))
        yield


def _got(file: int, how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _files(settings: ServiceSettings) -> Iterator[Path]:
    """The files to lock; none beside a SQLite database that does not exist."""
    yield Path(settings.secrets) / FILE
    place = sa.make_url(settings.url)
    if place.drivername.startswith("sqlite") and place.database not in (None, "", ":memory:"):
        database = Path(str(place.database)).resolve()
        beside = database.with_name(f"{database.name}-{FILE}")
        if database.exists() or beside.exists():
            yield beside
