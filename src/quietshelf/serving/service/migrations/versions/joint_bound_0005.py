"""Score and information are bounded together: batches carry a bound and an outlook, and open ones are dropped.

What visitors of an open batch contributed was bounded for other noise than a release now draws, so it may not be
released. Dropping costs no privacy: their contributions and features are deleted, their offers have expired, and the
next batch has the size of the first that was dropped. Releases made before keep their two events, and have no bound.
"""

from __future__ import annotations

import json
import math

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

DROPPED = (
    "{visitors} visitors of batches that were not released were left out when this version was installed: it bounds "
    "what a visitor contributes in another way. The promise is what it was."
)


def upgrade() -> None:
    """Drop what is open, and make room for the bound."""
    connection = op.get_bind()
    held = sa.table("batches", *map(sa.column, ("shelf", "batch", "size", "taken")))
    query = sa.select(held.c.shelf, held.c.size, held.c.taken).order_by(held.c.shelf, held.c.batch)
    found: dict[int, list[tuple[int, int]]] = {}
    for shelf, size, taken in connection.execute(query).all():
        found.setdefault(shelf, []).append((size, taken))
    for shelf, batches in found.items():
        _drop(connection, shelf, first=batches[0][0], visitors=sum(taken for _, taken in batches))
    op.drop_table("batches")  # it is empty: SQLite adds no column that must have a value
    op.create_table(
        "batches",
        sa.Column("shelf", sa.Integer),
        sa.Column("batch", sa.Integer),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("taken", sa.Integer, nullable=False),
        sa.Column("theta", sa.LargeBinary, nullable=False),
        sa.Column("coordinates", sa.LargeBinary, nullable=False),
        sa.Column("score_scale", sa.Double, nullable=False),
        sa.Column("information_scale", sa.Double, nullable=False),
        sa.Column("bound", sa.Double, nullable=False),
        sa.Column("expected", sa.LargeBinary, nullable=False),
        sa.Column("spread", sa.Double, nullable=False),
        sa.Column("grid", sa.Double, nullable=False),
        sa.Column("window", sa.Double, nullable=False),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("full_at", sa.Double),
        sa.PrimaryKeyConstraint("shelf", "batch"),
    )
    for name, kind in (("bound", sa.Double), ("kept", sa.Double), ("spread", sa.Double), ("fit", sa.LargeBinary)):
        op.add_column("releases", sa.Column(name, kind))
    _moments(connection)


def _moments(connection: sa.Connection) -> None:
    """What was frozen at the first arrival is kept as moments of features; shelves that began keep their prior."""
    op.execute("ALTER TABLE shelves RENAME COLUMN curvature TO second")
    op.drop_column("shelves", "declared")
    op.add_column("shelves", sa.Column("mean", sa.LargeBinary))
    op.add_column("shelves", sa.Column("alike", sa.Double))
    op.add_column("shelves", sa.Column("prior_capacity", sa.Integer))  # a prior that is given needs none
    shelves = sa.table("shelves", *map(sa.column, ("shelf", "mean", "second")))
    begun = sa.select(shelves.c.shelf, shelves.c.second).where(shelves.c.second.is_not(None))
    for shelf, second in connection.execute(begun).all():
        nothing = bytes(8 * math.isqrt(len(second) // 8))  # a mean of zeros
        connection.execute(sa.update(shelves).where(shelves.c.shelf == shelf).values(mean=nothing))


def _drop(connection: sa.Connection, shelf: int, *, first: int, visitors: int) -> None:
    """Forget the open batches of one shelf, as a restored backup's are; that they were is said in its notes."""
    offers, batches = (sa.table(name, sa.column("shelf"), sa.column("batch")) for name in ("offers", "batches"))
    retries = sa.table("retries", sa.column("shelf"), sa.column("batch"), sa.column("fingerprint"))
    keys = (retries.c.shelf == shelf) & retries.c.batch.in_(sa.select(batches.c.batch).where(batches.c.shelf == shelf))
    connection.execute(sa.update(retries).where(keys).values(fingerprint=None))
    for table in (offers, batches):
        connection.execute(sa.delete(table).where(table.c.shelf == shelf))
    shelves = sa.table("shelves", *map(sa.column, ("shelf", "notes", "next_size", "config_version")))
    this = shelves.c.shelf == shelf
    notes = json.loads(connection.execute(sa.select(shelves.c.notes).where(this)).scalar_one())
    said = json.dumps([*notes, DROPPED.format(visitors=visitors)])
    changed = {"notes": said, "next_size": first, "config_version": shelves.c.config_version + 1}
    connection.execute(sa.update(shelves).where(this).values(changed))
    store = sa.table("store", sa.column("dropped"))
    connection.execute(sa.update(store).values(dropped=store.c.dropped + visitors))
