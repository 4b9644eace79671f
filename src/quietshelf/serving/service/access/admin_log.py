"""The log of what admins did, when, and with which key. Each entry shares the transaction of the act it records.

No entry names a visitor. An erasure is logged with its shelf alone, whether or not it met any visits. Entries are for
admins; nothing that the scope ``read`` can see depends on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.timestamps import timestamp

PAGE, LARGEST_PAGE = 100, 1000
"""Entries per reply, by default and at most."""
LONGEST = 200
"""Longest setting logged with its value, in characters. Longer ones are logged by name."""
_table = schema.admin_log


class Act(NamedTuple):
    """Something an admin does. ``key`` is the id of their key, empty for a command on the database."""

    key: str
    what: str
    shelf: str | None = None
    details: Mapping[str, Any] = {}


def enter(connection: Connection, act: Act, now: float, **more: Any) -> None:
    """Add an entry."""
    details = json.dumps({**act.details, **more})
    entry = {"time": now, "key": act.key, "what": act.what, "shelf": act.shelf, "details": details}
    connection.execute(sa.insert(_table), entry)


def entering(
    act: Act, step: Callable[[Connection], Any], now: Callable[[Connection], float]
) -> Callable[[Connection], Any]:
    """Wrap a step so that it also adds an entry, including the step's reply if that is a dict of public figures."""

    def both(connection: Connection) -> Any:
        reply = step(connection)
        enter(connection, act, now(connection), **(reply if isinstance(reply, dict) else {}))
        return reply

    return both


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as the log shows them: long ones by name only.

    >>> given({"rho": 1.0, "prior": [0.0] * 100})
    {'rho': 1.0, 'prior': '...'}
    """
    return {name: value if len(json.dumps(value)) <= LONGEST else "..." for name, value in settings.items()}


def entries(connection: Connection, *, before: int | None = None, most: int = PAGE) -> dict[str, Any]:
    """The latest entries, or those before a number. ``next`` is where the next page begins, null at the end."""
    query = sa.select(_table).order_by(_table.c.number.desc()).limit(most + 1)
    rows = connection.execute(query if before is None else query.where(_table.c.number < before)).all()
    found = [
        {
            "number": row.number,
            "time": timestamp(row.time),
            "key": row.key or None,
            "what": row.what,
            "shelf": row.shelf,
            "details": json.loads(row.details),
        }
        for row in rows[:most]
    ]
    return {"entries": found, "next": found[-1]["number"] if len(rows) > most else None}


def words(details: Mapping[str, Any]) -> str:
    """Format details for people.

    >>> words({"name": "web", "scopes": ["choose", "offer"], "created": True, "expires": None})
    'name: web, scopes: choose offer, created: yes'
    """
    return ", ".join(f"{name}: {_word(value)}" for name, value in details.items() if value not in (None, ""))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
