"""Files that are written whole, to the disk, and for their owner alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from quietshelf.curation.atomic_write import atomic_write


def test_the_folder_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut a file has its new content under its name."""
    synced: list[bool] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    atomic_write(tmp_path / "file", b"content")
    assert synced == [False, True]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs the new content, not the old; no temporary file stays behind."""
    path = tmp_path / "file"
    atomic_write(path, b"old")

    def broken(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_fresh_file_never_replaces_another(tmp_path: Path) -> None:
    """Of two who make the same file the first wins; both are readable by their owner alone."""
    path = tmp_path / "key"
    atomic_write(path, b"first", fresh=True)
    atomic_write(path, b"second", fresh=True)
    assert path.read_bytes() == b"first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key"]
    atomic_write(path, b"third")
    assert path.read_bytes() == b"third"
