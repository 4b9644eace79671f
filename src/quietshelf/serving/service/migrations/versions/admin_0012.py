"""Let keys expire, and log what admins do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
REFUSED = "entries of admin_log are never changed"
SQLITE = f"""
CREATE TRIGGER admin_log_stays BEFORE UPDATE ON admin_log
BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END
"""
POSTGRESQL = (
    f"""
CREATE OR REPLACE FUNCTION admin_log_stays() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$
""",
    "CREATE TRIGGER admin_log_stays BEFORE UPDATE ON admin_log FOR EACH ROW EXECUTE FUNCTION admin_log_stays()",
)


def upgrade() -> None:
    """Existing keys do not expire; the log starts empty."""
    op.add_column("keys", sa.Column("expires", sa.Double))
    op.create_table(
        "admin_log",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("time", sa.Double, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("shelf", sa.Text),
        sa.Column("details", sa.Text, nullable=False),
    )
    op.create_index("admin_log_time", "admin_log", ["time"])
    for statement in (SQLITE,) if op.get_context().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)
