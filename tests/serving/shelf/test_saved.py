"""A saved shelf goes on as if it had not been saved, and its open batch is resumed once."""

from __future__ import annotations

import copy
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.serving.shelf.shops import D, N, first_batch, open_shop, open_slots, shop, visit

from quietshelf import Shelf
from quietshelf.serving.shelf import AnswerConflict, OfferExpired, OpenBatchDropped
from quietshelf.serving.shelf.saved import ResumeToken


def resumed(path: Path, like: Shelf) -> Shelf:
    """Load with the noise that the saved shelf would have gone on with; its coins are in the file's key."""
    return Shelf._loaded(path, copy.deepcopy(like._source))


@settings(max_examples=25)
@given(
    st.integers(0, 60), st.integers(1, 60), st.integers(0, 7), st.sampled_from([{}, {"visits": 2}]), st.integers(0, 9)
)
def test_save_load_and_go_on_equals_go_on(
    tmp_path_factory: pytest.TempPathFactory,
    before: int,
    after: int,
    wait_arrivals: int,
    options: dict[str, Any],
    seed: int,
) -> None:
    """Wherever it is saved, the loaded shelf offers, learns and spends exactly as the one that was not."""
    path = tmp_path_factory.mktemp("shelf") / "shop.shelf"
    one, rng = shop(seed=seed, keyed=True, wait_arrivals=wait_arrivals, **options), np.random.default_rng(seed)

    def who(t: int) -> dict[str, Any]:
        return {"person": f"p{t % 20}"} if options else {}

    for t in range(before):
        visit(one, rng, **who(t))
    one.save(path)
    other = resumed(path, one)
    one._token = None  # what happens if the first goes on as well is another test
    again = copy.deepcopy(rng)
    for t in range(before, before + after):
        a, b = visit(one, rng, **who(t)), visit(other, again, **who(t))
        assert (a.items, a.release) == (b.items, b.release)
    np.testing.assert_array_equal(one.estimate().theta, other.estimate().theta)
    np.testing.assert_array_equal(one.estimate().precision, other.estimate().precision)
    assert one.privacy() == other.privacy()


def test_pending_answers_survive_a_save(tmp_path: Path) -> None:
    """An offer made before the save is answered after the load, once; the answer counts."""
    shelf = shop(real=True)
    offer = shelf.offer(np.ones((N, D)))
    shelf.save(tmp_path / "shop")
    loaded = Shelf.load(tmp_path / "shop")
    loaded.choose(offer.id, offer.items[0])
    with pytest.raises(AnswerConflict):
        loaded.choose(offer.id, None)
    assert np.any(open_slots(loaded).finished("zero").score)


