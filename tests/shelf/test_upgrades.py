"""Files of earlier versions are read as what they were: the same estimates, the same budget, nobody released twice."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.shelf.shops import open_slots

from quietshelf import Shelf
from quietshelf.shelf import AnswerConflict, OfferExpired, OpenBatchDropped, ShelfError
from quietshelf.shelf.saved import ResumeToken
from quietshelf.shelf.testing import state_of

VERSION_1 = Path(__file__).parents[1] / "migrations" / "version_1"
EXPECTED: dict[str, Any] = json.loads((VERSION_1 / "expected.json").read_text(encoding="utf-8"))
LAST_OFFER = EXPECTED["catalogue.shelf"]["last_offer"]
"""Made by the dense shelf, the last before it was saved; the answer was that nothing was chosen."""
VISITS: dict[str, Callable[[Shelf, int], Any]] = {
    "catalogue.shelf": lambda shelf, t: shelf.offer([0.1, 0.2, 0.3], person=f"new {t}"),
    "dense.shelf": lambda shelf, _: shelf.offer(np.eye(6, 2)),
}
"""A visitor of each shelf."""


def copy_of(name: str, folder: Path) -> Path:
    """A copy of a file and its key: where it is now, its token is not beside it."""
    for each in (name, f"{name}.key"):
        shutil.copy(VERSION_1 / each, folder / each)
    return folder / name


def with_token(path: Path, settings: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Put a token beside a file and name it there, as the version that wrote the file did; the file's arrays.

    Some of the shelf's settings, and of what else it remembers, may be made others than those in the file.
    """
    token = ResumeToken.leave(path.with_name(f"{path.name}.open-0"))
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    assert header["schema"] == 1
    header["claim"] = [".open-0", token.inode, token.changed]
    header |= others | {"settings": header["settings"] | settings}
    with path.open("wb") as file:
        np.savez_compressed(file, **{**arrays, "header": np.array(json.dumps(header))})
    return arrays


def resumed(
    name: str, folder: Path, settings: dict[str, Any] | None = None, **others: Any
) -> tuple[Shelf, dict[str, Any]]:
    """The shelf of a file that still has its token, and the arrays of that file."""
    path = copy_of(name, folder)
    arrays = with_token(path, settings or {}, others)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return Shelf.load(path), arrays


@pytest.mark.parametrize(("name", "visitors", "size"), [("catalogue.shelf", 30, 30), ("dense.shelf", 6, 20)])
def test_an_earlier_file_keeps_its_figures_to_the_last_bit(name: str, visitors: int, size: int, tmp_path: Path) -> None:
    """Estimate, arrivals and what was spent are equal; visitors not yet released are left out, and that is said."""
    expected = EXPECTED[name]
    with pytest.warns(OpenBatchDropped, match=f"^{visitors} visitors who were not released yet are left out"):
        shelf = Shelf.load(copy_of(name, tmp_path))
    assert shelf.estimate().theta.tolist() == expected["theta"]
    assert shelf.estimate().precision.tolist() == expected["precision"]
    assert shelf.estimate().releases == expected["releases"]
    assert shelf.arrivals == expected["arrivals"]
    assert shelf.learner is not None
    assert shelf.learner.ledger.rho == expected["rho"]
    assert list(shelf.batches) == []
    number = state_of(shelf).schedule.opened
    VISITS[name](shelf, 0)
    (batch,) = shelf.batches
    assert (batch.frozen.number, batch.frozen.size, batch.taken) == (number + 1, size, 1)


@pytest.mark.parametrize("name", VISITS)
def test_a_copy_of_an_earlier_file_owns_up_to_what_it_cannot_know(name: str, tmp_path: Path) -> None:
    """As any copy does: to visits, at what one release may have cost."""
    with pytest.warns(OpenBatchDropped):
        shelf = Shelf.load(copy_of(name, tmp_path))
    promise = shelf.privacy()
    settings = state_of(shelf).settings
    assert promise.unit == "visit"
    assert promise.rho == pytest.approx(settings.rho / settings.visits)
    assert "not listed here" in promise.words


def test_a_file_saved_before_its_first_visitor_is_refused_with_advice(tmp_path: Path) -> None:
    """Nobody has said how long visitor features are; making that shelf again costs nothing, and the line says how."""
    path = copy_of("unused.shelf", tmp_path)
    with pytest.raises(ShelfError, match=re.escape("make the shelf again, with visitor_dim=...")):
        Shelf.load(path)


