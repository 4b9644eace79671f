"""``quietshelf serve --demo``: a shop in a temporary database, with simulated visitors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI

from quietshelf.demo.contest import FLOOR, LATELY, PAPER, SERVICE, TONES, Api, Contest
from quietshelf.demo.tea_shop import TEAS, Shop
from quietshelf.serving.service import logs
from quietshelf.serving.service.access import keys
from quietshelf.serving.service.http.app import make_app
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

SHELF, RHO, WINDOW = "teas", 1.0, 2.0
HORIZON, PACE, SEED = 20_000, 40.0, 7
PROMISES = {SERVICE: f"ρ = {RHO:g}, proven", PAPER: f"ρ = {RHO:g}, proven", FLOOR: "nothing"}


@dataclass
class Demo:
    """The demo as the pages see it.

    Attributes:
        key: A read-only key, which the sign-in page offers.
        contest: The contest.
    """

    key: str
    contest: Contest
    stop: threading.Event = field(default_factory=threading.Event)

    def view(self) -> dict[str, Any]:
        """The contest as plain data, including true losses, which no real shop could know."""
        found, releases = self.contest.figures(), self.contest.releases
        count = len(found["times"])
        series = [
            {
                "label": label,
                "tone": TONES[label],
                "promise": PROMISES[label],
                "lost": score["lost"][:count],
                "share": score["share"][:count],
                "lately": score["lately"],
            }
            for label, score in found["scores"].items()
        ]
        return {
            "page": "demo",
            "shop": f"{len(TEAS)} teas, {Shop().capacity} shown at a time, to {PACE:g} simulated visitors per second.",
            "shelf": SHELF,
            "rho": RHO,
            "horizon": HORIZON,
            "visitors": found["visitors"],
            "releases": releases,
            "lately": found["scores"][SERVICE]["lately_share"],
            "lately_visitors": LATELY,
            "times": found["times"],
            "series": series,
        }

    def run(self, api: Api) -> None:
        """Stock the shelf, then serve visitors."""
        try:
            stock(api)
            self.contest.play(self.stop)
        except (OSError, HTTPException) as error:
            if not self.stop.is_set():
                logs.failed("demo", error)
        finally:
            api.close()


def stock(api: Api) -> None:
    """Create the shelf and upload the teas."""
    shop = Shop()
    settings = {"rho": RHO, "capacity": shop.capacity, "window": WINDOW, "feature_map": "full", "visitor_dim": 1}
    api.ask("PUT", f"/v1/shelves/{SHELF}", settings)
    items = [{"id": name, "features": [strong, sweet], "revenue": price} for name, strong, sweet, price in TEAS]
    api.ask("PUT", f"/v1/shelves/{SHELF}/items", {"items": items})


def open_demo(folder: Path, *, host: str, port: int) -> tuple[FastAPI, Demo, Api, str]:
    """Make the app, the demo, its API client and an admin key."""
    settings = ServiceSettings(
        database=f"sqlite:///{folder}/shop.db",
        secrets=str(folder / "secrets"),
        host=host,
        port=port,
        poll_seconds=0.2,
        log_level="warning",
    )
    service = Service(settings)
    service.prepare()
    with service.store.write() as connection:
        now = service.store.now(connection)
        made = [keys.create(connection, name=f"demo {scope}", scopes=[scope], shelf=None, now=now)
                for scope in ("read", "admin")]  # fmt: skip
    app = make_app(service)
    api = Api("127.0.0.1" if host == "0.0.0.0" else host, port, made[1])  # noqa: S104 - compared, not listened on
    demo = Demo(made[0], Contest(api, SHELF, rho=RHO, horizon=HORIZON, pace=PACE, seed=SEED))
    app.state.demo = demo
    return app, demo, api, made[1]


def serve_demo(host: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve until interrupted, then delete the database."""
    import uvicorn

    logs.take_over()
    from quietshelf.serving.service.http.protocol import options

    with TemporaryDirectory(prefix="quietshelf-demo-") as folder:
        app, demo, api, key = open_demo(Path(folder), host=host, port=port)
        server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, **options(app.state.service.settings)))

        def visitors() -> None:
            while not server.started and not demo.stop.wait(0.05):
                pass
            demo.run(api)

        thread = threading.Thread(target=visitors, name="quietshelf-demo", daemon=True)
        thread.start()
        tell(f"open http://{host}:{port}/demo and watch a shop learn; admin key, for this demo only: {key}")
        try:
            server.run()
        finally:
            demo.stop.set()
            thread.join(5)
