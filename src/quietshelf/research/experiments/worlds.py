"""Worlds of a study from their settings; synthetic unless ``kind`` says otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from numpy.random import SeedSequence

from quietshelf.data.logs.cleaned import read_searches
from quietshelf.model.types import Environment, one_of, require
from quietshelf.research.environments import Hotels, Shop, Synthetic
from quietshelf.research.environments.expedia import fitted
from quietshelf.research.loop import World

KINDS = ("synthetic", "shop", "hotels")
NOT_OPTIONS = ("kind", "name", "horizon", "optional")


def make_world(settings: Mapping[str, Any]) -> World:
    """Make a world from its settings.

    Args:
        settings: ``kind`` and its options: those of `environments.Synthetic` or ``Shop``; for ``hotels`` a file of
            searches, ``data``, and the options of `environments.expedia.fitted`, with its ridge as ``fit_ridge``,
            since contestants may have a ``ridge`` too.
    """
    options = {key: value for key, value in settings.items() if key not in NOT_OPTIONS}
    kind = settings.get("kind", "synthetic")
    one_of("kind", kind, KINDS)
    if kind == "hotels":
        return NamedHotels(tuple(sorted(options.items())))
    return Shop(**options) if kind == "shop" else Synthetic(**options)


def lacks_data(settings: Mapping[str, Any]) -> bool:
    """Whether a world's data file is missing."""
    return "data" in settings and not _path(settings).is_file()


@dataclass(frozen=True)
class NamedHotels:
    """A hotel world by its settings; the file is read and tastes are fitted on first use."""

    settings: tuple[tuple[str, Any], ...]

    items = property(attrgetter("built.items"))
    dim = property(attrgetter("built.dim"))
    capacity = property(attrgetter("built.capacity"))
    catalogue = property(attrgetter("built.catalogue"))
    feature_map = property(attrgetter("built.feature_map"))
    visitor_scale = property(attrgetter("built.visitor_scale"))
    feature_scale = property(attrgetter("built.feature_scale"))
    table = property(attrgetter("built.table"))

    @property
    def built(self) -> Hotels:
        """The world itself, read and fitted once per process."""
        return _hotels(self.settings)

    def open(self, seeds: Sequence[SeedSequence]) -> Environment:
        """One replicate per seed."""
        return self.built.open(seeds)


@lru_cache(maxsize=8)
def _hotels(settings: tuple[tuple[str, Any], ...]) -> Hotels:
    options = dict(settings)
    path = _path(options)
    del options["data"]
    rule = (
        "a study of hotels needs a file of searches: --data FILE, or the folder in QUIETSHELF_DATA; "
        "see `quietshelf expedia --help` to make one"
    )
    require(path.is_file(), rule, data=str(path))
    ridge = options.pop("fit_ridge", None)
    return fitted(read_searches(path), ridge=ridge, **options)


def _path(settings: Mapping[str, Any]) -> Path:
    return Path(os.path.expandvars(settings["data"]))
