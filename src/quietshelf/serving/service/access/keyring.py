"""The keys that a process knows, and who is refused: from memory, whether the id exists or not.

A key that was made elsewhere works after the next look at the database, for which its first request waits. Those who
fail wait for the same look, so the time of a refusal does not tell which ids exist; those who fail often, by address,
are refused without a look, after a while. No refusal asks anything of the database. If the keys cannot be read for a
while, none is believed: one of them may have been revoked. A key that has expired is refused like one that never was,
without another look.
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
"""Failed attempts from one address in a minute; further ones are refused without a look."""
HELD = 0.5
"""Seconds that further ones are held: hundreds of connections that fail as fast as they can would take every turn."""
ADDRESSES = 10_000
"""Addresses that are remembered."""
STALE_SECONDS = 30.0
"""So old, or older than a few looks, keys are not believed."""
PATIENCE = 3.0
"""Seconds that a request waits for a look, at most."""
LOOKS = 2
"""The first may have begun before the key was made."""
Waiting = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


def address(scope: MutableMapping[str, Any]) -> str:
    """Where a request comes from: the last machine on the way."""
    client = scope.get("client")
    return client[0] if client else ""


class Keyring:
    """Valid keys by id; ``poll`` is how often they are looked at, in seconds."""

    def __init__(self, poll: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._stale = clock, max(STALE_SECONDS, 3 * poll)
        self._keys: dict[str, Key] = {}
        self._read_at: float | None = None
        self._ahead = 0.0  # the store's clock less ours
        self._waiting: list[Waiting] = []
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def update(self, found: dict[str, Key], now: float) -> None:
        """The keys as they are ``now``, by the store's clock; from any thread."""
        self._ahead = now - self._clock()
        self._keys, self._read_at = found, self._clock()
        waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:  # the loop has ended
                continue

    def forget(self, identity: str) -> None:
        """Refuse a key that is being revoked: if that fails, the next look finds it again."""
        self._keys = {name: key for name, key in self._keys.items() if name != identity}

    def known(self, header: str | None) -> Key:
        """The same, if it is known by now; whoever is refused here may ask again with ``find``, which counts."""
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
        """One more failure; addresses and how often each fails are public."""
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
