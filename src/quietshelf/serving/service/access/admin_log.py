"""What admins did: when, with which key, what. Entered in the transaction of the act: neither is without the other.

No entry names a visitor: an erasure is entered by its shelf alone, whether it met any visits or not, for who is erased,
and what they had left, is theirs. Entries are for admins; what the scope ``read`` may see never rests on them.
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
"""Entries in a reply if the request does not say how many, and at most."""
LONGEST = 200
"""Letters of a setting that is entered by its value; of longer ones the name is enough."""
_table = schema.admin_log


class Act(NamedTuple):
    """Something that an admin does; ``key`` is the id of theirs, empty for a command on the database itself."""

    key: str
    what: str
    shelf: str | None = None
    details: Mapping[str, Any] = {}


def enter(connection: Connection, act: Act, now: float, **more: Any) -> None:
    """One entry."""
    details = json.dumps({**act.details, **more})
    entry = {"time": now, "key": act.key, "what": act.what, "shelf": act.shelf, "details": details}
    connection.execute(sa.insert(_table), entry)


def entering(
    act: Act, step: Callable[[Connection], Any], now: Callable[[Connection], float]
) -> Callable[[Connection], Any]:
    """A step and its entry; what the step answers, where that is public figures by name, is entered with it."""

    def both(connection: Connection) -> Any:
        reply = step(connection)
        enter(connection, act, now(connection), **(reply if isinstance(reply, dict) else {}))
        return reply

    return both


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are entered: long ones by their names alone.

    >>> given({"rho": 1.0, "prior": [0.0] * 100})
    {'rho': 1.0, 'prior': '...'}
    """
    return {name: value if len(json.dumps(value)) <= LONGEST else "..." for name, value in settings.items()}


def entries(connection: Connection, *, before: int | None = None, most: int = PAGE) -> dict[str, Any]:
    """The latest entries, or those before a number; ``next`` is where older ones begin, null at the end."""
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
    """Details as people read them.

    >>> words({"name": "web", "scopes": ["choose", "offer"], "created": True, "expires": None})
    'name: web, scopes: choose offer, created: yes'
    """
    return ", ".join(f"{name}: {_word(value)}" for name, value in details.items() if value not in (None, ""))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
