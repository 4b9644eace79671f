"""One database, SQLite or PostgreSQL, with write transactions and read snapshots."""

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
from quietshelf.serving.service.database.prepared import driven
from quietshelf.serving.service.database.vault import Vault

LOCKS = 0x71756965
"""The advisory lock for migrations on PostgreSQL."""
WAIT_MILLISECONDS = 20_000
IDLE_SECONDS = 0.5
LOG_PAGES = 16_384
"""Pages of SQLite's log file, 64 MB, at which any commit checkpoints it. `Store.checkpoint` keeps it smaller unless a
reader takes long."""
REST_PAGES, TRIES = 128, 4
"""Most pages checkpointed while writers wait, and the number of attempts to leave no more than that."""
CONNECTION = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "options": "-c lock_timeout=2s -c statement_timeout=60s -c idle_in_transaction_session_timeout=30s",
}
"""Time limits on PostgreSQL: one locked row must not stop other shelves, and a machine that is gone or stopped must not
keep its locks."""


class Clock(Protocol):
    """Tells the time in seconds since 1970."""

    def now(self) -> float: ...  # noqa: D102 - see above


class SteadyClock:
    """Starts at the wall clock and then only moves forward, even if the wall clock is set.

    Args:
        offset: Wall clock minus `time.monotonic`, as read by another process of this machine, so that processes that
            share a database share their time.
    """

    def __init__(self, offset: float | None = None) -> None:
        self.offset = time.time() - time.monotonic() if offset is None else offset

    def now(self) -> float:
        """The time."""
        return self.offset + time.monotonic()

    @property
    def drift(self) -> float:
        """How far the wall clock has been moved since, in seconds."""
        return time.time() - self.now()


class Store:
    """Connections to one database.

    Args:
        url: Where it is, with its driver.
        vault: Its folder of secrets.
        clock: A clock to use instead of this machine's or PostgreSQL's.
        application: The name of its sessions on PostgreSQL (`in_use`).

    Attributes:
        frozen: What open batches froze, for the writer's thread.
        held: Resources released when the store is closed.
        written: Whether anything was written since the last `checkpoint`.
    """

    def __init__(self, url: str, vault: Vault, clock: Clock | None = None, *, application: str = "quietshelf") -> None:
        self.vault = vault
        self.frozen = FrozenBatches()
        self.held = ExitStack()
        self._clock: Clock | None = clock
        self.written = True
        self.sqlite = url.startswith("sqlite")
        # SQLite has one writer. Threads of this process take turns here, because SQLite itself would sleep and poll
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
        """A transaction that is rolled back on any error."""
        with self._turn, self._writer.begin() as connection:
            self.written = True
            yield connection

    @contextmanager
    def rehearse(self) -> Iterator[Connection]:
        """A transaction that is always rolled back."""
        with self._turn, self._writer.connect() as connection, connection.begin() as transaction:
            try:
                yield connection
            finally:
                transaction.rollback()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A read-only snapshot of what is committed."""
        with self._reader.connect() as connection, connection.begin():
            yield connection

    def now(self, connection: Connection) -> float:
        """The time; where several machines share a database, the database's own."""
        if self._clock is not None:
            return self._clock.now()
        return float(driven(connection, "SELECT extract(epoch FROM clock_timestamp())::float8", None).fetchone()[0])

    def local_now(self, offset: float) -> float:
        """The time, without asking the database; ``offset`` is the database's time minus ``time.monotonic``."""
        return offset + time.monotonic() if self._clock is None else self._clock.now()

    @property
    def clock_drift(self) -> float:
        """How far this machine's wall clock has been moved since the start, in seconds."""
        return self._clock.drift if isinstance(self._clock, SteadyClock) else 0.0

    def checkpoint(self, *, empty: bool = False) -> bool:
        """Checkpoint SQLite's log file into the database; False if a reader is in the way.

        Most of it happens while others write. They wait only for the last few pages.

        Args:
            empty: Truncate the file, so that no deleted data stays in it.
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
        """Migrate the tables to the current form, and check that the database belongs to this key."""
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parents[1] / "migrations"))
        with self.write() as connection:
            if not self.sqlite:
                for limit in ("lock_timeout", "statement_timeout"):  # nobody is being served yet
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
        """Close all connections."""
        self._writer.dispose()
        self._reader.dispose()
        self.held.close()


def made(url: str) -> bool:
    """Whether a database with our tables exists there. Asking creates nothing."""
    place = sa.make_url(url)
    if place.drivername.startswith("sqlite") and not Path(place.database or "").is_file():
        return False
    engine = sa.create_engine(url)
    try:
        return sa.inspect(engine).has_table(schema.store.name)
    finally:
        engine.dispose()


def _keep_private(url: str) -> None:
    """Create the file readable by its owner only; SQLite gives its log files the same mode."""
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
    """Check that an idle connection is still alive: PostgreSQL may have been restarted.

    A recently used connection is not checked; if it is dead, its transaction fails.
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
        raise DisconnectionError from None  # the pool opens another one


def _moved(cursor: Any, how: str) -> float:
    """Checkpoint what is possible of SQLite's log file; returns how many pages are left."""
    cursor.execute(f"PRAGMA wal_checkpoint({how})")
    busy, log, done = cursor.fetchone()
    return math.inf if busy else log - done


def _sqlite(url: str, begin: str) -> Engine:
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_MILLISECONDS / 1000, "check_same_thread": False})

    def connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # BEGIN is sent below, not guessed by the driver
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        connection.execute(f"PRAGMA busy_timeout={WAIT_MILLISECONDS}")

    def start(connection: Any) -> None:
        connection.driver_connection.execute(begin)

    event.listen(engine, "connect", connect)
    # Not the event "begin": with any listener, SQLAlchemy looks for listeners several times at every statement.
    engine.dialect.do_begin = start  # type: ignore[assignment, method-assign]
    return engine


def one(connection: Connection, statement: sa.Select[Any]) -> dict[str, Any] | None:
    """The only row of a query by column name, or None."""
    row = connection.execute(statement).mappings().one_or_none()
    return None if row is None else dict(row)
