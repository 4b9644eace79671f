"""Rows found by name, each by one look into a unique index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection
from sqlalchemy.dialects.postgresql import ARRAY


def of_ids(
    connection: Connection, table: sa.Table, within: ColumnElement[bool], ids: Sequence[str]
) -> list[dict[str, Any]]:
    """The rows of a table that have one of these ids; ``within`` and the id are a unique key.

    A database that knows nothing yet of a table which is being filled would read all of it for a list of ids. The outer
    join of SQLite and the lateral one of PostgreSQL leave it nothing to choose: one look into the index per id.
    """
    if connection.dialect.name == "sqlite":
        wanted = sa.func.json_each(json.dumps(list(ids))).table_valued("value")
        query = sa.select(table).select_from(wanted.outerjoin(table, within & (table.c.id == wanted.c.value)))
    else:
        wanted = sa.func.unnest(sa.literal(list(ids), ARRAY(sa.Text))).table_valued("value", name="wanted")
        wanted = wanted.render_derived()
        found = sa.select(table).where(within, table.c.id == wanted.c.value).limit(1).lateral()
        query = sa.select(found).select_from(wanted.join(found, sa.true()))
    return [dict(row) for row in connection.execute(query).mappings() if row["id"] is not None]
