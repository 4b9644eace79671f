"""The states that the pages are designed for, each as a running service: for tests, and for the screenshots."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sa
from fastapi import FastAPI
from tests.serving.service.harness import FakeClock, free_port, serving

from quietshelf.curation.coins import Coins
from quietshelf.demo.tea_shop import TASTES, TEAS, WIDEST
from quietshelf.privacy.accounting import HISTORY, Assumption, gaussian
from quietshelf.privacy.release.noise import Simulated
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.http.app import make_app
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

LONG = "a-very-long-name-for-a-shelf-that-somebody-made-by-a-program-and-never-thought-of-reading-on-a-0123"
PAGES = (
    "/", "/shelves/teas", "/shelves/members", "/shelves/random-teas", "/shelves/one-visitor", "/shelves/opening-soon",
    "/shelves/no-items", f"/shelves/{LONG}", "/shelves/closed-last-year", "/shelves/teas/privacy",
    "/shelves/closed-last-year/privacy", "/shelves/teas/counts", "/operations",
)  # fmt: skip
"""Of the furnished shop, a shelf in every state."""
HTML = {"Accept": "text/html"}
WINDOW = 10.0
SHELF = {"rho": 1.0, "capacity": 4, "window": WINDOW, "feature_map": "full", "visitor_dim": 1}
STOCK = [{"id": name, "features": [strong, sweet], "revenue": price} for name, strong, sweet, price in TEAS]


class Shop:
    """A running service with a clock of its own, and what is needed to let visitors come."""

    def __init__(self, client: httpx.Client, clock: FakeClock, app: FastAPI) -> None:
        self.client, self.clock, self.app = client, clock, app
        self.service: Any = app.state.service
        self._rng = np.random.default_rng(3)

    @property
    def url(self) -> str:
        return str(self.client.base_url).rstrip("/")

    @property
    def admin(self) -> str:
        return str(self.client.headers["Authorization"].partition(" ")[2])

    def key(self, *scopes: str, shelf: str | None = None, name: str = "anna") -> str:
        """A new key."""
        with self.service.store.write() as connection:
            return keys.create(connection, name=name, scopes=scopes, shelf=shelf, now=self.clock.time)

    def shelf(self, name: str, *, stock: bool = True, **changes: Any) -> None:
        """A shelf of teas."""
        assert self.client.put(f"/v1/shelves/{name}", json={**SHELF, **changes}).status_code == 201
        if stock:
            assert self.client.put(f"/v1/shelves/{name}/items", json={"items": STOCK}).status_code == 200

    def visits(self, name: str, count: int, *, persons: bool = False) -> None:
        """Visitors who come together, and answer at once; a second passes."""
        moods = self._rng.uniform(-WIDEST, WIDEST, count)
        draws = self._rng.random(count)
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: self._visit(name, float(moods[n]), float(draws[n]), persons), range(count)))
        self.pass_time(1.0)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the pages look at it."""
        self.clock.time += seconds
        self.app.state.room.activity.look()

    def release(self, name: str, number: int) -> None:
        """Let the window pass, and the second or so that a release is given, until it has that number of releases."""
        self.pass_time(WINDOW + 1.0)
        for _ in range(200):
            if self.client.get(f"/v1/shelves/{name}").json()["releases"] >= number:
                return
            time.sleep(0.05)
        raise AssertionError(f"{name} has not made release {number}")

    def learn(self, name: str, releases: int, *, persons: bool = False) -> None:
        """Fill batch after batch."""
        for number in range(1, releases + 1):
            self.learn_more(name, number, persons=persons)

    def learn_more(self, name: str, number: int, *, persons: bool = False) -> None:
        """Fill the next batch, whose release is to have that number."""
        self.fill(name, persons=persons)
        self.release(name, number)

    def fill(self, name: str, *, persons: bool = False) -> None:
        """Visitors until the batch that is open, or the next one, is full."""
        self.visits(name, 1, persons=persons)
        batch = self.client.get(f"/shelves/{name}?format=json").json()["status"]["batch"]
        self.visits(name, batch["size"] - batch["visitors"], persons=persons)

    def _visit(self, name: str, mood: float, draw: float, persons: bool) -> None:
        who = {"person": f"customer {draw}"} if persons else {}
        reply = self.client.post(f"/v1/shelves/{name}/offers", json={"features": [mood], **who}).json()
        shown = {tea[0]: np.array([1, tea[1], tea[2], mood, mood * tea[1], mood * tea[2]]) @ TASTES for tea in TEAS}
        weights = np.exp([0.0, *(shown[item] for item in reply["items"])])
        place = int((weights.cumsum() / weights.sum() <= draw).sum()) - 1
        item = None if place < 0 else reply["items"][place]
        assert self.client.post(f"/v1/offers/{reply['offer']}/choice", json={"item": item}).status_code == 204


