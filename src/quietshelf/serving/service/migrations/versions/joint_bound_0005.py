"""Bound score and information together: batches carry a bound and an outlook, and open ones are dropped.

Contributions to open batches were bounded for other noise than a release now draws, so they may not be released.
Dropping costs no privacy: contributions and features are deleted, offers expire, and the next batch has the size of the
first dropped one. Earlier releases keep their two events, and have no bound.
"""

from __future__ import annotations

import math

import sqlalchemy as sa
from alembic import op

from quietshelf.serving.service.migrations.dropping import drop_open_batches

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Drop open batches, and add the bound."""
    connection = op.get_bind()
    drop_open_batches(connection, "bounds")
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
    """Store what the first arrival froze as moments of features; shelves that have started keep their prior."""
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
