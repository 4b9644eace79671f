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

from quietshelf import Shelf
from quietshelf.serving.shelf import OfferExpired, OpenBatchDropped, ShelfError
from quietshelf.serving.shelf.saved import ResumeToken
from quietshelf.serving.shelf.testing import state_of

FOLDER = Path(__file__).parents[2] / "migrations"
"""One folder for each schema that was in use, with files that the version of then wrote."""
VERSIONS = (1, 2, 3)
VISITS: dict[str, Callable[[Shelf, int], Any]] = {
    "catalogue.shelf": lambda shelf, t: shelf.offer([0.1, 0.2, 0.3], person=f"new {t}"),
    "dense.shelf": lambda shelf, _: shelf.offer(np.eye(6, 2)),
}
"""A visitor of each shelf."""


def expected_of(version: int, name: str) -> dict[str, Any]:
    """What the version that wrote a file said of the shelf."""
    found: dict[str, Any] = json.loads((FOLDER / f"version_{version}" / "expected.json").read_text(encoding="utf-8"))
    return found[name]  # type: ignore[no-any-return]


def copy_of(version: int, name: str, folder: Path) -> Path:
    """A copy of a file and its key: where it is now, its token is not beside it."""
    for each in (name, f"{name}.key"):
        shutil.copy(FOLDER / f"version_{version}" / each, folder / each)
    return folder / name


def with_token(path: Path, settings: dict[str, Any], others: dict[str, Any]) -> None:
    """Put a token beside a file and name it there, as the version that wrote the file did.

    Some of the shelf's settings, and of what else it remembers, may be made others than those in the file.
    """
    token = ResumeToken.leave(path.with_name(f"{path.name}.open-0"))
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    header["claim" if header["schema"] == 1 else "token"] = [".open-0", token.inode, token.changed]
    header |= others | {"settings": header["settings"] | settings}
    with path.open("wb") as file:
        np.savez_compressed(file, **{**arrays, "header": np.array(json.dumps(header))})


def resumed(version: int, name: str, folder: Path, settings: dict[str, Any] | None = None, **others: Any) -> Shelf:
    """The shelf of a file that still has its token."""
    path = copy_of(version, name, folder)
    with_token(path, settings or {}, others)
    return Shelf.load(path)


FILES = [
    (1, "catalogue.shelf", 30, 30),
    (1, "dense.shelf", 6, 20),
    (2, "catalogue.shelf", 45, 42),
    (2, "dense.shelf", 9, 32),
    (3, "catalogue.shelf", 4, 21),
    (3, "dense.shelf", 3, 14),
]
"""Version, name, visitors who were not released, and the size of their first batch."""


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize(("version", "name", "visitors", "size"), FILES)
def test_an_earlier_file_keeps_its_figures_and_drops_what_is_open(
    version: int, name: str, visitors: int, size: int, copied: bool, tmp_path: Path
) -> None:
    """Estimate, arrivals and what was spent are equal to the last bit; visitors not yet released are left out.

    They were bounded, or rounded, for other noise than a release draws now. The schedule keeps the size of their batch,
    and its number is not used again.
    """
    expected = expected_of(version, name)
    with pytest.warns(OpenBatchDropped, match=f"^{visitors} visitors who were not released yet are left out"):
        shelf = Shelf.load(copy_of(version, name, tmp_path)) if copied else resumed(version, name, tmp_path)
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


@pytest.mark.parametrize(("version", "name", "visitors", "size"), FILES)
def test_what_an_earlier_version_collected_is_in_no_release(
    version: int, name: str, visitors: int, size: int, tmp_path: Path
) -> None:
    """The next release is made of visitors who came since, at the cost of one release and in one event."""
    with pytest.warns(OpenBatchDropped, match=f"^{visitors} visitors"):
        shelf = resumed(version, name, tmp_path)
    before, last = shelf.estimate().releases, expected_of(version, name).get("last_offer")
    spent = len(shelf.learner.ledger.events) if shelf.learner is not None else 0
    for t in range(size + 6):
        VISITS[name](shelf, t)
    assert shelf.learner is not None
    assert shelf.estimate().releases == before + 1
    (event,) = shelf.learner.ledger.events[spent:]
    settings = state_of(shelf).settings
    assert (event.name, event.batch) == ("pair", shelf.batches[-1].frozen.number - 1)
    assert event.rho == pytest.approx(settings.rho / settings.visits)
    assert shelf.privacy().rho <= settings.rho
    if version > 1 and last is not None:
        with pytest.raises(OfferExpired):
            shelf.choose(last, None)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", VISITS)
