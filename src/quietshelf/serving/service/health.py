"""Checks once a second whether the service can write, and gives that answer to everybody who asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.problems import Problem

SECONDS = 1.0
"""How long an answer is reused."""
AGAIN = 20
"""How often it is reused. Further probes wait for the next answer, so that a flood of them cannot starve visitors."""
PROBE = {"hash": "probe", "key": "", "expires": 0.0}


def written(connection: Connection) -> Any:
    """Write a row, and read which store this is."""
    table = schema.sessions
    connection.execute(sa.delete(table).where(table.c.hash == PROBE["hash"]))
    connection.execute(sa.insert(table), PROBE)
    return connection.execute(sa.select(schema.store)).one()


class Probe:
    """Asks one question on behalf of everybody who wants the answer."""

    def __init__(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._ask, self.seconds = ask, SECONDS
        self._answer: dict[str, Any] | Problem | None = None
        self._until, self._given = 0.0, 0
        self._asking: asyncio.Task[None] | None = None

    async def answer(self) -> dict[str, Any]:
        """The answer, at most a second old; raises it if it is a `Problem`."""
        self._given += 1
        if self._given > AGAIN:
            await asyncio.sleep(self._until - time.monotonic())
        if time.monotonic() >= self._until:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.ensure_future(self._renew())
            await asyncio.shield(self._asking)
        if isinstance(self._answer, Problem):
            raise self._answer
        assert self._answer is not None  # noqa: S101 - set by the task
        return self._answer

    async def _renew(self) -> None:
        try:
            self._answer = await self._ask()
        except Problem as problem:
            self._answer = problem
        self._until, self._given = time.monotonic() + self.seconds, 0
