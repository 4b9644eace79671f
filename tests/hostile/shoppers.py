"""Clients that never give up, and remember what they were told: how long it took, and every offer and choice.

What they remember is small and holds no other objects for long: an hour of it must not slow them down.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
from tests.serving.service.harness import Process


class Told(NamedTuple):
    """An offer as it was acknowledged, and when it was asked for and told."""

    release: int
    items: tuple[str, ...]
    asked: float
    told: float


@dataclass
class Shopper:
    """One client: every visitor is offered something and answers, however often it takes.

    Attributes:
        pause: Seconds from one visitor to the next, at least.
        visits: Visitors who came, whatever became of them.
        offers: What was told, by offer.
        visitors: Features, by offer.
        chosen: Choices that were acknowledged, by offer.
        late: Choices that were refused because their offer had expired.
        wrong: Replies that nobody should get, by status.
        took: When each request began, and how long it took until it was acknowledged, tries that failed included.
        behind: Seconds that the last visitor came later than the pace asks for.
    """

    process: Process
    number: int
    stop: threading.Event
    pause: float = 0.0
    visits: int = 0
    offers: dict[str, Told] = field(default_factory=dict)
    visitors: dict[str, tuple[float, float]] = field(default_factory=dict)
    chosen: dict[str, str | None] = field(default_factory=dict)
    late: int = 0
    wrong: list[str] = field(default_factory=list)
    took: list[tuple[float, float]] = field(default_factory=list)
    behind: float = 0.0

    def run(self) -> None:
        """Visitors, one after the other, until it is told to stop."""
        rng = random.Random(self.number)  # noqa: S311 - visitors, not secrets
        began = time.monotonic()
        with self.process.client() as client:
            while not self.stop.is_set():
                self._visit(client, rng, f"{self.number}-{self.visits}")
                ahead = began + self.visits * self.pause - time.monotonic()
                self.behind = max(0.0, -ahead)
                self.stop.wait(max(0.0, ahead))

    def _visit(self, client: httpx.Client, rng: random.Random, name: str) -> None:
        self.visits += 1
        features, asked = (rng.gauss(0, 1), rng.gauss(0, 1)), time.monotonic()
        body = {"features": features, "person": name}
        reply = self._insist(client, "/v1/shelves/teas/offers", body, {"Idempotency-Key": name})
        if reply is None or not self._right(reply, 200):
            return
        offer = reply.json()
        items = tuple(map(sys.intern, offer["items"]))
        self.offers[offer["offer"]] = Told(offer["release"], items, asked, time.monotonic())
        self.visitors[offer["offer"]] = features
        item = rng.choice([None, *items])
        reply = self._insist(client, f"/v1/offers/{offer['offer']}/choice", {"item": item}, {})
        if reply is not None and reply.status_code == 409 and reply.json()["type"].endswith(":offer-expired"):
            self.late += 1
        elif reply is not None and self._right(reply, 204):
            self.chosen[offer["offer"]] = item

    def _right(self, reply: httpx.Response, status: int) -> bool:
        if reply.status_code != status:
            self.wrong.append(f"{reply.request.url.path.rpartition('/')[2]}: {reply.status_code} {reply.text[:200]}")
        return reply.status_code == status

    def _insist(
        self, client: httpx.Client, path: str, body: dict[str, Any], headers: dict[str, str]
    ) -> httpx.Response | None:
        began = time.monotonic()
        while True:
            try:
                reply = client.post(path, json=body, headers=headers)
                if reply.status_code != 503:
                    self.took.append((began, time.monotonic() - began))
                    return reply
            except httpx.TransportError:
                pass
            if self.stop.is_set():
                return None
            time.sleep(0.02)


@contextmanager
def shopping(process: Process, clients: int, pause: float = 0.0, first: int = 0) -> Iterator[list[Shopper]]:
    """So many shoppers, numbered from ``first``, who stop at the end; what they were told is theirs to tell."""
    stop = threading.Event()
    shoppers = [Shopper(process, first + number, stop, pause) for number in range(clients)]
    threads = [threading.Thread(target=shopper.run) for shopper in shoppers]
    for thread in threads:
        thread.start()
    try:
        yield shoppers
    finally:
        stop.set()
        for thread in threads:
            thread.join()
