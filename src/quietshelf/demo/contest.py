"""The contest of the demo: the service itself, over HTTP, beside a learner without privacy and the paper's policy.

All three serve the same visitors through the loop of every simulation (`research.loop`). The service takes part as
policy and curator: it decides by making an offer, and learns by being told the choice.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from quietshelf.demo.tea_shop import TEAS, Shop
from quietshelf.model.types import NOTHING, Context, IntArray, Random, Release, Round
from quietshelf.research.loop import run
from quietshelf.research.loop.arrow import Runner
from quietshelf.research.loop.contest import SimulationContext
from quietshelf.research.loop.named import contestant

SERVICE, FLOOR, PAPER = "This service", "No privacy at all", "The paper’s policy"
TONES = {SERVICE: 0, PAPER: 1, FLOOR: 2}
LATELY, NOTES = 200, 400
"""Visitors in the "lately" window, and points on a complete curve."""
LATE = 409
"""Status of a choice sent after its offer expired."""


class Refused(HTTPException):
    """The service refused a request."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the service must accept what the demo asks, got {status}")
        self.status = status


class Api:
    """The service's API, called as a shop would."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._connection = HTTPConnection(host, port, timeout=30)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._headers["Connection"] = "close"  # the service drops connections that idle for a few seconds

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send one request; raise `Refused` unless it succeeds."""
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, self._headers)
        reply = self._connection.getresponse()
        text = reply.read()
        if reply.status >= 300:
            raise Refused(reply.status)
        return json.loads(text) if text else None

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Served:
    """The service as policy and curator at once: it decides by making an offer, and learns from the choice."""

    release = Release(np.zeros((1, 1)), np.eye(1)[None], np.zeros(1), np.zeros(1, dtype=bool), np.zeros(1, np.int64))
    """A placeholder: what the service knows stays there."""

    def __init__(self, api: Api, shelf: str) -> None:
        self._api, self._shelf, self._offer = api, shelf, ""
        self._numbers = {tea[0]: number for number, tea in enumerate(TEAS)}
        self.releases = 0

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:  # noqa: ARG002 - it has its own
        """What the service shows this visitor."""
        mood: Any = context.features
        reply = self._api.ask("POST", f"/v1/shelves/{self._shelf}/offers", {"features": mood.visitor[0].tolist()})
        self._offer, self.releases = reply["offer"], reply["release"]
        items = [self._numbers[name] for name in reply["items"]]
        return np.array([items + [NOTHING] * (context.capacity - len(items))])

    def observe(self, round: Round) -> Release:  # noqa: A002 - the protocol's name
        """Send the choice; one that comes too late is lost, as in any shop."""
        chosen = int(round.choice[0])
        item = None if chosen == NOTHING else TEAS[chosen][0]
        try:
            self._api.ask("POST", f"/v1/offers/{self._offer}/choice", {"item": item})
        except Refused as refused:
            if refused.status != LATE:
                raise
        return self.release


@dataclass
class Score:
    """The losses of one contestant."""

    total: float = 0.0
    noted: list[float] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    lately: deque[float] = field(default_factory=lambda: deque(maxlen=LATELY))


class Contest:
    """Serves visitors one by one, at a steady pace, until all have come or the demo ends."""

    def __init__(self, api: Api, shelf: str, *, rho: float, horizon: int, pace: float, seed: int) -> None:
        self._shop, self._served = Shop(), Served(api, shelf)
        self._rho, self._horizon, self._pace, self._seed = rho, horizon, pace, seed
        self.visitors = 0
        self.times: list[int] = []
        self.scores = {label: Score() for label in (SERVICE, PAPER, FLOOR)}
        self._best: deque[float] = deque(maxlen=LATELY)
        self._lock = threading.Lock()

    @property
    def releases(self) -> int:
        """The service's number of releases, as of the last offer."""
        return self._served.releases

    def play(self, stop: threading.Event) -> None:
        """Serve all visitors, or until ``stop`` is set."""
        visitors = self._shop.open([SeedSequence(self._seed)])
        begun = time.monotonic()
        runners = self._runners()
        for step in run(visitors, runners, horizon=self._horizon):
            with self._lock:
                self._note(step.label, float(step.regret[0]), visitors.best)
            if step.label == runners[-1].label:
                wait = begun + (step.t + 1) / self._pace - time.monotonic()
                if stop.wait(max(0.0, wait)):
                    return

    def figures(self) -> dict[str, Any]:
        """The state of the contest so far, as plain data."""
        with self._lock:
            best = sum(self._best) or 1.0
            return {
                "visitors": self.visitors,
                "times": list(self.times),
                "scores": {
                    label: {
                        "lost": list(score.noted),
                        "share": list(score.share),
                        "lately": sum(score.lately) / max(1, len(score.lately)),
                        "lately_share": sum(score.lately) / best if score.lately else None,
                    }
                    for label, score in self.scores.items()
                },
            }

    def _runners(self) -> list[Runner]:
        setting = SimulationContext(world=self._shop, worlds=1, horizon=self._horizon, tastes=lambda: np.zeros((1, 1)))
        paper = contestant("dpmnl", rho=self._rho, clip=self._shop.radius)
        runners = [Runner(SERVICE, self._served, self._served, np.random.default_rng(self._seed))]
        for label, one in ((PAPER, paper), (FLOOR, contestant("greedy"))):
            noise, chance = (np.random.default_rng([self._seed, role]) for role in (1, 2))  # for simulated visitors
            runners.append(Runner(label, one.policy, one.curator(setting, noise), chance))
        return runners

    def _note(self, label: str, lost: float, best: float) -> None:
        score = self.scores[label]
        score.total += lost
        score.lately.append(lost)
        if label == SERVICE:
            self.visitors += 1
            self._best.append(best)
        every = max(1, self._horizon // NOTES)
        if self.visitors % every == 0:
            score.noted.append(score.total)
            score.share.append(1.0 - sum(score.lately) / (sum(self._best) or 1.0))
            if label == FLOOR:  # the last of the three: this point is now complete
                self.times.append(self.visitors)
