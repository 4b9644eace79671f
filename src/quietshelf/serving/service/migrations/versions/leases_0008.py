"""Lease slots to processes in blocks, and index old Idempotency-Keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Nobody holds a lease yet."""
    for name in ("leased", "unused"):
        op.add_column("batches", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    op.add_column("batches", sa.Column("latest", sa.Double))
    op.create_table(
        "leases",
        sa.Column("shelf", sa.Integer),
        sa.Column("batch", sa.Integer),
        sa.Column("first", sa.Integer),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("last", sa.Double, nullable=False),
        sa.Column("taken", sa.Integer, nullable=False),
        sa.Column("present", sa.Integer, nullable=False),
        sa.Column("share", sa.Double),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("anonymous", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("shelf", "batch", "first"),
    )
    released = sa.text("fingerprint IS NULL")
    op.create_index("retries_batch", "retries", ["shelf", "batch"])
    op.create_index("retries_released", "retries", ["made"], sqlite_where=released, postgresql_where=released)