def test_a_copy_of_an_earlier_file_owns_up_to_what_it_cannot_know(name: str, version: int, tmp_path: Path) -> None:
    """As any copy does: to visits, at what one release may have cost. With its token the promise is what it was."""
    with pytest.warns(OpenBatchDropped, match="this file is a copy"):
        shelf = Shelf.load(copy_of(version, name, tmp_path))
    promise = shelf.privacy()
    settings = state_of(shelf).settings
    assert promise.unit == "visit"
    assert promise.rho == pytest.approx(settings.rho / settings.visits)
    assert "not listed here" in promise.words
    with pytest.warns(OpenBatchDropped, match="bounds or rounds what a visitor contributes in another way"):
        mine = resumed(version, name, tmp_path).privacy()
    expected = expected_of(version, name)
    assert (mine.unit, mine.rho) == (expected.get("unit", "visit"), expected["rho"])


def test_a_file_saved_before_its_first_visitor_is_refused_with_advice(tmp_path: Path) -> None:
    """Nobody has said how long visitor features are; making that shelf again costs nothing, and the line says how."""
    path = copy_of(1, "unused.shelf", tmp_path)
    with pytest.raises(ShelfError, match=re.escape("create the shelf again, with visitor_dim=...")):
        Shelf.load(path)


@pytest.mark.parametrize(
    ("settings", "visitor"), [({"visitor_dim": 2}, [0.1, 0.2]), ({"feature_map": "item"}, []), ({"visitor_dim": 0}, [])]
)
def test_a_file_without_visitors_is_read_where_their_length_is_known(
    settings: dict[str, Any], visitor: list[float], tmp_path: Path
) -> None:
    """By a declared length, or a map that uses none: the shelf serves as if it had been made today."""
    shelf = resumed(1, "unused.shelf", tmp_path, settings)
    assert (shelf.arrivals, shelf.learner, shelf.privacy().rho) == (0, None, 0.0)
    assert len(shelf.offer(visitor).items) == 3
    with pytest.raises(ValueError, match=f"features must have length {len(visitor)}, got length=3"):
        shelf.offer([1.0, 2.0, 3.0])


def test_an_unused_file_of_the_second_version_goes_on(tmp_path: Path) -> None:
    """There was nothing to drop, and nothing is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shelf = resumed(2, "unused.shelf", tmp_path)
    assert len(shelf.offer([0.1, 0.2, 0.3]).items) == 3


def test_persons_of_an_earlier_file_are_remembered(tmp_path: Path) -> None:
    """Those who were dropped stay counted: a person's budget is never given back."""
    with pytest.warns(OpenBatchDropped):
        shelf = resumed(1, "catalogue.shelf", tmp_path)
    assert len(state_of(shelf).persons.counted) == 25


def test_what_an_earlier_file_dropped_before_is_remembered(tmp_path: Path) -> None:
    """The size of the batch to come, if none is dropped now, and that its history may be incomplete."""
    shelf = resumed(1, "catalogue.shelf", tmp_path, next_size=17, estranged=True, batches=[], open=False)
    VISITS["catalogue.shelf"](shelf, 0)
    assert shelf.batches[-1].frozen.size == 17
    assert shelf.privacy().unit == "visit"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", VISITS)
def test_an_upgraded_shelf_is_saved_in_the_present_form(name: str, version: int, tmp_path: Path) -> None:
    """Saved again and loaded it goes on from the same figures, batches included."""
    with pytest.warns(OpenBatchDropped):
        shelf = resumed(version, name, tmp_path)
    offer = VISITS[name](shelf, 0)
    shelf.choose(offer.id, offer.items[0])
    shelf.save(tmp_path / "again")
    with np.load(tmp_path / "again", allow_pickle=False) as file:
        assert json.loads(str(file["header"]))["schema"] == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = Shelf.load(tmp_path / "again")
    assert again.privacy() == shelf.privacy()
    expected = expected_of(version, name)
    assert again.estimate().theta.tolist() == expected["theta"]
    assert again.estimate().precision.tolist() == expected["precision"]
    mine, other = (next(state_of(each).slots) for each in (shelf, again))
    assert mine.batch.taken == other.batch.taken == 1
    assert mine.batch.frozen.scales == other.batch.frozen.scales
    np.testing.assert_array_equal(mine.sum, other.sum)
    assert mine.sum.any()
