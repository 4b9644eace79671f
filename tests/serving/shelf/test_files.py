"""What a saved shelf is on the disk: whole, private, and known again."""

from __future__ import annotations

import stat
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.serving.shelf.shops import D, N, open_shop, rows_of, shop

from quietshelf import Shelf
from quietshelf.serving.shelf import ShelfError
from quietshelf.serving.shelf.testing import state_of


def test_files_are_whole_private_and_free_of_pickle(tmp_path: Path) -> None:
    """No temporary file is left, all are readable by their owner alone, persons appear nowhere in clear."""
    path = tmp_path / "shop"
    shelf = shop()
    shelf.offer(np.ones((N, D)), person="anna@example.org")
    shelf.save(path)
    names = sorted(p.name.partition("-")[0] for p in tmp_path.iterdir())
    assert names == ["shop", "shop.key", "shop.open"]
    assert {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == {0o600}
    content = path.read_bytes()
    assert b"anna" not in content
    with np.load(path, allow_pickle=False) as file:
        assert "anna" not in str(file["header"])
        assert state_of(shelf).persons.key.hex() not in str(file["header"])


def test_persons_are_recognised_after_loading_and_need_their_key(tmp_path: Path) -> None:
    """The cap outlives the process; without the key the counts could not be kept, so loading is refused."""
    path = tmp_path / "shop"
    shelf = shop(real=True)
    shelf.offer(np.ones((N, D)), person="anna")
    shelf.save(path)
    loaded = Shelf.load(path)
    offer = loaded.offer(np.ones((N, D)), person="anna")
    assert rows_of(loaded, offer.id) is None
    loaded.save(path)
    key = Path(str(path) + ".key")
    right = key.read_bytes()
    key.unlink()
    with pytest.raises(ShelfError, match="the person key must be next to the file"):
        Shelf.load(path)
    key.write_bytes(b"0" * 32)
    with pytest.raises(ShelfError, match="the person key must be the one this file was saved with"):
        Shelf.load(path)
    key.write_bytes(right)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the failed attempts have not used up the token
        assert Shelf.load(path).privacy().unit == "person"


def test_what_is_no_saved_shelf_is_refused(tmp_path: Path) -> None:
    """Rubbish, a cut file, an unknown schema and a missing file, each by name."""
    path = tmp_path / "shop"
    path.write_bytes(b"rubbish")
    with pytest.raises(ShelfError, match="path must be a saved shelf"):
        Shelf.load(path)
    open_shop(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ShelfError, match="path must be a saved shelf"):
        Shelf.load(path)
    np.savez(tmp_path / "odd.npz", header=np.array('{"schema": 99}'))
    with pytest.raises(ShelfError, match="schema must be 4 or an earlier one, got schema=99"):
        Shelf.load(tmp_path / "odd.npz")
    with pytest.raises(FileNotFoundError):
        Shelf.load(tmp_path / "missing")
