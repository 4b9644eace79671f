"""A shelf whose offers are made on devices, tickets for it, and a device in Python."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
from examples.device.visitor import Device as Visitor
from tests.serving.service.harness import SHELF, FakeClock, like, stocked

from quietshelf.client import ticket
from quietshelf.serving.service.access.signing import PURPOSE

DEVICE_SHELF = {**SHELF, "contributions": "device", "on_no_answer": "zero"}


class Device(Visitor):
    """The one of the examples, with its connection at hand."""

    @property
    def http(self) -> httpx.Client:
        return self._http

    def slot(self) -> dict[str, Any]:
        """Take a slot, and nothing more."""
        found: dict[str, Any] = self._checked(self._http.post(f"{self._shelf}/slots", json={})).json()
        return found

    def verify(self, envelope: dict[str, str]) -> dict[str, Any]:
        """A document, if its signature is right."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        key = self._http.get("/v1/signing-key").json()["key"]
        signature, text = _decoded(envelope["signature"]), PURPOSE + envelope["signed"]
        Ed25519PublicKey.from_public_bytes(_decoded(key)).verify(signature, text.encode())
        found: dict[str, Any] = json.loads(envelope["signed"])
        return found


def on_device(client: httpx.Client, **changes: Any) -> None:
    """A shelf with items, whose offers are made on devices."""
    stocked(client, **{**DEVICE_SHELF, **changes})


def key_of(client: httpx.Client) -> str:
    """The key that the client has."""
    return client.headers["Authorization"].partition(" ")[2]


def ticketed(client: httpx.Client, text: str) -> httpx.Client:
    """A client with a ticket."""
    return like(client, f"Ticket {text}")


def device_of(client: httpx.Client, clock: FakeClock, **said: Any) -> Device:
    """A device with a ticket of its own."""
    made = ticket(key_of(client), shelf="teas", now=clock.time, **said)
    device = Device(str(client.base_url), "teas", made)
    client.stack.callback(device.close)  # type: ignore[attr-defined]
    return device


def problem(reply: httpx.Response, status: int, kind: str) -> str:
    """The detail of a problem of that status and type."""
    body = reply.json()
    assert (reply.status_code, body["type"]) == (status, f"urn:quietshelf:problem:{kind}"), reply.text
    return str(body["detail"])


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
