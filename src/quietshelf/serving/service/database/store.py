"""One database, SQLite or PostgreSQL by URL, behind two doors: transactions that write, and connections that read."""

from __future__ import annotations

import math
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DisconnectionError

from quietshelf.model.types import require
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.frozen import FrozenBatches
from quietshelf.serving.service.database.vault import Vault

LOCKS = 0x71756965
"""Tells our advisory lock, for migrations, from others' in one PostgreSQL."""
WAIT_MILLISECONDS = 20_000
IDLE_SECONDS = 0.5
LOG_PAGES = 16_384
"""From this many pages on whoever commits empties SQLite's log file: 64 MB, which `Store.checkpoint` never lets it grow
to while nobody reads for long."""
REST_PAGES, TRIES = 128, 4
"""Pages that are moved out of it while nobody may write, and how often it is tried to leave no more than these."""
CONNECTION = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "options": "-c lock_timeout=2s -c statement_timeout=60s -c idle_in_transaction_session_timeout=30s",
}
"""How long PostgreSQL is waited for: a row that somebody has locked must not stop other shelves, a machine that is gone
or stopped must not keep its locks."""


class Clock(Protocol):
    """Tells the time in seconds since 1970."""

    def now(self) -> float: ...  # noqa: D102 - see above


class SteadyClock:
    """The wall clock when it was made, and from then on time that only passes: a clock that is set moves nothing.

    Args:
        offset: Wall clock less `time.monotonic`, where another process of this machine has read it: processes that
            share a database share their time, whenever they were started.
    """

    def __init__(self, offset: float | None = None) -> None:
        self.offset = time.time() - time.monotonic() if offset is None else offset

    def now(self) -> float:
        """The time."""
        return self.offset + time.monotonic()

    @property
    def drift(self) -> float:
        """How far the wall clock has been moved meanwhile, in seconds."""
        return time.time() - self.now()


