"""What a service asks of its database."""

from __future__ import annotations

from typing import Any

import httpx
import sqlalchemy as sa
from tests.serving.service.harness import service_of


class Statements:
    """What is asked of the database."""

    def __init__(self, client: httpx.Client) -> None:
        self.statements: list[str] = []
        store = service_of(client).store
        for engine in {store._writer, store._reader}:
            sa.event.listen(engine, "before_cursor_execute", self._seen)

    def _seen(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self.statements.append(statement)

    def of_all_items(self) -> list[str]:
        """Queries of items that name neither an item, nor a version, nor how many rows they want."""
        limits = ("items.id =", "items.version >", "LIMIT")
        rows = [text for text in self.statements if "items.features" in text.partition("FROM")[0]]
        asked = [text.partition("FROM")[2] for text in rows]
        return [text for text in asked if not any(each in text for each in limits)]