@contextmanager
def opened(folder: Path, **options: Any) -> Iterator[Shop]:
    """A service without shelves. Its noise is simulated: so are its visitors."""
    folder.mkdir(parents=True, exist_ok=True)
    clock, port = FakeClock(), free_port()
    place: dict[str, Any] = {"database": f"sqlite:///{folder}/shop.db", "secrets": str(folder / "secrets")}
    settings = ServiceSettings(
        **place, **{"poll_seconds": 0.2, "log_level": "error", "release_seconds": 0.0, **options}
    )
    source = Simulated(np.random.default_rng(1))
    service = Service(settings, clock=clock, source=source, coins=lambda shelf: Coins(b"%032d" % shelf))
    service.store.migrate()
    with service.store.write() as connection:
        key = keys.create(connection, name="anna (admin)", scopes=["admin"], shelf=None, now=clock.time)
    app = make_app(service)
    with (
        serving(app, port),
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30
        ) as client,
    ):
        yield Shop(client, clock, app)


def furnish(shop: Shop, *, releases: int) -> None:
    """A shop in which every state of a shelf is there, but those that need the whole service to be ill."""
    shop.shelf("closed-last-year")
    shop.learn("closed-last-year", 1)
    assert shop.client.delete("/v1/shelves/closed-last-year").status_code == 204
    shop.pass_time(3 * 86400)
    shop.shelf("teas")
    shop.learn("teas", releases)
    shop.visits("teas", 60)
    shop.shelf("members", rho=2.0, visits=3)
    shop.learn("members", 1, persons=True)
    shop.shelf("random-teas", policy="uniform", private=False)
    shop.learn("random-teas", 1)
    shop.shelf("one-visitor")
    shop.visits("one-visitor", 1)
    shop.shelf("opening-soon")
    shop.shelf("no-items", stock=False)
    shop.shelf(LONG)


def crowd(shop: Shop, count: int = 50) -> None:
    """Many shelves."""
    for number in range(count):
        shop.shelf(f"aisle-{number:02}", stock=number % 7 != 0)


def stall(shop: Shop, name: str = "teas") -> None:
    """A full batch that nobody releases."""
    shop.service.releasing.release = lambda: False
    shop.fill(name)
    shop.pass_time(WINDOW + 600.0)


def spend(shop: Shop, name: str) -> None:
    """A ledger with no room for a release: something was released from everybody's data, by nothing we serve."""
    other = gaussian("other", sensitivity=1.0, noise=5.0, batch=HISTORY, assumption=Assumption.EXACT_GRID)
    table = schema.shelves
    with shop.service.store.write() as connection:
        row = connection.execute(sa.select(table).where(table.c.name == name)).one()
        config = json.dumps({**json.loads(row.config), "rho": 1.03})  # what is spent, and a little more
        changed = {"config": config, "config_version": row.config_version + 1}
        connection.execute(sa.update(table).where(table.c.shelf == row.shelf).values(changed))
        count = sa.select(sa.func.count()).where(schema.events.c.shelf == row.shelf)
        entry = {"shelf": row.shelf, "number": connection.execute(count).scalar_one(), "batch": -1}
        connection.execute(sa.insert(schema.events), {**entry, "event": json.dumps(other.to_dict())})
