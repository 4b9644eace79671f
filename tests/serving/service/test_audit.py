"""The service itself is audited, over HTTP: what releases and later screens tell of one visitor."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx
import numpy as np
import pytest
from tests.serving.service.harness import WINDOW, FakeClock, answered, inline, offered
from tests.studies.size import FULL

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.noise import NoiseSource, Simulated
from quietshelf.research.auditing import audit
from quietshelf.research.auditing.auditable import Auditable, Claim

RHO = 0.5
RUNS = 800 if FULL else 60
ITEMS = [{"id": str(n), "features": [2.0, 0.0]} for n in range(2)]


class Hushed(Simulated):
    """A fault: a share of the noise that the ledger is told of."""

    def __init__(self, rng: np.random.Generator, share: float) -> None:
        super().__init__(rng)
        self._share = share

    def draw(self, scale: float, size: tuple[int, ...]) -> FloatArray:
        return super().draw(self._share * scale, size)


@dataclass
class Served:
    """Shelves of one service, each through its first release; the target, who comes first, bought or did not."""

    client: httpx.Client
    clock: FakeClock
    number: count[int] = field(default_factory=count)

    def __call__(self, secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
        del rng  # the service has chance of its own
        return np.stack([self._seen(f"shelf-{next(self.number)}", secret) for _ in range(runs)])

    def _seen(self, name: str, secret: bool) -> FloatArray:
        settings = {"rho": RHO, "capacity": 1, "feature_map": "item", "intercept": False, "window": WINDOW}
        assert self.client.put(f"/v1/shelves/{name}", json=settings).status_code == 201
        assert self.client.put(f"/v1/shelves/{name}/items", json={"items": ITEMS}).status_code == 200
        target = offered(self.client, name, features=[]).json()
        answered(self.client, target["offer"], target["items"][0] if secret else None)
        while not (reply := offered(self.client, name, features=[]).json())["release"]:
            self.clock.time += WINDOW  # a full batch is due at the next arrival
        found = self.client.get(f"/v1/shelves/{name}/releases").json()["releases"][-1]
        return np.concatenate([found["theta"], np.ravel(found["precision"]), [float(reply["items"][0])]])


def audited(folder: Path, source: NoiseSource | None, seed: int) -> bool:
    """Whether the promise is refuted of a service with this source of noise, or with its own."""
    clock = FakeClock()
    injected = {} if source is None else {"source": source}
    with inline(f"sqlite:///{folder}/shop.db", folder, clock=clock, **injected) as client:
        claim = Claim(rho=RHO, gaussian=True)
        subject = Auditable(name="service", pair="bought or nothing", claim=claim, run=Served(client, clock))
        return audit(subject, runs=RUNS, rng=np.random.default_rng(seed)).refuted


@pytest.mark.study
def test_the_service_keeps_its_promise(tmp_path: Path) -> None:
    """With the noise it draws by itself nothing is refuted; a false alarm comes once in a thousand times."""
    assert not audited(tmp_path, None, 0)


@pytest.mark.study
def test_a_service_with_too_little_noise_is_refuted(tmp_path: Path) -> None:
    """Half of the noise in the full study; hardly any in the short one, which has fewer runs."""
    source = Hushed(np.random.default_rng(1), 0.5 if FULL else 0.02)
    assert audited(tmp_path, source, 0)
