"""Worlds of a study by their settings: synthetic unless ``kind`` says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.random import SeedSequence

from quietshelf.data.logs.cleaned import read_searches
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.choice.tables import VisitorTable
from quietshelf.model.types import Environment, FloatArray, one_of, require
from quietshelf.research.environments import Hotels, Shop, Synthetic
from quietshelf.research.environments.expedia import fitted
from quietshelf.research.loop import World

KINDS = ("synthetic", "shop", "hotels")
NOT_OPTIONS = ("kind", "name", "horizon", "optional")


def make_world(settings: Mapping[str, Any]) -> World:
    """The world of these settings.

    Args:
        settings: ``kind`` and its options: those of `environments.Synthetic` or ``Shop``; of ``hotels`` a
            file of searches, ``data``, and the options of `environments.expedia.fitted`, its ridge as
            ``fit_ridge``: contestants may have one of their own.
    """
    options = {key: value for key, value in settings.items() if key not in NOT_OPTIONS}
    kind = settings.get("kind", "synthetic")
    one_of("kind", kind, KINDS)
    if kind == "hotels":
        return NamedHotels(tuple(sorted(options.items())))
    return Shop(**options) if kind == "shop" else Synthetic(**options)


def lacks_data(settings: Mapping[str, Any]) -> bool:
    """Whether a world reads a file that is not there."""
    return "data" in settings and not _path(settings).is_file()


@dataclass(frozen=True)
class NamedHotels:
    """A hotel world by its settings: the file is read, and tastes are fitted, where they are first needed."""

    settings: tuple[tuple[str, Any], ...]

    @property
    def items(self) -> int:
        """The number of hotels, N."""
        return self.built.items

    @property
    def dim(self) -> int:
        """The length of theta, d."""
        return self.built.dim

    @property
    def capacity(self) -> int:
        """The most hotels shown at once, K."""
        return self.built.capacity

    @property
    def catalogue(self) -> FloatArray:
        """Features of the hotels: public."""
        return self.built.catalogue

    @property
    def feature_map(self) -> FeatureMap:
        """How x is made of visitor and hotel."""
        return self.built.feature_map

    @property
    def visitor_scale(self) -> FloatArray | float:
        """Declared standard deviations of the visitor features."""
        return self.built.visitor_scale

    @property
    def feature_scale(self) -> float:
        """What x is divided by."""
        return self.built.feature_scale

    @property
    def table(self) -> VisitorTable:
        """Searches beside hotels: who learns from them keeps rounds as numbers."""
        return self.built.table

    @property
    def built(self) -> Hotels:
        """The world itself, read and fitted once a process."""
        return _hotels(self.settings)

    def open(self, seeds: Sequence[SeedSequence]) -> Environment:
        """The world, once for each seed."""
        return self.built.open(seeds)


@lru_cache(maxsize=8)
def _hotels(settings: tuple[tuple[str, Any], ...]) -> Hotels:
    options = dict(settings)
    path = _path(options)
    del options["data"]
    rule = (
        "a study of hotels needs a file of searches: --data FILE, or the folder named by QUIETSHELF_DATA; "
        "`quietshelf expedia --help` says how to make one"
    )
    require(path.is_file(), rule, data=str(path))
    ridge = options.pop("fit_ridge", None)
    return fitted(read_searches(path), ridge=ridge, **options)


def _path(settings: Mapping[str, Any]) -> Path:
    return Path(os.path.expandvars(settings["data"]))
