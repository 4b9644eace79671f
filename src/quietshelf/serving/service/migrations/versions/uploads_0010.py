"""Items know the version of their last change and are found by id; uploads are staged before they are shown."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
VERSION = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Items that are there changed before everything that comes."""
    op.add_column("items", sa.Column("version", VERSION, nullable=False, server_default="0"))
    op.create_index("items_id", "items", ["shelf", "id"], unique=True)
    op.create_index("items_version", "items", ["shelf", "version"])
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("shelves", "stock_version", type_=sa.BigInteger)
    op.create_table(
        "uploads",
        sa.Column("upload", sa.Text, primary_key=True),
        sa.Column("shelf", sa.Integer, nullable=False),
        sa.Column("touched", sa.Double, nullable=False),
        sa.Column("base", sa.Integer),
        sa.Column("version", VERSION),
    )
    op.create_table(
        "staged",
        sa.Column("upload", sa.Text),
        sa.Column("line", sa.Integer),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("upload", "line"),
        sqlite_with_rowid=False,
    )
    op.create_index("staged_id", "staged", ["upload", "id"], unique=True)
