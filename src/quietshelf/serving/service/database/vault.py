"""The folder of secrets: the key of the database's hashes, and the epoch file, which records how far the database came.

Without the key, nobody who has the database can test whether a person or an offer id is in it. If the database lags its
epoch file, the service treats it as a restored backup (`restore`).
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
"""One shelf's progress: batches ``opened``, ``released`` and ``announced``, its name, and the cost of a release."""
Progress = dict[str, Mark]
"""The mark of each shelf, by its number as text."""


class Ticket(NamedTuple):
    """The content of an offer id whose tag is valid."""

    shelf: int
    batch: int
    slot: int
    nonce: bytes


class Vault:
    """The folder of secrets. With ``make`` a missing folder or key is created; without it, refused."""

    def __init__(self, folder: str | os.PathLike[str], *, make: bool = True) -> None:
        self._folder = Path(folder)
        path = self._folder / KEY
        if make:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if make and not path.exists():
            atomic_write(path, secrets.token_bytes(32), fresh=True)
        require(path.is_file(), "secrets must hold the key file (name its folder with --secrets)", secrets=str(folder))
        self._key = path.read_bytes()
        rule = "the key file must hold 32 bytes or more (restore the copy that you kept)"
        require(len(self._key) >= 32, f"{rule}, got {len(self._key)} in {path}")
        self._derived = lru_cache(maxsize=4096)(self._derive)  # keys that every visitor needs

    @property
    def key_check(self) -> str:
        """A tag that shows whether a database belongs to this key, and nothing else."""
        return self._tag("check", b"quietshelf").hex()

    def person(self, shelf: int, person: str) -> str:
        """A person's keyed hash, different on every shelf."""
        return _hashed(self._derived(f"person {shelf}"), person.encode()).hex()

    def retry(self, shelf: int, key: str) -> str:
        """The keyed hash of an Idempotency-Key."""
        return _hashed(self._derived(f"retry {shelf}"), key.encode()).hex()

    def fingerprint(self, body: bytes) -> str:
        """The keyed hash of a request."""
        return _hashed(self._derived("body"), body).hex()

    def offer_id(self, ticket: Ticket) -> str:
        """An offer id that nobody else can forge, and that is recognised even after its offer was deleted."""
        numbers = f"{ticket.shelf}.{ticket.batch}.{ticket.slot}"
        tag = self._tag("offer " + numbers, ticket.nonce)[:TAG]
        return f"{numbers}.{base64.urlsafe_b64encode(ticket.nonce + tag).decode()}"

    def ticket(self, offer: str) -> Ticket | None:
        """Parse an offer id; None if `offer_id` did not make it."""
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
        """The epoch file: the database's identity, epoch and releaser, and the mark of each shelf."""
        path = self._folder / EPOCH
        try:
            kept = _parsed(path.read_bytes())
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            rule = "the epoch file must be as the service wrote it"
            advice = "restore a copy if the service has not run since; else move it away and run quietshelf restore"
            raise ValueError(f"{rule} ({advice}), got a damaged one: {path}") from None
        lists = {name: [*each] for name, each in kept.items() if isinstance(each, list)}
        shelves = {shelf: {**mark, "announced": [*mark["announced"]]} for shelf, mark in kept["shelves"].items()}
        return {**kept, **lists, "shelves": shelves}  # a caller may change what it gets

    @property
    def admin_key(self) -> Path:
        """Where the first admin key is written, readable by its owner only. It may be deleted once read."""
        return self._folder / ADMIN_KEY

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the epoch file for one process, to read it, act, and write it. A process that dies lets go."""
        held = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            os.close(held)

    def releasing(self) -> ExitStack | None:
        """Take the right to release among processes that share this folder, until closed; None if another has it."""
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
        """Distinguishes this folder from those of other machines, and from copies."""
        found = self._folder.stat()
        return f"{socket.gethostname()}:{found.st_dev}:{found.st_ino}"

    def note(self, content: dict[str, Any]) -> None:
        """Write the epoch file (`epochs`)."""
        atomic_write(self._folder / EPOCH, json.dumps(content).encode())

    def slot_nonce(self, shelf: int, ticket: str) -> bytes:
        """The nonce of the slot that this visitor ticket takes, so that only its holder can answer there."""
        return self._tag(f"slot {shelf}", ticket.encode())[:NONCE]

    def contribution(self, ticket: Ticket, contribution: bytes) -> int:
        """A 31-bit keyed hash that tells contributions to a slot apart, and reveals nothing without the secret."""
        return int.from_bytes(self._tag("contribution", ticket.nonce + contribution)[:4], "little") >> 1

    def edition(self, shelf: int, epoch: int) -> str:
        """Names a shelf's documents, so that they never mix with those from before it was recreated or restored."""
        return self._tag("edition", f"{shelf} {epoch}".encode())[:NONCE].hex()

    @property
    def signing_seed(self) -> bytes:
        """The private half of the service's signing key, derived from this secret alone."""
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


@lru_cache(maxsize=2)
def _parsed(text: bytes) -> dict[str, Any]:
    """An epoch file, cached since every step of a release reads it; fields of an earlier version are renamed."""
    content: dict[str, Any] = json.loads(text.decode())
    for mark in content["shelves"].values():
        mark.setdefault("announced", mark.pop("releasing", []))
    content.setdefault("releaser_ids", content.pop("seals", []))
    return content
