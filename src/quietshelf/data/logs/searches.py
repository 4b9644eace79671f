"""Searches with a catalogue: visitor features, items shown, item chosen."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.files import replacing
from quietshelf.data.logs.preparation import UNKNOWN, Preparation
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray, check_shape, finite, integer, require

FORMAT = "quietshelf searches 2"
READ = ("quietshelf searches 1", FORMAT)
"""Format 1 had no record of the preparation."""
NUMBERS = ("visitor", "catalogue", "shown_features", "shown", "choice", "ids", "item_ids")
TEXTS = ("visitor_names", "item_names", "notes")


class EncodedRounds(NamedTuple):
    """Rounds in the form that `fit` takes: features (n, J, d), place chosen (n,), which places hold an item (n, J)."""

    features: FloatArray
    choice: IntArray
    available: BoolArray

    def only(self, which: BoolArray | IntArray) -> EncodedRounds:
        """Some of the rounds."""
        return EncodedRounds(self.features[which], self.choice[which], self.available[which])


@dataclass(frozen=True, eq=False)
class Searches:
    """Searches and the items they showed, with item features common to all searches or of each search.

    Attributes:
        visitor: u of each search, (n, d1).
        catalogue: v of each item, (N, d2); None if ``shown_features`` is given.
        shown: Which items each search showed, (n, N).
        choice: The item chosen, (n,), or -1.
        visitor_names: Names of the d1 visitor features.
        item_names: Names of the d2 item features.
        ids: Id of each search in its source, (n,).
        item_ids: Id of each item in its source, (N,).
        notes: How the data were prepared, choice by choice.
        shown_features: v of each item shown, by search and then item, (sum of ``shown``, d2), or None.
        preparation: Which steps looked at more than one search.
    """

    visitor: FloatArray
    catalogue: FloatArray | None
    shown: BoolArray
    choice: IntArray
    visitor_names: tuple[str, ...]
    item_names: tuple[str, ...]
    ids: IntArray
    item_ids: IntArray
    notes: tuple[str, ...] = ()
    shown_features: FloatArray | None = None
    preparation: Preparation = UNKNOWN

    def __post_init__(self) -> None:
        count, items = self.shown.shape
        require(self.shown.dtype == np.bool_, "shown must be boolean", dtype=self.shown.dtype)
        finite("visitor features", self.visitor, shape=(count, len(self.visitor_names)))
        width = len(self.item_names)
        require((self.catalogue is None) != (self.shown_features is None), "catalogue or shown_features must be given")
        if self.catalogue is not None:
            finite("item features", self.catalogue, shape=(items, width))
        if self.shown_features is not None:
            finite("item features", self.shown_features, shape=(int(self.shown.sum()), width))
        for name, array, length in (
            ("choice", self.choice, count),
            ("ids", self.ids, count),
            ("item_ids", self.item_ids, items),
        ):
            check_shape(name, array, (length,))
        taken = np.flatnonzero(self.choice != NOTHING)
        known = (self.choice[taken] >= 0) & (self.choice[taken] < items)
        _refuse_first(taken[~known], "choice must be an item or -1", self)
        _refuse_first(taken[~self.shown[taken, self.choice[taken]]], "the chosen item must have been shown", self)

    def __len__(self) -> int:
        return len(self.choice)

    @property
    def items(self) -> int:
        """N, the number of items."""
        return len(self.item_ids)

    def item_features(self) -> FloatArray:
        """One v per item, (N, d2): the catalogue, or averages over the searches that showed it."""
        if self.shown_features is None:
            return np.asarray(self.catalogue)
        sums = np.zeros((self.items, len(self.item_names)))
        np.add.at(sums, np.nonzero(self.shown)[1], self.shown_features)
        return np.asarray(sums / np.maximum(self.shown.sum(axis=0), 1)[:, None])

    def frequent(self, impressions: int) -> Searches:
        """Keep only items shown at least this often; choices of other items become none."""
        integer("impressions", impressions, low=0)
        kept = np.flatnonzero(self.shown.sum(axis=0) >= impressions)
        require(kept.size > 0, "some item must have been shown that often", impressions=impressions)
        stays = np.isin(np.nonzero(self.shown)[1], kept)
        renamed = np.full(self.items + 1, NOTHING)
        renamed[kept] = np.arange(kept.size)
        return replace(
            self,
            catalogue=None if self.catalogue is None else self.catalogue[kept],
            shown_features=None if self.shown_features is None else self.shown_features[stays],
            shown=self.shown[:, kept],
            choice=renamed[self.choice],  # -1 indexes the last entry, which is -1
            item_ids=self.item_ids[kept],
            preparation=self.preparation.after(f"items shown fewer than {impressions} times dropped"),
        )

    def rounds(self, feature_map: FeatureMap) -> EncodedRounds:
        """The items shown, in catalogue order, padded to the longest search."""
        width = int(self.shown.sum(axis=1).max(initial=1))
        items = np.argsort(~self.shown, axis=1, kind="stable")[:, :width]
        available = np.take_along_axis(self.shown, items, axis=1)
        features = feature_map.dense(self.visitor, self._described(items))
        features[~available] = 0.0
        taken = items == self.choice[:, None]
        return EncodedRounds(features, np.where(taken.any(axis=1), taken.argmax(axis=1), NOTHING), available)

    def _described(self, items: IntArray) -> FloatArray:
        """Features of these items, (n, J) -> (n, J, d2); arbitrary for items that were not shown."""
        if self.shown_features is None:
            return np.asarray(np.asarray(self.catalogue)[items])
        row = np.cumsum(self.shown).reshape(self.shown.shape) - 1
        return np.asarray(self.shown_features[np.take_along_axis(row, items, axis=1)])

    def save(self, path: str | Path) -> Path:
        """Write an ``.npz`` file atomically."""
        target = Path(path)
        require(target.suffix == ".npz", "a file of searches must end in .npz", path=str(path))
        texts: dict[str, Any] = {name: np.array(getattr(self, name), dtype=str) for name in TEXTS}
        numbers: dict[str, Any] = {name: getattr(self, name) for name in NUMBERS if getattr(self, name) is not None}
        texts |= {"format": np.array(FORMAT), "preparation": np.array(self.preparation.to_json())}
        with replacing(target) as handle:
            np.savez_compressed(handle, allow_pickle=False, **numbers, **texts)
        return target


def load(path: str | Path) -> Searches:
    """Read what `Searches.save` wrote."""
    require(is_saved(path), f"a file of searches must be of the format {FORMAT!r}", path=str(path))
    with np.load(Path(path), allow_pickle=False) as stored:
        numbers: dict[str, Any] = {name: stored.get(name) for name in NUMBERS}
        texts: dict[str, Any] = {name: tuple(map(str, stored[name])) for name in TEXTS}
        record = Preparation.from_json(str(stored["preparation"])) if "preparation" in stored else UNKNOWN
        return Searches(**numbers, **texts, preparation=record)


def is_saved(path: str | Path) -> bool:
    """Whether a file was written by `Searches.save`; refuses a file that is not ``.npz``."""
    try:
        with np.load(Path(path), allow_pickle=False) as stored:
            return "format" in stored and str(stored["format"]) in READ
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} must be an .npz file: {error}") from None


def _refuse_first(places: IntArray, rule: str, searches: Searches) -> None:
    if places.size:
        place = int(places[0])
        raise ValueError(f"{rule}, got choice={searches.choice[place]} in search {searches.ids[place]}")
