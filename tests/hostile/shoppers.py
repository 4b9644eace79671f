"""Clients that never give up, and remember what they were told: how long it took, and every offer and choice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from tests.service.harness import Process


@dataclass
class Shopper:
    """One client: every visitor is offered something and answers, however often it takes.

    Attributes:
        pause: Seconds from one visitor to the next, at least.
        offers: Replies, by offer.
        visitors: Features, by offer.
        chosen: Choices that were acknowledged, by offer.
        took: When each request began, and how long it took until it was acknowledged, tries that failed included.
    """

    process: Process
    number: int
    stop: threading.Event
    pause: float = 0.0
    offers: dict[str, dict[str, object]] = field(default_factory=dict)
    visitors: dict[str, list[float]] = field(default_factory=dict)
    chosen: dict[str, str | None] = field(default_factory=dict)
    took: list[tuple[float, float]] = field(default_factory=list)

    def run(self) -> None:
        """Visitors, one after the other, until it is told to stop."""
        rng = random.Random(self.number)  # noqa: S311 - visitors, not secrets
        began, visitor = time.monotonic(), 0
        with self.process.client() as client:
            while not self.stop.is_set():
                self._visit(client, rng, f"{self.number}-{visitor}")
                visitor += 1
                self.stop.wait(max(0.0, began + visitor * self.pause - time.monotonic()))

    def _visit(self, client: httpx.Client, rng: random.Random, name: str) -> None:
        features = [rng.gauss(0, 1), rng.gauss(0, 1)]
        asked: dict[str, object] = {"features": features, "person": name}
        reply = self._insist(client, "/v1/shelves/teas/offers", asked, {"Idempotency-Key": name})
        if reply is None:
            return
        assert reply.status_code == 200, reply.text
        offer = reply.json()
        assert offer["offer"] not in self.offers
        self.offers[offer["offer"]], self.visitors[offer["offer"]] = offer, features
        item = rng.choice([None, *offer["items"]])
        reply = self._insist(client, f"/v1/offers/{offer['offer']}/choice", {"item": item}, {})
        if reply is not None and reply.status_code == 204:
            self.chosen[offer["offer"]] = item

    def _insist(
        self, client: httpx.Client, path: str, body: dict[str, object], headers: dict[str, str]
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
