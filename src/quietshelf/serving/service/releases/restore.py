"""Makes sure that no visitor is released twice after a crash or a restored backup (R7, R8; docs/proofs.md, section 6).

The epoch file, outside the database, knows how many batches were opened and released, and which one was announced. If
the database lags its epoch file, a commit was lost: a backup was restored, or a standby took over. Then open batches
are dropped, which costs nothing; releases and shelves that the database has forgotten are entered by their cost; and
the shelves' notes say so. A batch that was announced and is still there may have been drawn. It is burnt: its cost is
entered and its visitors are left out. Batch numbers are never reused. The same check runs at start, soon after a batch
opens or fills, and before every release.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.database.vault import Progress
from quietshelf.serving.service.releases import epochs
from quietshelf.serving.service.releases.election import Announcement, Election, withdraw
from quietshelf.serving.service.releases.epochs import Look
from quietshelf.serving.service.releases.losses import BURNT, Dropped, delete_batch, enter_costs, lose, noted, settle

INTERRUPTED = (
    "{when}: the release of batch {batch} was interrupted. Its {visitors} visitors were left out, since its noise may "
    "have been drawn; its cost is in the ledger."
)


def check(
    store: Store,
    source: NoiseSource,
    *,
    burns: bool = True,
    told: Announcement | None = None,
    election: Election | None = None,
) -> Checked:
    """R8: drop what may already have been released, and update the epoch file. The caller holds the file's lock.

    It writes nothing if nothing is wrong, since it runs whenever a batch opens.

    Args:
        store: The database and its epoch file.
        source: Where noise comes from.
        burns: Whether this process may burn announced batches: on PostgreSQL, whether it leads.
        told: The announcement that this process made and has not drawn yet.
        election: This process among those that share a PostgreSQL.
    """
    with store.read() as connection:
        state = state_of(connection, store)
        alone = election is None or election.alone(connection)
        if election is not None:
            told = _undrawn(connection, state.seen.announced, told, store.vault.epoch)
    dropped: Dropped | None = None
    seen: Look | None = state.seen
    pending = [each for each in state.pending if burns and (told is None or each.id != told.id)]
    fresh = state.fresh and alone
    if state.behind or fresh or pending:
        with store.write() as connection:
            _wait_for(connection, store, pending)
            state, seen = state_of(connection, store), None
            if state.behind:
                known = store.vault.epoch
                dropped = settle(connection, store, known, lose(connection, store, source, known))
            else:
                if pending:
                    if election is not None:
                        election.fence(connection)
                    dropped = _burn(connection, store, source, state, pending)
                fresh = fresh and state.fresh
                if fresh:
                    epochs.take_over(store, connection)
    last = epochs.note(store, seen=seen, afresh=state.behind, mine=state.behind or fresh)
    return Checked(dropped, last, told, left=any(each != told for each in state.seen.announced))


class Checked(NamedTuple):
    """What a check found.

    Attributes:
        dropped: What it dropped, if anything.
        noted: The last announcement in the epoch file.
        told: This process's own announcement, not drawn yet.
        left: Whether another announcement was there, whose releaser may be gone.
    """

    dropped: Dropped | None
    noted: str | None
    told: Announcement | None
    left: bool


class State(NamedTuple):
    """How the database compares with its epoch file.

    Attributes:
        behind: A commit was lost.
        fresh: Nothing was ever announced.
        pending: Announcements whose cost is not in the database.
        known: What file and database say of each shelf.
        seen: What was read of the database.
    """

    behind: bool
    fresh: bool
    pending: list[Announcement]
    known: Progress
    seen: Look


def state_of(connection: Connection, store: Store) -> State:
    """Compare them. Refuses another database's file and, on SQLite, a database whose file is missing."""
    seen, file = epochs.look(connection), store.vault.epoch
    this, found, under_way = seen
    same = file.get("identity") == this.identity
    newcomer = not file and not store.sqlite
    require(same or newcomer or not (epochs.used(found) or epochs.used(file.get("shelves", {}))), epochs.OTHER)
    known: Progress = file["shelves"] if same else {}
    behind = same and (this.epoch < file["epoch"] or epochs.behind(found, known))
    noted = [
        Announcement("", int(shelf), batch, None)
        for shelf, mark in known.items()
        for batch in ([] if behind else epochs.unsettled(found[shelf], mark))
    ]
    pending = noted if store.sqlite else under_way
    if not store.sqlite:  # the database must have what a file has noted, under the same id
        there = {(each.shelf, each.batch) for each in pending if each.id in file.get("releaser_ids", [])}
        behind = behind or any((each.shelf, each.batch) not in there for each in noted)
    table = schema.batches
    filling = sa.select(table.c.shelf, table.c.batch).where(table.c.full_at.is_(None))
    told = {(each.shelf, each.batch) for each in pending}
    unlikely = {tuple(row) for row in connection.execute(filling)} & told  # announced as full, and not full here
    fresh = this.releaser_id is None if epochs.current(this, [], file) else not epochs.used(found)
    return State(behind or bool(unlikely), fresh, pending, {**found, **known}, seen)


def _undrawn(
    connection: Connection, under_way: list[Announcement], told: Announcement | None, file: dict[str, Any]
) -> Announcement | None:
    """This process's announcement, if its batch can still be drawn: nobody has deleted the shelf."""
    for each in under_way:
        if each == told or epochs.untold(each, file):
            table = schema.batches
            this = sa.select(table.c.batch).where(table.c.shelf == each.shelf, table.c.batch == each.batch)
            return each if connection.execute(this).first() else None
    return None


def _wait_for(connection: Connection, store: Store, pending: list[Announcement]) -> None:
    """Wait for commits of these batches that a killed process may have left under way."""
    if not store.sqlite:
        connection.execute(sa.select(schema.releaser).with_for_update()).all()
    table = schema.batches
    for each in pending:
        this = sa.select(table.c.batch).where(table.c.shelf == each.shelf, table.c.batch == each.batch)
        connection.execute(this.with_for_update()).all()


def _burn(
    connection: Connection, store: Store, source: NoiseSource, state: State, pending: list[Announcement]
) -> Dropped:
    """R7: drop announced batches, and enter their cost."""
    visitors, table = 0, schema.shelves
    burnt = [each for each in pending if each in state.pending]  # the others were released meanwhile
    for told, shelf, batch, _ in burnt:
        this = sa.select(table).where(table.c.shelf == shelf).with_for_update()
        row = dict(connection.execute(this).mappings().one())
        withdraw(connection, told)
        left = delete_batch(connection, shelf, batch)
        enter_costs(connection, row, [batch], state.known[str(shelf)], source, BURNT)
        said = INTERRUPTED.format(when=timestamp(store.now(connection)), batch=batch, visitors=left)
        changed = {"notes": noted(row, said), "config_version": row["config_version"] + 1}
        connection.execute(sa.update(table).where(table.c.shelf == row["shelf"]).values(changed))
        visitors += left
    connection.execute(sa.update(schema.store).values(dropped=schema.store.c.dropped + visitors))
    return Dropped(visitors, len(burnt))
