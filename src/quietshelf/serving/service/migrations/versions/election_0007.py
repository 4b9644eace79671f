"""Elect a releaser: who leads and until when, what is announced, and which processes have noted it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Nobody leads yet, and only epoch files have announcements."""
    op.create_table(
        "releaser",
        sa.Column("one", sa.Integer, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )
    op.create_table(
        "announcements",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("previous", sa.Text),
        sa.Column("shelf", sa.Integer, nullable=False),
        sa.Column("batch", sa.Integer, nullable=False),
    )
    op.create_table(
        "witnesses",
        sa.Column("process", sa.Text, primary_key=True),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("noted", sa.Text),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("member", sa.Boolean, nullable=False),
        sa.Column("view", sa.Text, nullable=False),
        sa.Column("heard", sa.Text, nullable=False),
    )
    op.execute("INSERT INTO releaser (one, holder, until) VALUES (1, '', 0)")
