"""Visitor tickets: signed by a shop's back end, they let a browser take one slot and answer it, and nothing else.

A ticket is short-lived. It names its shelf, the key that signed it and, if visits per person count, the person. It is
signed by HMAC-SHA256 with a hash of the key's secret half, which is all the service stores of it. A ticket reveals
nothing about the key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from typing import Any

LONGEST = 3600
"""Most seconds that a ticket may be valid."""


def ticket(
    key: str,
    *,
    shelf: str,
    person: str | None = None,
    seconds: int = 600,
    now: float | None = None,
    nonce: str | None = None,
) -> str:
    """Create a ticket for one visitor, in the shop's back end. The browser sends it as ``Authorization: Ticket ...``.

    Args:
        key: An API key with the scope ``offer``; it stays on the back end.
        shelf: The only shelf it is for.
        person: A pseudonym of the visitor that only the shop understands: the browser can read it.
        seconds: How long it is valid, at most an hour.
        now: Seconds since 1970; by default the clock's.
        nonce: Names the visit; by default random, as it should be.

    >>> made = ticket("qs_abcdef_" + "s" * 43, shelf="teas", now=0.0, nonce="n" * 16)
    >>> made.partition(".")[0][:24]
    'eyJzaGVsZiI6InRlYXMiLCJr'
    """
    identity, secret = _halves(key)
    if not (isinstance(seconds, int) and 0 < seconds <= LONGEST):
        raise ValueError(f"seconds must be a whole number from 1 to {LONGEST}, got seconds={seconds!r}")
    begins = time.time() if now is None else now
    content: dict[str, Any] = {"shelf": shelf, "key": identity}
    content |= {} if person is None else {"person": person}
    content |= {"expires": int(begins) + seconds, "nonce": secrets.token_urlsafe(18) if nonce is None else nonce}
    payload = _encoded(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())
    shared = hashlib.sha256(b"quietshelf key " + secret.encode()).digest()
    return f"{payload}.{_encoded(hmac.digest(shared, b'quietshelf ticket ' + payload.encode(), 'sha256'))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _halves(key: str) -> tuple[str, str]:
    word, _, rest = key.partition("_")
    identity, _, secret = rest.partition("_")
    if word != "qs" or not identity or not secret:
        raise ValueError("key must be written qs_ID_SECRET, got another text")
    return identity, secret
