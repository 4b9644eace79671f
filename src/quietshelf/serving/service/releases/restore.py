"""What may have been released already is never released again (R7, R8; docs/proofs.md, section 6).

The epoch file, outside the database, knows how many batches were opened and released, and which one was announced. If
the database lags its epoch file, a commit was lost: a backup was put back, or a standby took over. Its open batches are
dropped, which costs nothing; releases and shelves that it no longer knows are entered in its ledger by their cost, and
all is said. A batch that was announced and is still there may have been drawn: it is burnt, that is, its cost is
entered and its visitors are left out. Batch numbers are never used twice. The same check runs at start, soon after a
batch opens or fills, and before every release.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.model.types import require
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.database.vault import Progress
from quietshelf.serving.service.releases import epochs
from quietshelf.serving.service.releases.election import Announcement, announced, withdraw
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
    under_way: str | None = None,
    alone: bool = True,
    fence: Callable[[Connection], None] = lambda _: None,
) -> Checked:
    """R8: drop what may have been released already, and note it. The caller holds the file's lock.

    Nothing is written where nothing is wrong: it is asked whenever a batch opens.

    Args:
        store: The database and its epoch file.
        source: Where noise comes from.
        burns: Whether this process may burn what was announced: on PostgreSQL the one that leads.
        under_way: The announcement that this process is about to release, and has not drawn.
        alone: Whether no other process that may release is alive.
        fence: Raises unless this process still leads, and may burn.
    """
    with store.read() as connection:
        state = state_of(connection, store)
    dropped: Dropped | None = None
    pending = [each for each in state.pending if burns and (under_way is None or each.id != under_way)]
    fresh = state.fresh and alone
    if state.behind or fresh or pending:
        with store.write() as connection:
            _wait_for(connection, store, pending)
            state = state_of(connection, store)
            if state.behind:
                known = store.vault.epoch
                dropped = settle(connection, store, known, lose(connection, store, source, known))
            else:
                if pending:
                    fence(connection)
                    dropped = _burn(connection, store, source, state, pending)
                fresh = fresh and state.fresh
                if fresh:
                    epochs.take_over(store, connection)
    return Checked(dropped, epochs.note(store, afresh=state.behind, mine=state.behind or fresh))


class Checked(NamedTuple):
    """What a check dropped, None if nothing, and the last announcement that the epoch file has noted."""

    dropped: Dropped | None
    noted: str | None


class State(NamedTuple):
    """The database beside its epoch file.

    Attributes:
        behind: A commit was lost.
        fresh: Nothing was ever announced.
        pending: What was announced, and whose cost the database does not have.
        known: What file and database say of each shelf.
    """

    behind: bool
    fresh: bool
    pending: list[Announcement]
    known: Progress


def state_of(connection: Connection, store: Store) -> State:
    """How they compare; a file of another database is refused, and on SQLite a database without its file."""
    this = connection.execute(sa.select(schema.store)).one()
    found, file = epochs.progress(connection), store.vault.epoch
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
    pending = noted if store.sqlite else announced(connection)
    if not store.sqlite:  # what a file has noted the database must have, under the same id
        there = {(each.shelf, each.batch) for each in pending if each.id in file.get("releaser_ids", [])}
        behind = behind or any((each.shelf, each.batch) not in there for each in noted)
    table = schema.batches
    filling = sa.select(table.c.shelf, table.c.batch).where(table.c.full_at.is_(None))
    told = {(each.shelf, each.batch) for each in pending}
    unlikely = {tuple(row) for row in connection.execute(filling)} & told  # announced as full, and not full here
    fresh = this.releaser_id is None if epochs.current(this, [], file) else not epochs.used(found)
    return State(behind or bool(unlikely), fresh, pending, {**found, **known})


def _wait_for(connection: Connection, store: Store, pending: list[Announcement]) -> None:
    """Until a commit of these batches that may still be under way, of a process that was killed, has ended."""
    if not store.sqlite:
        connection.execute(sa.select(schema.releaser).with_for_update()).all()
    table = schema.batches
    for each in pending:
        this = sa.select(table.c.batch).where(table.c.shelf == each.shelf, table.c.batch == each.batch)
        connection.execute(this.with_for_update()).all()


def _burn(
    connection: Connection, store: Store, source: NoiseSource, state: State, pending: list[Announcement]
) -> Dropped:
    """R7: drop the batches that were announced, and enter their cost."""
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
