"""Two things that must not be in the database: the key of its hashes, and how far it had come when last seen.

Somebody who has the database without the key cannot test whether a person or an offer id is in it. If the database lags
its epoch file, the service treats it as a restored backup (`restore`).
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from quietshelf.curation.atomic_write import atomic_write
from quietshelf.curation.coins import Coins
from quietshelf.model.types import require

KEY, EPOCH, ADMIN_KEY = "key", "epoch.json", "admin-key"
NONCE, TAG = 9, 9
Mark = dict[str, Any]
"""Of one shelf: batches ``opened`` and ``released`` so far, those ``announced``, and name and cost of a release."""
Progress = dict[str, Mark]
"""The mark of each shelf, by its number as text."""


class Ticket(NamedTuple):
    """What an offer id says once its tag is found right."""

    shelf: int
    batch: int
    slot: int
    nonce: bytes


class Vault:
    """The folder of secrets; ``make`` says whether one that is not there, or has no key, is made or refused."""

    def __init__(self, folder: str | os.PathLike[str], *, make: bool = True) -> None:
        self._folder = Path(folder)
        path = self._folder / KEY
        if make:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if make and not path.exists():
            atomic_write(path, secrets.token_bytes(32), fresh=True)
        require(path.is_file(), "secrets must hold the key file (name its folder with --secrets)", secrets=str(folder))
        self._key = path.read_bytes()
        rule = "the key file must hold 32 bytes or more (put back the copy that was kept)"
        require(len(self._key) >= 32, f"{rule}, got {len(self._key)} in {path}")
        self._derived = lru_cache(maxsize=4096)(self._derive)  # of purposes that come again with every visitor

    @property
    def key_check(self) -> str:
        """Tells whether a database belongs to this key, and nothing else."""
        return self._tag("check", b"quietshelf").hex()

    def person(self, shelf: int, person: str) -> str:
        """A person's keyed hash; the same person has another one on every shelf."""
        return _hashed(self._derived(f"person {shelf}"), person.encode()).hex()

    def retry(self, shelf: int, key: str) -> str:
        """The keyed hash of an Idempotency-Key."""
        return _hashed(self._derived(f"retry {shelf}"), key.encode()).hex()

    def fingerprint(self, body: bytes) -> str:
        """The keyed hash of a request."""
        return _hashed(self._derived("body"), body).hex()

    def offer_id(self, ticket: Ticket) -> str:
        """An id that nobody else can make, and that can be recognised after its offer was forgotten."""
        numbers = f"{ticket.shelf}.{ticket.batch}.{ticket.slot}"
        tag = self._tag("offer " + numbers, ticket.nonce)[:TAG]
        return f"{numbers}.{base64.urlsafe_b64encode(ticket.nonce + tag).decode()}"

    def ticket(self, offer: str) -> Ticket | None:
        """The inverse of ``offer_id``; None for anything it never made."""
        *numbers, token = offer.split(".")
        small = len(numbers) == 3 and all(part.isascii() and part.isdecimal() and len(part) < 10 for part in numbers)
        if not small or len(token) != 24 or not token.isascii():
            return None
        try:
            nonce = base64.urlsafe_b64decode(token)[:NONCE]
        except ValueError:
            return None
        shelf, batch, slot = map(int, numbers)
        ticket = Ticket(shelf, batch, slot, nonce)
        return ticket if hmac.compare_digest(self.offer_id(ticket), offer) else None

    @property
    def epoch(self) -> dict[str, Any]:
        """How far the database had come: its identity, its epoch, its releaser, and the mark of each shelf."""
        path = self._folder / EPOCH
        try:
            return _renamed(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
        except (ValueError, KeyError, TypeError, AttributeError):
            rule = "the epoch file must be as the service wrote it"
            advice = "put back a copy if the service has not run since; else move it away and run quietshelf restore"
            raise ValueError(f"{rule} ({advice}), got a damaged one: {path}") from None

    @property
    def admin_key(self) -> Path:
        """Where the first admin key is written, for its owner alone; whoever has read it may delete it."""
        return self._folder / ADMIN_KEY

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time: to read the epoch file, act, and write it; a process that dies lets go."""
        held = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)

    def releasing(self) -> ExitStack | None:
        """The right to release, of processes that share this folder, until it is closed; None if another has it."""
        held = os.open(self._folder / "releasing", os.O_RDWR | os.O_CREAT, 0o600)
        with ExitStack() as stack:
            stack.callback(os.close, held)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            return stack.pop_all()

    @property
    def place(self) -> str:
        """Tells this folder from those of other machines, and from copies of it."""
        found = self._folder.stat()
        return f"{socket.gethostname()}:{found.st_dev}:{found.st_ino}"

    def note(self, content: dict[str, Any]) -> None:
        """Remember how far the database has come, and which release is announced (`epochs`)."""
        atomic_write(self._folder / EPOCH, json.dumps(content).encode())

    def slot_nonce(self, shelf: int, ticket: str) -> bytes:
        """The nonce of the only slot that this visitor ticket takes: who shows it may answer there, and nobody else."""
        return self._tag(f"slot {shelf}", ticket.encode())[:NONCE]

    def contribution(self, ticket: Ticket, contribution: bytes) -> int:
        """Tells one contribution to a slot from another, and whoever lacks the secret nothing of either; 31 bits."""
        return int.from_bytes(self._tag("contribution", ticket.nonce + contribution)[:4], "little") >> 1

    def edition(self, shelf: int, epoch: int) -> str:
        """Tells what devices are told of a shelf from what they were told before it was made anew, or restored."""
        return self._tag("edition", f"{shelf} {epoch}".encode())[:NONCE].hex()

    @property
    def signing_seed(self) -> bytes:
        """The private half of the service's signing key: the same wherever this secret is, and another one nowhere."""
        return hashlib.blake2b(b"quietshelf signing", key=self._key[:64], digest_size=32).digest()

    def coins(self, shelf: int) -> Coins:
        """The coins of a shelf's visitors (R3)."""
        return Coins(self._tag(f"coins {shelf}", b""))

    def _tag(self, purpose: str, content: bytes) -> bytes:
        return _hashed(self._derive(purpose), content)

    def _derive(self, purpose: str) -> bytes:
        return hashlib.blake2b(purpose.encode(), key=self._key[:64], digest_size=32).digest()


def _hashed(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, key=key, digest_size=16).digest()


def _renamed(content: dict[str, Any]) -> dict[str, Any]:
    """The file in the present words; an earlier version wrote ``seals`` and ``releasing``."""
    for mark in content["shelves"].values():
        mark.setdefault("announced", mark.pop("releasing", []))
    content.setdefault("releaser_ids", content.pop("seals", []))
    return content
