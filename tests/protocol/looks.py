"""What anybody may know of a service, in the form in which two worlds are compared."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection

from quietshelf.serving.service import queries
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.pages import views
from quietshelf.serving.service.pages.operations import operations
from quietshelf.serving.service.service import Service

SHELF = "teas"


def public(service: Service, room: views.Room, connection: Connection) -> dict[str, Any]:
    """What the scope ``read`` may see."""
    row = shelf_row(connection, SHELF)
    return {
        "shelf": queries.summary(row),
        "privacy": queries.promise(connection, row, 1e-6),
        "releases": queries.releases(connection, row),
        "comparison": queries.comparison(connection, row),
        "items": queries.items(connection, row),
        "all promises": queries.everything(connection, 1e-6),
        "metrics": service.metrics.text(
            queries.shelf_rows(connection), queries.late(connection, service.time.now(connection))
        ).decode(),
        "page of all shelves": views.overview(room, connection, None),
        "page of the shelf": views.shelf(room, connection, row),
        "statement": views.statement(room, connection, row),
        "operations": operations(room, connection),
    }


def plain(found: Any) -> str:
    """Without the times at which counters were made."""
    text = found if isinstance(found, str) else json.dumps(found)
    return "\n".join(line for line in text.splitlines() if "_created{" not in line)


def untimed(line: str) -> str:
    """A log line without its time of day."""
    if not line.startswith("{"):
        return line
    return json.dumps({key: value for key, value in json.loads(line).items() if key != "time"})
