"""Finds and changes rows by key, one index lookup each, for any number of rows and shelves in one statement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.database.prepared import KINDS, driven, rows_of

TO_CHANGE: Final = "FOR UPDATE"
"""Locks each row in the order of the keys, so that transactions that sort them never deadlock. Not on SQLite."""
SHARED: Final = "FOR SHARE"


class Keyed:
    """Finds rows of one table by their keys, each with a value for every column of a unique index.

    Without statistics about a growing table, a database would scan it for a list of keys. SQLite's cross join and
    PostgreSQL's lateral join force one index lookup per key.

    Args:
        table: The table.
        key: All columns of a unique index.
        take: Columns to read; by default all.
        only: A further condition on the row, in SQL.
        lock: `TO_CHANGE` or `SHARED`.
    """

    def __init__(
        self, table: sa.Table, key: Sequence[str], *, take: Sequence[str] = (), only: str = "true", lock: str = ""
    ) -> None:
        names = ", ".join(f't."{name}"' for name in take or table.c.keys())
        places = range(len(key))

        def same(values: Sequence[str]) -> str:
            return " AND ".join(f't."{name}" = {value}' for name, value in zip(key, values, strict=True))

        lists = ", ".join(f"%s::{KINDS[type(table.c[name].type)]}[]" for name in key)
        wanted = f"unnest({lists}) AS w({', '.join(f'k{place}' for place in places)})"
        row = f"SELECT {names} FROM {table.name} AS t WHERE {same([f'w.k{place}' for place in places])} AND {only}"  # noqa: S608 - our names
        self._postgresql = f"SELECT r.* FROM {wanted} CROSS JOIN LATERAL ({row} LIMIT 1 {lock}) AS r"  # noqa: S608 - as above
        of_key = same([f"json_extract(w.value, '$[{place}]')" for place in places])
        self._sqlite = f"SELECT {names} FROM json_each(?) AS w CROSS JOIN {table.name} AS t WHERE {of_key} AND {only}"  # noqa: S608 - as above

    def rows(self, connection: Connection, keys: Sequence[Sequence[int | str]]) -> list[dict[str, Any]]:
        """The rows that exist, in the order of the keys. Without keys it asks nothing."""
        if not keys:
            return []
        if connection.dialect.name == "sqlite":
            return rows_of(driven(connection, self._sqlite, (json.dumps([list(key) for key in keys]),)))
        return rows_of(driven(connection, self._postgresql, [list(column) for column in zip(*keys, strict=True)]))


class Change:
    """Changes rows of one table, given by key, with one statement for any number of shelves.

    The order is undefined, so the caller must hold locks that keep others from changing these rows.

    Args:
        table: A table with few rows per shelf: PostgreSQL may scan it.
        key: Columns of a unique index.
        to: Columns that get a value.
        by: Columns to add a number to.
    """

    def __init__(self, table: sa.Table, key: Sequence[str], *, to: Sequence[str] = (), by: Sequence[str] = ()) -> None:
        self._names = (*to, *by, *key)

        def text(value: Sequence[str]) -> str:
            given = dict(zip(self._names, value, strict=True))
            new = [f'"{name}" = {given[name]}' for name in to] + [
                f'"{name}" = t."{name}" + {given[name]}' for name in by
            ]
            same = " AND ".join(f't."{name}" = {given[name]}' for name in key)
            return f"UPDATE {table.name} AS t SET {', '.join(new)} {{}} WHERE {same}"  # noqa: S608 - our names

        kinds = (f"%s::{KINDS[type(table.c[name].type)]}[]" for name in self._names)
        columns = [f"c{place}" for place in range(len(self._names))]
        wanted = f"FROM unnest({', '.join(kinds)}) AS w({', '.join(columns)})"
        self._postgresql = text([f"w.{column}" for column in columns]).format(wanted)
        self._sqlite = text(["?" for _ in self._names]).format("")

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Change the rows that exist; returns how many."""
        values = [tuple(row[name] for name in self._names) for row in rows]
        if not values:
            return 0
        if connection.dialect.name == "sqlite":
            return int(driven(connection, self._sqlite, values, many=True))
        return int(driven(connection, self._postgresql, [list(each) for each in zip(*values, strict=True)]).rowcount)
