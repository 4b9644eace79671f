"""Every reply tells browsers to do nothing with it but what it allows itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.service.harness import inline, like, offered, service_of, stocked

KEPT = "public, max-age=31536000, immutable"


def guarded(reply: httpx.Response) -> None:
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-inline" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["x-frame-options"] == "DENY"
    assert reply.headers["referrer-policy"] == "same-origin"
    assert reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert reply.headers["cache-control"] == ("no-store" if "/static/" not in reply.url.path else KEPT)


def test_every_kind_of_reply_is_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offers, answers, refusals of every status, probes, pages, files, and our own mistakes."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        bare = like(client, None)
        offer = offered(client)
        seen = [
            offer,
            client.post(f"/v1/offers/{offer.json()['offer']}/choice", json={"item": None}),
            client.post("/v1/shelves/teas/offers", json={"features": "x"}),
            client.post("/v1/shelves/teas/offers", content=b"x" * 300_000, headers={"Content-Type": "text/plain"}),
            client.put("/v1/shelves/x", json={}),
            *(bare.get(path) for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/v1/privacy", "/x")),
            bare.get("/static/api.js"),
            *(client.get(path) for path in ("/v1/shelves", "/v1/shelves/teas/items", "/metrics", "/operations")),
            client.delete("/healthz"),
        ]

        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError

        monkeypatch.setattr(service_of(client), "put_shelf", broken)
        seen.append(client.put("/v1/shelves/y", json={"rho": 1, "capacity": 1, "window": 1}))
        assert {reply.status_code for reply in seen} >= {200, 204, 303, 401, 404, 405, 413, 422, 500}
        for reply in seen:
            guarded(reply)


def test_the_page_of_the_api_runs_its_own_script_alone(tmp_path: Path) -> None:
    """From its own files: what is put into the page by others does not run."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        reply = client.get("/docs")
        assert "script-src 'self'; style-src 'self'" in reply.headers["content-security-policy"]
        assert "<style" not in reply.text
        assert "<script>" not in reply.text
