"""The keys that a process holds in memory, and refusals that do not reveal which ids exist.

A key created elsewhere works after the next read of the keys, and its first request waits for that read. Failed
attempts wait for it too, so the time of a refusal reveals nothing; addresses that fail often are refused after a short
delay. No refusal queries the database. If the keys cannot be read for a while, none is accepted: one of them may have
been revoked. An expired key is refused like an unknown one.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any

from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.access.tickets import Signed, matches, presented
from quietshelf.serving.service.problems import TooManyFailures, Unauthorised, Unavailable

FAILURES, MINUTE = 30, 60.0
"""Failed attempts allowed per address and minute. Further ones do not wait for a read of the keys."""
HELD = 0.5
"""Seconds to hold further ones: hundreds of connections failing at full speed would starve the event loop."""
ADDRESSES = 10_000
"""Most addresses remembered."""
STALE_SECONDS = 30.0
"""Keys this old, or older than a few polls, are not accepted."""
PATIENCE = 3.0
"""Most seconds that a request waits for the keys to be read."""
LOOKS = 2
"""Reads to wait for: the first may have begun before the key was created."""
Waiting = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


def address(scope: MutableMapping[str, Any]) -> str:
    """The client's address: that of the last hop."""
    client = scope.get("client")
    return client[0] if client else ""


class Keyring:
    """Valid keys by id. They are read every ``poll`` seconds."""

    def __init__(self, poll: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._stale = clock, max(STALE_SECONDS, 3 * poll)
        self._keys: dict[str, Key] = {}
        self._read_at: float | None = None
        self._ahead = 0.0  # the store's clock minus ours
        self._waiting: list[Waiting] = []
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def update(self, found: dict[str, Key], now: float) -> None:
        """Replace the keys, as read at ``now`` by the store's clock. Any thread may call this."""
        self._ahead = now - self._clock()
        self._keys, self._read_at = found, self._clock()
        waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # the loop has ended
                continue

    def forget(self, identity: str) -> None:
        """Refuse a key that is being revoked. If the revocation fails, the next read brings it back."""
        self._keys = {name: key for name, key in self._keys.items() if name != identity}

    def known(self, header: str | None) -> Key:
        """The key in an Authorization header, if it is already known. Only refusals by `find` count."""
        return self._match(*presented(header))

    async def find(self, header: str | None, address: str = "") -> Key:
        """The valid key in an Authorization header, or the visitor whose ticket it signed."""
        identity, proof = presented(header)
        try:
            return self._match(identity, proof)
        except Unauthorised:
            try:
                self._count(address)
            except TooManyFailures:
                await asyncio.sleep(HELD)
                raise
        for _ in range(LOOKS):
            await self._next_look()
            try:
                return self._match(identity, proof)
            except Unauthorised as refused:
                problem = refused
        raise problem

    def _match(self, identity: str, proof: str | Signed) -> Key:
        if self._read_at is None or self._clock() - self._read_at > self._stale:
            raise Unavailable("keys could not be read for a while, and one may have been revoked; try again")
        return matches(self._keys.get(identity), proof, self._clock() + self._ahead)

    def _count(self, address: str) -> None:
        """Count a failed attempt. Addresses and their failures are public."""
        since, times = self._failed.pop(address, (self._clock(), 0))
        if self._clock() - since >= MINUTE:
            since, times = self._clock(), 0
        self._failed[address] = since, times + 1
        if len(self._failed) > ADDRESSES:
            self._failed.popitem(last=False)
        if times >= FAILURES:
            raise TooManyFailures("too many requests without a valid key came from this address; wait a minute")

    async def _next_look(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((loop, future))
        try:
            async with asyncio.timeout(PATIENCE):
                await future
        except TimeoutError:
            return


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
