"""Sessions of the pages, and which privacy statements are public."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the two tables."""
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("expires", sa.Double, nullable=False),
    )
    op.create_table(
        "published",
        sa.Column("shelf", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("since", sa.Double, nullable=False),
    )
