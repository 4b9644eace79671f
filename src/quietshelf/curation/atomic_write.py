"""Atomic, fsynced, mode 0600 writes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def atomic_write(path: Path, content: bytes, *, fresh: bool = False, ready: Callable[[], None] = lambda: None) -> None:
    """Write a temporary file, sync it to disk, and rename it.

    Args:
        path: The file to write.
        content: Its content.
        fresh: Keep an existing file instead of replacing it.
        ready: Called once the data are on disk, before the rename; if it raises, nothing has changed.
    """
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        ready()
        if fresh:
            try:
                os.link(temporary, path)
            except FileExistsError:
                return
        else:
            os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder: a new file name, or a removal, is on disk only once its folder is."""
    held = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(held)
    finally:
        os.close(held)