class Store:
    """Connections to one database.

    Args:
        url: Where it is, with its driver.
        vault: The folder of secrets that belongs to it.
        clock: Time, if not this machine's or PostgreSQL's own.
        application: What PostgreSQL calls its sessions (`in_use`).

    Attributes:
        frozen: What open batches froze, as the writer knows it.
        held: What is let go of when the store is closed.
        written: Whether anything was written since the last `checkpoint`.
    """

    def __init__(self, url: str, vault: Vault, clock: Clock | None = None, *, application: str = "quietshelf") -> None:
        self.vault = vault
        self.frozen = FrozenBatches()
        self.held = ExitStack()
        self._clock: Clock | None = clock
        self.written = True
        self.sqlite = url.startswith("sqlite")
        # SQLite has one writer: threads of this process take turns here, for it would let them sleep and ask again
        self._turn: AbstractContextManager[Any] = threading.Lock() if self.sqlite else nullcontext()
        if self.sqlite:
            _keep_private(url)
            self._writer = _sqlite(url, "BEGIN IMMEDIATE")
            self._reader = _sqlite(url, "BEGIN")
            self._clock = self._clock or SteadyClock()
        else:
            named = {"application_name": application, **CONNECTION}
            self._writer = sa.create_engine(url, pool_size=8, max_overflow=8, connect_args=named)
            event.listen(self._writer, "checkout", _ping)
            one_snapshot = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            self._reader = self._writer.execution_options(**one_snapshot)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: all of it or, on any error, nothing."""
        with self._turn, self._writer.begin() as connection:
            self.written = True
            yield connection

    @contextmanager
    def rehearse(self) -> Iterator[Connection]:
        """One transaction of which nothing stays."""
        with self._turn, self._writer.connect() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A look at what is committed, the same moment for every statement."""
        with self._reader.connect() as connection, connection.begin():
            yield connection

    def now(self, connection: Connection, *, after: float = 0.0) -> float:
        """The time, never before ``after``; where several machines share a database, the database's own."""
        if self._clock is not None:
            return max(self._clock.now(), after)
        moment = connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
        return max(float(moment), after)

    def local_now(self, offset: float) -> float:
        """The time as far as it is known without asking the database; ``offset``: its time less ``time.monotonic``."""
        return offset + time.monotonic() if self._clock is None else self._clock.now()

    @property
    def clock_drift(self) -> float:
        """How far this machine's wall clock was moved since the start, in seconds."""
        return self._clock.drift if isinstance(self._clock, SteadyClock) else 0.0

    def checkpoint(self, *, empty: bool = False) -> bool:
        """Move SQLite's log file into the database, on the disk; False if a reader is in the way: try again later.

        Most of it while others write; they wait for the last few pages alone, after which the file begins again.

        Args:
            empty: Cut the file, so that nothing that was deleted stays in it.
        """
        if not self.sqlite:
            return True
        with closing(self._reader.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute("PRAGMA busy_timeout=0")  # never wait for a reader
            self.written = False
            few = any(_moved(cursor, "PASSIVE") <= REST_PAGES for _ in range(TRIES))
            if few:
                with self._turn:
                    few = _moved(cursor, "TRUNCATE" if empty else "PASSIVE") == 0
            self.written |= not few
            cursor.execute(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")
        return few

    def migrate(self) -> None:
        """Take the tables to the newest form, and check that this database belongs to this key."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
        with self.write() as connection:
            if not self.sqlite:
                for limit in ("lock_timeout", "statement_timeout"):  # nobody is served yet
                    connection.execute(sa.text(f"SET LOCAL {limit} = 0"))
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCKS)))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            self._introduce(connection)

    def _introduce(self, connection: Connection) -> None:
        row = connection.execute(sa.select(schema.store)).one_or_none()
        check = self.vault.key_check
        if row is None:
            identity = secrets.token_hex(8)
            first = {"one": 1, "identity": identity, "key_check": check, "epoch": 0, "dropped": 0}
            connection.execute(sa.insert(schema.store), first)
            return
        belongs = secrets.compare_digest(row.key_check, check)
        rule = "the key file must be the one this database was made with (name its folder with --secrets)"
        require(belongs, f"{rule}, got another")

    def close(self) -> None:
        """Give all connections back."""
        self._writer.dispose()
        self._reader.dispose()
        self.held.close()


def made(url: str) -> bool:
    """Whether a service has made its tables there; nothing is made by asking."""
    place = sa.make_url(url)
    if place.drivername.startswith("sqlite") and not Path(place.database or "").is_file():
        return False
    engine = sa.create_engine(url)
    try:
        return sa.inspect(engine).has_table(schema.store.name)
    finally:
        engine.dispose()


def _keep_private(url: str) -> None:
    """Let the file be its owner's alone before SQLite opens it; SQLite gives its log files the same mode."""
    name = sa.make_url(url).database
    require(not (name or "").startswith("file:"), "database must name a SQLite file by its path", database=name)
    if not name or name == ":memory:" or not Path(name).parent.is_dir():
        return  # nothing to keep, or SQLite will say what is wrong
    os.close(os.open(name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    for path in (Path(name), Path(name + "-wal"), Path(name + "-shm")):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            try:
                path.chmod(0o600)
            except PermissionError:
                rule = "the database must be readable by its owner alone (who can chmod it to 600)"
                raise PermissionError(f"{rule}, got {path.name}") from None


def _ping(connection: Any, record: Any, _proxy: Any) -> None:
    """See whether a connection that was idle still stands: PostgreSQL may have been started again.

    One that was used just now costs no question; if it is gone all the same, its transaction fails and says so.
    """
    now, last = time.monotonic(), record.info.get("used", 0.0)
    record.info["used"] = now
    if now - last < IDLE_SECONDS:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        connection.rollback()
    except Exception:
        raise DisconnectionError from None  # the pool makes another one


def _moved(cursor: Any, how: str) -> float:
    """Move what can be moved out of SQLite's log file; how many pages are left there."""
    cursor.execute(f"PRAGMA wal_checkpoint({how})")
    busy, log, done = cursor.fetchone()
    return math.inf if busy else log - done


def _sqlite(url: str, begin: str) -> Engine:
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_MILLISECONDS / 1000, "check_same_thread": False})

    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # BEGIN is said below, not guessed by the driver
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        connection.execute(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")

    def start(connection: Any) -> None:
        connection.driver_connection.execute(begin)

    event.listen(engine, "connect", connect)
    # Not by the event "begin": whoever listens to one, SQLAlchemy looks for listeners several times at every statement.
    engine.dialect.do_begin = start  # type: ignore[assignment, method-assign]
    return engine


def one(connection: Connection, statement: sa.Select[Any]) -> dict[str, Any] | None:
    """The only row of a query by column name, or None."""
    row = connection.execute(statement).mappings().one_or_none()
    return None if row is None else dict(row)
