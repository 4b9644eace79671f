"""Batches that are filled, and what is known of them."""

from __future__ import annotations

import time
from typing import Any

import httpx
from tests.serving.service.harness import (
    FIRST,
    answered,
    offered,
)


def figures(client: httpx.Client) -> tuple[int, int]:
    """Arrivals and releases."""
    found = client.get("/v1/shelves/teas").json()
    return found["arrivals"], found["releases"]


def fill(client: httpx.Client, count: int = FIRST) -> list[dict[str, Any]]:
    """So many visitors, all answering at once."""
    offers = [offered(client, retry=f"{time.monotonic()}").json() for _ in range(count)]
    for offer in offers:
        assert answered(client, offer["offer"], offer["items"][0]).status_code == 204
    return offers
