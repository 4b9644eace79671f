"""A shelf on disk: JSON and arrays in one file, never pickle; the person key in a second file.

An open batch may be resumed only once, or the same visitors would be released twice (R8; docs/proofs.md, section 6). So
each save leaves a token beside the file, and the file identifies the token by inode and change time, which no copy
keeps. The first to remove the token owns the open batches: a shelf that loads the file, or the shelf that saved it,
when it continues. All others drop them, as does a shelf in doubt. Only a snapshot of the whole disk looks like the
original: it must not be used while the original is in use or after it was used again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from quietshelf.curation.atomic_write import atomic_write, sync_folder
from quietshelf.curation.persons import Persons
from quietshelf.serving.shelf.codec import Arrays, decode, encode
from quietshelf.serving.shelf.errors import ShelfError
from quietshelf.serving.shelf.state import State
from quietshelf.serving.shelf.upgrades import upgraded

SCHEMA = 4


@dataclass(frozen=True)
class ResumeToken:
    """R8: the right to resume the open batches of one save: a file, identified by name, inode and change time."""

    path: Path
    inode: int
    changed: int

    @classmethod
    def leave(cls, path: Path) -> ResumeToken:
        """Create a token. Its name is never used again."""
        atomic_write(
            path, b"the right to resume the open batch of the file beside this one; it is worthless as a copy\n"
        )
        status = path.stat()
        return cls(path, status.st_ino, status.st_ctime_ns)

    def take(self) -> bool:
        """Remove the token for good; False if it is gone, or is only a copy of the original."""
        mine = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        try:
            changed = self.path.stat().st_ctime_ns
            os.rename(self.path, mine)  # atomic: of two takers, one finds nothing
        except FileNotFoundError:
            return False
        taken = mine.stat().st_ino
        mine.unlink()
        sync_folder(self.path.parent)  # after a power cut it must still be gone
        return (taken, changed) == (self.inode, self.changed)


class OwnerChanged(Exception):  # noqa: N818 - says what happened
    """While being saved, the shelf found that another owns its open batches, and dropped them."""


def write(path: Path, state: State, *, own: Callable[[], None]) -> ResumeToken:
    """Save a shelf; returns the token that the next change must take back.

    ``own`` takes back the token of the last save, which makes sure that nobody else has the open batches. It is called
    when the new file is on the disk but has no name yet: a save that fails before that leaves the last one intact. One
    that fails later is worthless, because its token is removed.
    """
    token = ResumeToken.leave(path.with_name(f"{path.name}.open-{secrets.token_hex(8)}"))
    try:
        _write(path, state, token, own)
    except BaseException:
        token.take()
        raise
    return token


def _write(path: Path, state: State, token: ResumeToken, own: Callable[[], None]) -> None:
    arrays: Arrays = {}
    header = encode(state, arrays) | {
        "schema": SCHEMA,
        "token": [token.path.name.removeprefix(path.name), token.inode, token.changed],
        "key_check": _check_of(state.persons.key),
    }
    content = io.BytesIO()
    np.savez_compressed(content, header=np.array(json.dumps(header, allow_nan=False)), **arrays)
    atomic_write(_key_path(path), state.persons.key)
    atomic_write(path, content.getvalue(), ready=own)


def read(path: Path) -> tuple[State, bool, int]:
    """Load a shelf; also whether its open batches may be resumed, and how many visitors an upgrade left out.

    The token is taken last, so a failure costs nothing.
    """
    header, arrays = _content(path)
    state = decode(header, arrays, _key(path, header))
    suffix, inode, changed = header["token"]
    token = ResumeToken(path.with_name(path.name + suffix), inode, changed)
    return state, token.take(), header.get("left_out", 0)


def _content(path: Path) -> tuple[dict[str, Any], Arrays]:
    content = io.BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as file:
            arrays = dict(file)
        header = json.loads(str(arrays.pop("header")))
        header["schema"]
    except (BadZipFile, ValueError, KeyError, TypeError, EOFError) as error:
        raise ShelfError(f"path must be a saved shelf, got path={str(path)!r}") from error
    return upgraded(header, arrays, wanted=SCHEMA)


def _key(path: Path, header: dict[str, Any]) -> bytes:
    try:
        key = _key_path(path).read_bytes()
    except FileNotFoundError:
        if header["persons"]:
            raise ShelfError(f"the person key must be next to the file, got no {_key_path(path).name}") from None
        return Persons().key
    if _check_of(key) != header["key_check"]:
        raise ShelfError(f"the person key must be the one this file was saved with, got another {_key_path(path).name}")
    return key


def _check_of(key: bytes) -> str:
    """A hash that identifies the key, and reveals nothing else about it."""
    return hashlib.blake2b(b"quietshelf person key", key=key, digest_size=16).hexdigest()


def _key_path(path: Path) -> Path:
    return path.with_name(path.name + ".key")
