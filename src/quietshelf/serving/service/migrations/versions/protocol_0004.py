"""The words of the batch protocol; the length of visitor features is declared in the settings of every shelf."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

RENAMED = (
    ("store", "seal", "releaser_id"),
    ("shelves", "moment", "last_time"),
    ("shelves", "estranged", "history_incomplete"),
)


def upgrade() -> None:
    """Rename columns, settings and scopes; drop what can be derived."""
    _settings()
    op.execute("UPDATE keys SET scopes = replace(scopes, 'learn', 'choose')")
    for table, old, new in RENAMED:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    for column in ("open", "visitor_dim"):
        op.execute(f"ALTER TABLE shelves DROP COLUMN {column}")


def _settings() -> None:
    shelves = sa.table("shelves", sa.column("shelf"), sa.column("config"), sa.column("visitor_dim"))
    connection = op.get_bind()
    for shelf, text, length in connection.execute(sa.select(*shelves.c)).all():
        config = json.loads(text)
        config["on_no_answer"] = config.pop("silence", "no-choice")
        if config.get("visitor_dim") is None:  # made before it had to be declared
            scale = config.get("visitor_scale")
            config["visitor_dim"] = length or (len(scale) if isinstance(scale, list) else 0)
        changed = sa.update(shelves).where(shelves.c.shelf == shelf).values(config=json.dumps(config))
        connection.execute(changed)
