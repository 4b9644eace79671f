"""A shelf on disk: JSON and arrays in one file, never pickle; the person key in a file of its own.

A batch that is open may be resumed once: two shelves that resumed the same visitors would release them twice
(docs/proofs.md, section 6). So a save leaves a claim beside the file, and the file names that very claim by what no
copy can keep (inode and change time). Whoever takes the claim away first owns the open batches: a shelf that loads the
file, or the shelf that saved it when it goes on. All others drop them. On doubt the batches are dropped.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from quietshelf.shelf.codec import Arrays, decode, encode
from quietshelf.shelf.errors import ShelfError
from quietshelf.shelf.persons import Persons
from quietshelf.shelf.state import State

SCHEMA = 1


@dataclass(frozen=True)
class Claim:
    """The right to resume the open batches of one save."""

    path: Path
    inode: int
    changed: int

    @classmethod
    def leave(cls, path: Path) -> Claim:
        """A new claim, in place of any older one."""
        _write(path, b"the right to resume the open batch of the file beside this one; it is worthless as a copy\n")
        status = path.stat()
        return cls(path, status.st_ino, status.st_ctime_ns)

    def take(self) -> bool:
        """Take the claim away; False if it is gone, or is not the one that was left."""
        mine = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        try:
            changed = self.path.stat().st_ctime_ns
            os.rename(self.path, mine)  # atomic: of two takers one finds nothing
        except FileNotFoundError:
            return False
        taken = mine.stat().st_ino
        mine.unlink()
        return (taken, changed) == (self.inode, self.changed)


def write(path: Path, state: State) -> Claim:
    """Save a shelf; returns the claim that the next change must take back."""
    _write(_key_path(path), state.persons.key, mode=0o600)
    claim = Claim.leave(_claim_path(path))
    arrays: Arrays = {}
    header = encode(state, arrays) | {"schema": SCHEMA, "claim": [claim.inode, claim.changed]}
    content = io.BytesIO()
    np.savez_compressed(content, header=np.array(json.dumps(header, allow_nan=False)), **arrays)
    _write(path, content.getvalue())
    return claim


def read(path: Path) -> tuple[State, bool]:
    """A saved shelf, and whether its open batches may be resumed."""
    content = io.BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as file:
            arrays = dict(file)
        header = json.loads(str(arrays.pop("header")))
        schema = header["schema"]
    except (BadZipFile, ValueError, KeyError, TypeError, EOFError) as error:
        raise ShelfError(f"path must be a saved shelf, got path={str(path)!r} ({error})") from error
    if schema != SCHEMA:
        raise ShelfError(f"schema must be {SCHEMA}, got schema={schema!r}")
    inode, changed = header["claim"]
    resumed = Claim(_claim_path(path), inode, changed).take()
    return decode(header, arrays, _key(path, header)), resumed


def _key(path: Path, header: dict[str, Any]) -> bytes:
    try:
        return _key_path(path).read_bytes()
    except FileNotFoundError:
        if header["persons"]:
            raise ShelfError(f"the person key must be beside the file, got no {_key_path(path).name}") from None
        return Persons().key


def _claim_path(path: Path) -> Path:
    return path.with_name(path.name + ".open")


def _key_path(path: Path) -> Path:
    return path.with_name(path.name + ".key")


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Whole or not at all: to a temporary file, to the disk, then renamed."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