@pytest.mark.parametrize(
    ("settings", "visitor"), [({"visitor_dim": 2}, [0.1, 0.2]), ({"feature_map": "item"}, []), ({"visitor_dim": 0}, [])]
)
def test_a_file_without_visitors_is_read_where_their_length_is_known(
    settings: dict[str, Any], visitor: list[float], tmp_path: Path
) -> None:
    """By a declared length, or a map that uses none: the shelf serves as if it had been made today."""
    shelf, _ = resumed("unused.shelf", tmp_path, settings)
    assert (shelf.arrivals, shelf.learner, shelf.privacy().rho) == (0, None, 0.0)
    assert len(shelf.offer(visitor).items) == 3
    with pytest.raises(ValueError, match=f"features must have length {len(visitor)}, got length=3"):
        shelf.offer([1.0, 2.0, 3.0])


def test_a_dense_file_with_its_token_is_resumed(tmp_path: Path) -> None:
    """The open batch goes on with its six visitors, their sum and their answers, and is released when it is full."""
    shelf, arrays = resumed("dense.shelf", tmp_path)
    (batch,) = shelf.batches
    assert (batch.frozen.number, batch.frozen.size, batch.taken, batch.full_at) == (1, 20, 6, None)
    np.testing.assert_array_equal(batch.frozen.theta, arrays["batch0.theta"])
    np.testing.assert_array_equal(batch.frozen.coordinates, arrays["batch0.coordinates"])
    old = np.concatenate([arrays["batch0.score"], arrays["batch0.information"]])
    np.testing.assert_array_equal(open_slots(shelf).sum, old)
    assert old.any()
    assert shelf.privacy().rho == EXPECTED["dense.shelf"]["rho"]
    shelf.choose(LAST_OFFER, None)
    with pytest.raises(AnswerConflict):
        shelf.choose(LAST_OFFER, 1)
    np.testing.assert_array_equal(open_slots(shelf).sum, old)
    releases = [VISITS["dense.shelf"](shelf, t).release for t in range(15)]
    assert releases == [1] * 14 + [2]
    with pytest.raises(OfferExpired):
        shelf.choose(LAST_OFFER, None)


def test_answers_of_an_earlier_file_are_the_places_of_what_was_chosen(tmp_path: Path) -> None:
    """They were kept as items: 4 of (4, 5) is place 0, and no choice is none."""
    shelf, _ = resumed("dense.shelf", tmp_path)
    slots = open_slots(shelf)
    assert [slots.kept[offer].answer for offer in slots.kept] == [0, -1, 0, -1, 0, -1]
    assert next(iter(slots.shown.values())) == (4, 5)


def test_a_catalogue_file_with_its_token_is_resumed(tmp_path: Path) -> None:
    """A full batch waits as long as it was to wait, late answers count, and persons are remembered."""
    shelf, arrays = resumed("catalogue.shelf", tmp_path)
    expected = EXPECTED["catalogue.shelf"]
    promise = shelf.privacy()
    assert (promise.unit, promise.rho) == (expected["unit"], expected["rho"])
    assert len(state_of(shelf).persons.counted) == 25
    (batch,) = shelf.batches
    assert (batch.full, batch.full_at, batch.due_at) == (True, 29, 32)
    (waiting,) = state_of(shelf).waiting
    first = next(iter(waiting.kept))
    np.testing.assert_array_equal(waiting.kept[first].rows, arrays["batch0.rows"][:3])
    before = waiting.sum
    shelf.choose(first, waiting.shown[first][0])
    waiting.add_up()
    assert not np.array_equal(waiting.sum, before)
    releases = [VISITS["catalogue.shelf"](shelf, t).release for t in range(3)]
    assert releases == [0, 0, 1]
    assert [(each.frozen.number, each.frozen.size) for each in shelf.batches] == [(1, 45)]


def test_what_an_earlier_file_dropped_before_is_remembered(tmp_path: Path) -> None:
    """The size of the batch to come, and that its history may be incomplete."""
    shelf, _ = resumed("catalogue.shelf", tmp_path, next_size=17, estranged=True)
    VISITS["catalogue.shelf"](shelf, 0)
    assert shelf.batches[-1].frozen.size == 17
    assert shelf.privacy().unit == "visit"


@pytest.mark.parametrize("name", VISITS)
def test_an_upgraded_shelf_is_saved_in_the_present_form(name: str, tmp_path: Path) -> None:
    """Saved again and loaded it goes on from the same figures, batches included."""
    shelf, _ = resumed(name, tmp_path)
    shelf.save(tmp_path / "again")
    with np.load(tmp_path / "again", allow_pickle=False) as file:
        assert json.loads(str(file["header"]))["schema"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = Shelf.load(tmp_path / "again")
    assert again.privacy() == shelf.privacy()
    assert again.estimate().theta.tolist() == EXPECTED[name]["theta"]
    assert again.estimate().precision.tolist() == EXPECTED[name]["precision"]
    mine, other = (next(state_of(each).slots) for each in (shelf, again))
    assert mine.batch.taken == other.batch.taken > 0
    np.testing.assert_array_equal(mine.sum, other.sum)
