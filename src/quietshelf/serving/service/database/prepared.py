"""Statements compiled once per kind of database and then passed directly to its driver, for use by every visit.

At every execution SQLAlchemy would look a statement up by its structure and describe its result, which takes longer
than the database itself. Errors are still SQLAlchemy's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

_LIST = re.compile(r"IN \(__\[POSTCOMPILE_(\w+)\]\)")
KINDS: dict[Any, str] = {
    sa.Integer: "int4", sa.BigInteger: "int8", sa.Boolean: "bool",
    sa.Text: "text", sa.Double: "float8", sa.LargeBinary: "bytea",
}  # fmt: skip
Given = Mapping[str, Any]


class _Text(NamedTuple):
    """A statement for a driver: its text, parameter ``names`` in order (SQLite), ``fixed`` values, and ``lists``."""

    text: str
    names: tuple[str, ...]
    fixed: dict[str, Any]
    lists: tuple[str, ...]


class Prepared:
    """A statement with named parameters; a parameter of ``in_`` takes a list of any length."""

    def __init__(self, statement: sa.Select[Any] | sa.Update | sa.Insert | sa.Delete) -> None:
        self._statement = statement
        self._texts: dict[str, _Text] = {}

    def rows(self, connection: Connection, given: Given) -> list[dict[str, Any]]:
        """Its rows, as dicts by column name."""
        return rows_of(self._execute(connection, given))

    def tuples(self, connection: Connection, given: Given) -> list[tuple[Any, ...]]:
        """Its rows as tuples, for large results."""
        rows: list[tuple[Any, ...]] = self._execute(connection, given).fetchall()
        return rows

    def one(self, connection: Connection, given: Given) -> dict[str, Any] | None:
        """The only row, or None."""
        (row,) = self.rows(connection, given) or (None,)
        return row

    def value(self, connection: Connection, given: Given = {}) -> Any:  # noqa: B006 - only read
        """The first column of its first row, or None."""
        row = self._execute(connection, given).fetchone()
        return None if row is None else row[0]

    def run(self, connection: Connection, given: Given) -> int:
        """How many rows it changes."""
        return int(self._execute(connection, given).rowcount)

    def run_all(self, connection: Connection, given: Sequence[Given]) -> int:
        """Run it once per set of parameters; how many rows that changes."""
        plain = self._plain(connection)
        return int(
            driven(connection, plain.text, [self._parameters(connection, plain, each) for each in given], many=True)
        )

    def _execute(self, connection: Connection, given: Given) -> Any:
        plain = self._plain(connection)
        return driven(connection, plain.text, self._parameters(connection, plain, given))

    def _plain(self, connection: Connection) -> _Text:
        kind = connection.dialect.name
        if kind not in self._texts:
            self._texts[kind] = _compiled(self._statement, connection.dialect)
        return self._texts[kind]

    def _parameters(self, connection: Connection, plain: _Text, given: Given) -> Any:
        values, sqlite = {**plain.fixed, **given}, connection.dialect.name == "sqlite"
        for name in plain.lists:
            values[name] = json.dumps(list(values[name])) if sqlite else list(values[name])
        return tuple(values[name] for name in plain.names) if sqlite else values


def insert_rows(connection: Connection, table: sa.Table, rows: Sequence[Given]) -> None:
    """Insert rows with the same columns; on PostgreSQL by COPY, at a third of the cost of lists."""
    names = tuple(rows[0])
    columns = ", ".join(f'"{name}"' for name in names)
    values = [tuple(row[name] for name in names) for row in rows]
    if connection.dialect.name == "sqlite":
        text = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - our names
        driven(connection, text, values, many=True)
        return
    cursor: Any = connection.connection.cursor()
    text = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
    try:
        with cursor.copy(text) as copy:
            copy.set_types([KINDS[type(table.c[name].type)] for name in names])
            for row in values:
                copy.write_row(row)
    except Exception as error:
        connection._handle_dbapi_exception(error, text, None, cursor, None)


def driven(connection: Connection, text: str, given: Any, *, many: bool = False) -> Any:
    """Execute a statement on the driver; returns its cursor, or with ``many`` the number of rows changed."""
    cursor: Any = connection.connection.cursor()
    try:
        if not many:
            cursor.execute(text, given)
            return cursor
        cursor.executemany(text, given)
        return cursor.rowcount
    except Exception as error:
        connection._handle_dbapi_exception(error, text, None, cursor, None)


def rows_of(cursor: Any) -> list[dict[str, Any]]:
    """A cursor's rows, as dicts by column name."""
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _compiled(statement: Any, dialect: sa.Dialect) -> _Text:
    made = statement.compile(dialect=dialect)
    lists = tuple(_LIST.findall(str(made)))
    sqlite = dialect.name == "sqlite"
    kinds = {name: KINDS[type(made.binds[name].type)] for name in lists}

    def array(named: re.Match[str]) -> str:
        return "IN (SELECT value FROM json_each(?))" if sqlite else f"= ANY(%({named[1]})s::{kinds[named[1]]}[])"

    text = _LIST.sub(array, str(made))
    fixed = {name: value for name, value in made.params.items() if not made.binds[name].required}
    return _Text(text, tuple(made.positiontup or ()), fixed, lists)
