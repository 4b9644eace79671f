"""Visitor tickets as the service meets them: checked from the keys in memory, in constant time.

A ticket allows what a visitor's own device has to do: read what is public, take one slot, answer it. It has no scope of
any key, so every other route refuses it. How one is made: `quietshelf.client.tickets`.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quietshelf.serving.service.access import keys
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.models import Name, Person
from quietshelf.serving.service.problems import Forbidden, NotFound, Unauthorised

VISITOR = "visitor"
"""What a ticket may do; no key has this scope, for keys have ``offer``."""
LONGEST = 3600
"""Seconds that a ticket may be valid."""
LONGEST_TEXT = 4096
WORD = re.compile(r"ticket +(\S+)", re.IGNORECASE)
_NOBODY = bytes(32)


class Content(BaseModel):
    """What a ticket says."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    shelf: Name
    key: str = Field(min_length=1, max_length=100)
    person: Person | None = None
    expires: int = Field(ge=0, le=2**53)
    nonce: str = Field(min_length=16, max_length=100, pattern=r"^[A-Za-z0-9_-]*$")


class Signed(NamedTuple):
    """A ticket that is not checked yet."""

    content: Content
    payload: str
    tag: bytes


@dataclass(frozen=True)
class Visitor(Key):
    """Who has a valid ticket: a key that can do what visitors do on one shelf.

    Attributes:
        ticket: What it says.
    """

    ticket: Content = field(kw_only=True)

    def check_time(self, now: float) -> None:
        """Refuse a ticket that has expired, or says that it lives longer than any may."""
        if not now < self.ticket.expires <= now + LONGEST + 1:
            raise Unauthorised(f"the ticket must not have expired, and must be valid for at most {LONGEST} seconds")

    @property
    def visit(self) -> str:
        """Names the only slot that it takes."""
        return f"ticket {self.id} {self.ticket.nonce}"


def presented(header: str | None) -> tuple[str, str | Signed]:
    """Id of a key, and its secret or what it has signed, from an Authorization header."""
    found = WORD.fullmatch(header or "")
    if found is None:
        return keys.presented(header)
    signed = _read(found[1])
    return signed.content.key, signed


def matches(key: Key | None, proof: str | Signed, now: float) -> Key:
    """The key, or the visitor whose ticket it signed, unless it has expired; an unknown key takes as long."""
    if isinstance(proof, str):
        return keys.matches(key, proof, now)
    shared = _NOBODY if key is None else bytes.fromhex(key.hash)
    expected = hmac.digest(shared, b"quietshelf ticket " + proof.payload.encode(), "sha256")
    right = secrets.compare_digest(expected, proof.tag)
    if key is None or not right or keys.expired(key, now):
        raise Unauthorised("the ticket must be signed by a valid key, neither expired nor revoked")
    try:
        key.may("offer", proof.content.shelf)
    except (Forbidden, NotFound):
        raise Unauthorised("the ticket must be signed by a key that may make offers on its shelf") from None
    return Visitor(key.id, key.name, key.hash, frozenset({VISITOR}), proof.content.shelf, ticket=proof.content)


def may_visit(key: Key, shelf: str, now: float) -> None:
    """Refuse who may not read what devices are told: it takes a ticket for this shelf, or a key that makes offers."""
    if isinstance(key, Visitor):
        key.check_time(now)
    key.may(VISITOR if isinstance(key, Visitor) else "offer", shelf)


def visitor(key: Any) -> Visitor:
    """The visitor; a key is none."""
    if not isinstance(key, Visitor):
        raise Forbidden("slots are taken and answered with a ticket that the shop's back end signs, got a key")
    return key


def encoded(content: bytes) -> str:
    """Base64 for addresses and headers, without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _read(text: str) -> Signed:
    payload, _, tag = text.partition(".")
    try:
        if len(text) > LONGEST_TEXT:
            raise ValueError("too long")
        content = Content.model_validate(json.loads(_decoded(payload)))
        return Signed(content, payload, _decoded(tag))
    except (ValueError, ValidationError, RecursionError):
        raise Unauthorised("the ticket must be as a shop's back end signs it: `Authorization: Ticket ...`") from None
