"""Encode any log as features: declared centres and scales first, then the feature map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from quietshelf.data.logs.cleaned import read_searches
from quietshelf.data.logs.files import reading
from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.preparation import PUBLIC
from quietshelf.data.logs.reading import read_log
from quietshelf.data.logs.rules import VISITOR
from quietshelf.data.logs.searches import EncodedRounds, Searches
from quietshelf.data.tables import Schema
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import FloatArray, IntArray, positive, require


class Named(Protocol):
    """Any log with named features."""

    @property
    def visitor_names(self) -> tuple[str, ...]:
        """The names of the visitor features."""

    @property
    def item_names(self) -> tuple[str, ...]:
        """The names of the item features."""


class Scale(NamedTuple):
    """The declared centre and standard deviation of a feature."""

    centre: float
    spread: float


@dataclass(frozen=True, eq=False)
class Encoded:
    """What a fit needs from a log.

    Attributes:
        rounds: Features (n, J, d), place chosen (n,), which places hold an item (n, J).
        names: Names of the d features.
        person: Person of each round, (n,), or None.
    """

    rounds: EncodedRounds
    names: list[str]
    person: IntArray | None


def read_any(
    path: str | Path, feature_map: FeatureMap, *, layout: Layout | None = None, schema: Schema | None = None
) -> Log | Searches:
    """Read searches from ``.npz`` or a ``.zip`` that holds them, or else a log in long or wide format.

    Visitor columns are ignored if the map does not use them.
    """
    where = Path(path)
    if where.suffix == ".npz" or (where.suffix == ".zip" and _holds_searches(where)):
        asked = layout not in (None, Layout()) or schema is not None
        rule = "searches of hotels have their own layout: leave out --wide, --column, --separator and --schema"
        require(not asked, rule, path=str(path))
        return read_searches(path)
    return read_log(path, layout=layout, schema=schema, visitors=uses_visitor(feature_map))


def uses_visitor(feature_map: FeatureMap) -> bool:
    """Whether x contains visitor features."""
    return any(block.visitor for block in feature_map.blocks)


def used_names(log: Named, feature_map: FeatureMap) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the visitor and item features that x is made of."""
    return (log.visitor_names if uses_visitor(feature_map) else ()), log.item_names


def _holds_searches(path: Path) -> bool:
    with reading(path) as source:
        return "srch_id" in source.handle.readline().decode("utf-8", errors="replace").strip().split(",")


def encoded(log: Log | Searches, feature_map: FeatureMap) -> Encoded:
    """Encode the items shown."""
    names = feature_names(feature_map, log.visitor_names, log.item_names)
    if isinstance(log, Searches):
        return Encoded(log.rounds(feature_map), names, None)
    return Encoded(log.offered(feature_map), names, log.person)


def feature_names(feature_map: FeatureMap, visitor_names: Sequence[str], item_names: Sequence[str]) -> list[str]:
    """A name for each coordinate of x; refuses a log without features."""
    names = feature_map.names(visitor_names, item_names)
    require(len(names) > 0, "the log must have features for this map", feature_map=feature_map.name)
    return names


def data_dependent(log: object) -> tuple[str, ...]:
    """The preparation steps in which one visitor may have changed others' features; an unknown preparation is one.

    A shop's own log has no such record: the shop must make sure that each round's features are its own.
    """
    return log.preparation.data_dependent if isinstance(log, Searches) else ()


def in_public_units(log: object) -> bool:
    """Whether the features are already scaled by public constants."""
    return isinstance(log, Searches) and log.preparation.scaling == PUBLIC


def scaled(log: Log | Searches, scales: Mapping[str, Scale], feature_map: FeatureMap) -> Log | Searches:
    """Centre and scale features as declared; every feature that the map uses needs a scale.

    Visitor features may be declared even if the map uses none; other names that the log lacks are refused.
    """
    visitor_names, item_names = used_names(log, feature_map)
    missing = sorted({*visitor_names, *item_names} - set(scales))
    strange = sorted(set(scales) - {*log.visitor_names, *log.item_names})
    unknown = [name for name in strange if uses_visitor(feature_map) or not name.startswith(VISITOR)]
    require(not missing and not unknown, "every feature must have a declared scale", missing=missing, unknown=unknown)
    visitor = _standard(log.visitor, log.visitor_names, scales) if visitor_names else log.visitor
    if isinstance(log, Searches):
        items = {"catalogue": log.catalogue, "shown_features": log.shown_features}
        there: dict[str, Any] = {
            name: _standard(part, log.item_names, scales) for name, part in items.items() if part is not None
        }
        return replace(log, visitor=visitor, **there)
    return replace(log, visitor=visitor, features=_standard(log.features, log.item_names, scales))


def parse_scales(text: str) -> dict[str, Scale]:
    """Parse ``NAME=SPREAD`` or ``NAME=CENTRE:SPREAD``, separated by commas.

    >>> parse_scales("price=120:40, stars=1")
    {'price': Scale(centre=120.0, spread=40.0), 'stars': Scale(centre=0.0, spread=1.0)}
    """
    found = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, value = part.partition("=")
        centre, _, spread = value.rpartition(":")
        try:
            found[name.strip()] = Scale(float(centre or 0), positive("spread", float(spread)))
        except ValueError:
            raise ValueError(f"a scale must be NAME=SPREAD or NAME=CENTRE:SPREAD, got {part!r}") from None
    return found


def _standard(values: FloatArray, names: Sequence[str], scales: Mapping[str, Scale]) -> FloatArray:
    centre = np.array([scales[name].centre for name in names])
    return np.asarray((values - centre) / np.array([scales[name].spread for name in names]))
