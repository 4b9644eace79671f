"""Checks visitor tickets, against the keys in memory and in constant time.

A ticket allows what a visitor's device must do: read public documents, take one slot, answer it. It has none of a key's
scopes, so every other route refuses it. `quietshelf.client.tickets` creates tickets.
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
"""The scope of a ticket. No key has it; keys have ``offer``."""
LONGEST = 3600
"""Most seconds that a ticket may be valid."""
LONGEST_TEXT = 4096
WORD = re.compile(r"ticket +(\S+)", re.IGNORECASE)
_NOBODY = bytes(32)


class Content(BaseModel):
    """The content of a ticket."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    shelf: Name
    key: str = Field(min_length=1, max_length=100)
    person: Person | None = None
    expires: int = Field(ge=0, le=2**53)
    nonce: str = Field(min_length=16, max_length=100, pattern=r"^[A-Za-z0-9_-]*$")


class Signed(NamedTuple):
    """A ticket whose signature is not checked yet."""

    content: Content
    payload: str
    tag: bytes


@dataclass(frozen=True)
class Visitor(Key):
    """The holder of a valid ticket: a key that can do what visitors do on one shelf.

    Attributes:
        ticket: Its content.
    """

    ticket: Content = field(kw_only=True)

    def check_time(self, now: float) -> None:
        """Refuse a ticket that has expired, or claims to be valid for too long."""
        if not now < self.ticket.expires <= now + LONGEST + 1:
            raise Unauthorised(f"the ticket must not have expired, and must be valid for at most {LONGEST} seconds")

    @property
    def visit(self) -> str:
        """The name of the one visit it is for."""
        return f"ticket {self.id} {self.ticket.nonce}"


def presented(header: str | None) -> tuple[str, str | Signed]:
    """Parse an Authorization header: the id of a key, and its secret or the ticket it signed."""
    found = WORD.fullmatch(header or "")
    if found is None:
        return keys.presented(header)
    signed = _read(found[1])
    return signed.content.key, signed


def matches(key: Key | None, proof: str | Signed, now: float) -> Key:
    """The key, or the visitor whose ticket it signed, if valid. Unknown keys take the same time."""
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
    """Require a ticket for this shelf, or a key with the scope ``offer``, to read documents for devices."""
    if isinstance(key, Visitor):
        key.check_time(now)
    key.may(VISITOR if isinstance(key, Visitor) else "offer", shelf)


def visitor(key: Any) -> Visitor:
    """The visitor; refuses an ordinary key."""
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
        raise Unauthorised("the ticket must be one signed by a shop's back end: `Authorization: Ticket ...`") from None