def test_a_second_load_drops_the_open_batch_and_says_so(tmp_path: Path) -> None:
    """Two shelves must not release the same visitors."""
    path = tmp_path / "shop"
    open_shop(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = Shelf.load(path)
    with pytest.warns(OpenBatchDropped, match="5 visitors who were not released yet are left out"):
        second = Shelf.load(path)
    assert len(first.batches) == 1
    assert not second.batches


@pytest.mark.parametrize("with_token", [False, True])
def test_a_copy_drops_the_open_batch(tmp_path: Path, with_token: bool) -> None:
    """A copied or restored file, with or without its token, resumes nothing; the original still does."""
    path, backup = tmp_path / "shop", tmp_path / "backup"
    open_shop(path)
    shutil.copy2(path, backup)
    shutil.copy2(str(path) + ".key", str(backup) + ".key")
    if with_token:
        (token,) = tmp_path.glob("shop.open-*")
        shutil.copy2(token, tmp_path / token.name.replace("shop", "backup", 1))
    with pytest.warns(OpenBatchDropped):
        Shelf.load(backup)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Shelf.load(path)


def test_a_backup_restored_over_the_original_drops_the_open_batch(tmp_path: Path) -> None:
    """The whole folder is copied, the shelf goes on, and the copy is put back in its place."""
    folder, backup = tmp_path / "live", tmp_path / "backup"
    folder.mkdir()
    shelf = open_shop(folder / "shop")
    shutil.copytree(folder, backup)
    shelf.offer(np.ones((N, D)))
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    with pytest.warns(OpenBatchDropped):
        Shelf.load(folder / "shop")


def test_an_old_save_drops_the_open_batch(tmp_path: Path) -> None:
    """Once the shelf has gone on, what it saved before may not be resumed; nothing is dropped in the shelf itself."""
    path = tmp_path / "shop"
    shelf = open_shop(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shelf.offer(np.ones((N, D)))
    with pytest.warns(OpenBatchDropped):
        Shelf.load(path)


def test_a_shelf_whose_save_was_resumed_elsewhere_gives_its_open_batch_up(tmp_path: Path) -> None:
    """Whoever resumes first owns the visitors: the shelf that saved and goes on later starts a new batch."""
    path = tmp_path / "shop"
    shelf = open_shop(path)
    pending = next(iter(open_slots(shelf).kept))
    Shelf.load(path)
    with pytest.warns(OpenBatchDropped, match="they were resumed from the last save"):
        shelf.offer(np.ones((N, D)))
    with pytest.raises(OfferExpired):
        shelf.choose(pending, None)


def test_dropped_batches_do_not_make_the_next_one_larger(tmp_path: Path) -> None:
    """However often an old file is loaded, the batch that follows has the size of the one that was dropped."""
    path = tmp_path / "shop"
    shelf = open_shop(path)
    size = first_batch(shelf)
    Shelf.load(path)
    with pytest.warns(OpenBatchDropped):
        late = Shelf.load(path)
    late.offer(np.ones((N, D)))
    (batch,) = late.batches
    assert batch.frozen.size == size
    assert batch.frozen.number == 1


def test_a_stale_load_owns_up_to_what_it_cannot_know(tmp_path: Path) -> None:
    """Save, go on and release, crash, load the old save: the promise is to visits, at what may have been spent."""
    path = tmp_path / "shop"
    shelf = shop(real=True)
    shelf.offer(np.ones((N, D)), person="anna")
    shelf.save(path)
    for t in range(first_batch(shelf)):
        shelf.offer(np.ones((N, D)), person=f"p{t}")
    assert shelf.estimate().releases == 1
    with pytest.warns(OpenBatchDropped):
        stale = Shelf.load(path)
    promise = stale.privacy()
    assert promise.unit == "visit"
    assert promise.rho == pytest.approx(4.0)
    assert "not listed here" in promise.words
    stale.save(path)
    assert Shelf.load(path).privacy().unit == "visit"


def test_an_io_error_keeps_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the token cannot be taken back for now, the offer fails and the next one tries again: nobody else resumes."""
    path = tmp_path / "shop"
    shelf = open_shop(path)

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("quietshelf.serving.shelf.saved.os.rename", broken)
        with pytest.raises(OSError, match="Input/output error"):
            shelf.offer(np.ones((N, D)))
    assert shelf.arrivals == 5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shelf.offer(np.ones((N, D)))
    with pytest.warns(OpenBatchDropped):
        Shelf.load(path)


def test_a_forked_child_gives_the_open_batch_up() -> None:
    """Only one process goes on with the visitors of an open batch: the one that took them in."""
    shelf, rng = shop(real=True), np.random.default_rng(0)
    for _ in range(first_batch(shelf)):
        visit(shelf, rng)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of fork beside threads
        child = os.fork()
    if child == 0:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            offer = shelf.offer(np.ones((N, D)))
            dropped = [str(w.message) for w in seen if w.category is OpenBatchDropped]
        os.write(writing, f"{offer.release} {len(dropped)} {shelf.privacy().unit}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 100).decode() == "0 1 visit"
    assert shelf.offer(np.ones((N, D))).release == 1


def test_another_owner_keeps_its_token(tmp_path: Path) -> None:
    """A stale shelf that goes on does not cost the new owner its open batch."""
    path = tmp_path / "shop"
    first = open_shop(path)
    second = Shelf.load(path)
    second.offer(np.ones((N, D)))
    second.save(path)
    with pytest.warns(OpenBatchDropped):
        first.offer(np.ones((N, D)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        third = Shelf.load(path)
    assert sum(batch.taken for batch in third.batches) == 6


def test_batches_rounded_for_other_noise_are_dropped(tmp_path: Path) -> None:
    """Sums that are not on the grid must not be released with grid noise."""
    path = tmp_path / "shop"
    plain = shop()
    plain.offer(np.ones((N, D)))
    plain.save(path)
    with pytest.warns(OpenBatchDropped, match="another grid"):
        Shelf.load(path)


@pytest.mark.parametrize("altered", ["inode", "changed"])
def test_a_token_is_known_by_inode_and_change_time(tmp_path: Path, altered: str) -> None:
    """Either one that differs makes it a copy; it is gone all the same."""
    token = ResumeToken.leave(tmp_path / "token")
    assert not replace(token, **{altered: getattr(token, altered) + 1}).take()
    assert not token.take()
    assert ResumeToken.leave(tmp_path / "token").take()


def test_a_token_is_gone_from_the_disk_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power cut it must not be there again: the folder is synced when the token has left it."""
    token, synced = ResumeToken.leave(tmp_path / "token"), []
    monkeypatch.setattr("quietshelf.serving.shelf.saved.sync_folder", lambda folder: synced.append(os.listdir(folder)))
    assert token.take()
    assert synced == [[]]


def test_a_visitor_without_a_name_is_remembered_over_a_save(tmp_path: Path) -> None:
    """The promise stays to visits, though everybody after the load is named."""
    shelf = shop(real=True)
    shelf.offer(np.ones((N, D)))
    shelf.save(tmp_path / "shop")
    loaded = Shelf.load(tmp_path / "shop")
    loaded.offer(np.ones((N, D)), person="anna")
    assert loaded.privacy().unit == "visit"
