"""One clock for stamps and for what is due: a start with a wrong clock delays nothing, and lateness is told."""

from __future__ import annotations

from pathlib import Path

from tests.serving.service.backups import visitors
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, inline, offered, service_of, stocked

DAY = 86_400.0


def test_a_clock_that_was_a_day_ahead_delays_no_release(database: str, tmp_path: Path) -> None:
    """Times go on from the latest in the database: batches that fill then are due one window later."""
    right = FakeClock()
    with inline(database, tmp_path, clock=FakeClock(right.time + DAY)) as client:
        stocked(client)
        assert offered(client).status_code == 200
    with inline(database, tmp_path, clock=right) as client:
        visitors(client, right, FIRST - 1)
        right.time += WINDOW + 1
        assert offered(client).json()["release"] == 1
        assert client.get("/readyz").json()["clock_ahead_seconds"] >= DAY - 2 * WINDOW
        assert client.get("/v1/shelves/teas").json()["releases"] == 1


def test_lateness_is_told_everywhere(tmp_path: Path) -> None:
    """In `/readyz`, as a metric, and on pages; it is that of public due times."""
    clock = FakeClock()
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as client:
        stocked(client)

        def failing() -> bool:
            return False

        service_of(client).releasing.release = failing  # type: ignore[method-assign]
        for _ in range(FIRST):
            assert offered(client).status_code == 200
        assert client.get("/readyz").json()["late_seconds"] == 0.0
        clock.time += WINDOW + 100.0
        assert client.get("/readyz").json()["late_seconds"] == 100.0
        metric = 'quietshelf_release_late_seconds{number="1",shelf="teas"} 100.0'
        assert metric in client.get("/metrics").text
        assert client.get("/operations?format=json").json()["releaser"]["late"][0]["late_seconds"] == 100.0
