"""``quietshelf serve --demo``: made-up visitors over HTTP, and a contest on the same visitors."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.pages.browser import CHECKS, DESKTOP, PHONE, page_of
from tests.serving.service.harness import free_port, serving
from typer.testing import CliRunner

from quietshelf.cli import app as command
from quietshelf.demo import server as demo
from quietshelf.demo.contest import FLOOR, PAPER, SERVICE
from quietshelf.demo.tea_shop import TASTES, Shop


def test_the_demo_learns_and_is_seen_learning(chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visitors come, releases follow, all three contestants are drawn; one button lets a newcomer look around."""
    monkeypatch.setattr(demo, "HORIZON", 60)
    monkeypatch.setattr(demo, "PACE", 100.0)
    monkeypatch.setattr(demo, "WINDOW", 0.3)
    port = free_port()
    app, running, api, _ = demo.open_demo(tmp_path, host="127.0.0.1", port=port)
    url = f"http://127.0.0.1:{port}"
    with serving(app, port):
        thread = threading.Thread(target=running.run, args=(api,))
        thread.start()
        thread.join(120)
        assert running.contest.visitors == 60
        view = httpx.get(f"{url}/demo?format=json").json()
        assert [each["label"] for each in view["series"]] == [SERVICE, PAPER, FLOOR]
        assert view["times"][-1] == 60
        _wait_for_release(url, running.key)
        for each in view["series"]:
            assert len(each["lost"]) == len(each["share"]) == len(view["times"])
            assert (np.diff(each["lost"]) >= 0).all()
        _look(chromium, url)


def _wait_for_release(url: str, key: str) -> None:
    for _ in range(200):
        shelf = httpx.get(f"{url}/v1/shelves/teas", headers={"Authorization": f"Bearer {key}"}).json()
        if shelf["releases"] >= 1:
            return
        time.sleep(0.05)
    raise AssertionError("the first batch was not released")


def _look(chromium: Any, url: str) -> None:
    for view, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
        with page_of(chromium, viewport=view, color_scheme=scheme) as (page, heard):
            page.goto(f"{url}/demo")
            assert page.evaluate(CHECKS) == []
            page.goto(f"{url}/shelves/teas")
            page.get_by_role("button", name="Look around with the demo’s key").click()
            page.wait_for_url(f"{url}/shelves/teas")
            assert page.evaluate(CHECKS) == []
            assert page.goto(f"{url}/shelves/teas/counts").status == 403
            assert [each for each in heard if "403" not in each] == []


def test_the_demo_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no place to keep things, and its folder is gone when it ends."""
    refused = CliRunner().invoke(command, ["serve", "--demo", "--database", "sqlite:///x.db"])
    assert refused.exit_code != 0
    assert "--demo takes --host and --port only" in str(refused.exception) + refused.output
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told: list[str] = []

    class Brief:
        """A server that is up for a moment."""

        started = False

        def __init__(self, config: Any) -> None:
            self.config = config

        def run(self) -> None:
            assert len(list(tmp_path.iterdir())) == 1
            time.sleep(0.1)

    monkeypatch.setattr("uvicorn.Server", Brief)
    demo.serve_demo("127.0.0.1", free_port(), told.append)
    assert list(tmp_path.iterdir()) == []
    assert "admin key, for this demo only: qs_" in told[0]


def test_the_shop_is_as_wide_as_it_says() -> None:
    """No visitor's feature vector is longer than the radius that the paper's policy is told."""
    shop = Shop()
    visitors = shop.open([np.random.SeedSequence(1)])
    for t in range(500):
        context = visitors.context(t)
        rows = context.features.rows(np.arange(shop.items)[None])
        assert np.linalg.norm(rows, axis=-1).max() <= shop.radius
    assert rows.shape == (1, shop.items, TASTES.size)
