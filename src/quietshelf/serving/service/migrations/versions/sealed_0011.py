"""Batches know when their release is published and how far it is; what is left of visitors is known, by slot."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Batches that are there are published when they are due, as they were to be."""
    op.add_column("batches", sa.Column("lag", sa.Double, nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("stage", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "leftovers",
        sa.Column("shelf", sa.Integer),
        sa.Column("batch", sa.Integer),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("shelf", "batch"),
    )
    op.execute(
        "INSERT INTO leftovers (shelf, batch, slot, size) SELECT shelf, batch, 0, max(slot) + 1 FROM offers o "
        "WHERE NOT EXISTS (SELECT 1 FROM batches b WHERE b.shelf = o.shelf AND b.batch = o.batch) GROUP BY shelf, batch"
    )
    op.create_index("retries_slot", "retries", ["shelf", "batch", "slot"])
    op.drop_index("retries_batch", "retries")
