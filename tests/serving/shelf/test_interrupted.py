"""A shelf that is interrupted, copied or saved in vain: nobody is counted twice, and no batch is drawn twice."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serving.shelf.shops import D, N, open_shop, open_slots, shop

from quietshelf import Shelf
from quietshelf.curation import atomic_write
from quietshelf.serving.shelf import OpenBatchDropped
from quietshelf.serving.shelf.state import AT_ONCE, Slots


def test_a_save_that_fails_leaves_the_last_one_as_it_was(tmp_path: Path) -> None:
    """A folder that is not there, or a disk that is full: the earlier file can still be resumed."""
    shelf = open_shop(tmp_path / "shop")
    with pytest.raises(FileNotFoundError):
        shelf.save(tmp_path / "nowhere" / "shop")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = Shelf.load(tmp_path / "shop")
    assert loaded.batches[0].taken == shelf.batches[0].taken
    with pytest.warns(OpenBatchDropped, match="they were resumed from the last save"):
        shelf.offer(np.ones((N, D)))


def test_a_save_that_fails_after_its_file_has_a_name_is_worthless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shelf goes on with its batch, so nobody may resume it from that file."""
    shelf = shop(real=True)
    shelf.offer(np.ones((N, D)))

    def failing(_: Path) -> None:
        if (tmp_path / "shop").exists():
            raise OSError(5, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(atomic_write, "sync_folder", failing)
        with pytest.raises(OSError, match="input/output error"):
            shelf.save(tmp_path / "shop")
    with pytest.warns(OpenBatchDropped):
        assert not Shelf.load(tmp_path / "shop").batches
    assert shelf.batches[0].taken == 1


def test_a_shelf_that_lost_its_batches_meanwhile_saves_what_it_has(tmp_path: Path) -> None:
    """Somebody resumed the last save: the next one holds none of the batches that are theirs."""
    shelf = open_shop(tmp_path / "shop")
    theirs = Shelf.load(tmp_path / "shop")
    with pytest.warns(OpenBatchDropped):
        shelf.save(tmp_path / "again")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not Shelf.load(tmp_path / "again").batches
    assert theirs.batches


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda shelf: pickle.loads(pickle.dumps(shelf))])  # noqa: S301
def test_a_shelf_cannot_be_copied(copied: Any) -> None:
    """Two copies would release the same visitors twice."""
    with pytest.raises(TypeError, match="a shelf cannot be copied"):
        copied(shop(real=True))


def test_an_interrupt_while_contributions_are_summed_doubles_nobody() -> None:
    """Wherever it falls, a contribution is lost at most."""
    shelf = shop(rho=0.1)
    for _ in range(AT_ONCE - 1):
        offer = shelf.offer(np.ones((N, D)))
        shelf.choose(offer.id, offer.items[0])
    slots = open_slots(shelf)
    whole = slots.with_added(slots.answered)

    class Interrupted(dict[str, Any]):
        def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
            raise KeyboardInterrupt

    slots.kept = Interrupted(slots.kept)
    with pytest.raises(KeyboardInterrupt):
        slots.add_up()
    slots.kept = dict(slots.kept)
    slots.add_up()
    assert np.abs(slots.sum).sum() <= np.abs(whole).sum()
    assert isinstance(slots, Slots)


def test_numbers_that_overflow_are_no_warning_and_no_error() -> None:
    """Whatever the host does with floating-point errors, a valid request is served, and takes its slot."""
    catalogue = np.array([[2.0], [-3.0], [5.0]])
    for value in (1e308, -1e308, 5e-324, -0.0):
        shelf = Shelf(catalogue=catalogue, feature_map="full", visitor_dim=1, capacity=2, rho=1e4)
        with np.errstate(all="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                offer = shelf.offer([value])
                shelf.choose(offer.id, offer.items[0])
        assert shelf.arrivals == 3


def test_more_items_than_rounding_is_proven_for_are_refused() -> None:
    """The margin in a contribution covers the rounding of 7 K + d terms up to a limit."""
    with pytest.raises(ValueError, match="7 capacity \\+ dim must be at most 8900"):
        Shelf(items=2000, dim=3, capacity=1300, rho=1.0)


@pytest.mark.parametrize("answers", [False, True])
def test_whether_somebody_answered_after_a_save_decides_nothing_for_others(tmp_path: Path, answers: bool) -> None:
    """The save can be resumed either way, and the shelf that goes on drops its batches at the next arrival."""
    shelf = shop(real=True)
    offer = shelf.offer(np.ones((N, D)))
    shelf.save(tmp_path / "shop")
    if answers:
        shelf.choose(offer.id, offer.items[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Shelf.load(tmp_path / "shop").batches[0].taken == 1
    with pytest.warns(OpenBatchDropped, match="1 visitors"):
        shelf.offer(np.ones((N, D)))
    assert shelf.privacy().unit == "visit"
