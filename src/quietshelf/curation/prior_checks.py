"""Check that a prior learned from a log fits a shelf: the same map, features and units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from quietshelf.curation.prior_file import PriorFile
from quietshelf.curation.settings import Public, ShelfSettings
from quietshelf.data.tables import Column, Schema
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray, require

FAR = 10.0
"""If a catalogue's column has a root mean square this large in declared units, its units must be others."""


def check_log(settings: ShelfSettings, public: Public, log: PriorFile) -> None:
    """Refuse a log whose features differ from those the shelf declares; items are checked when known."""
    check_content(log)
    if settings.feature_map is None:  # each offer brings x: only its length can be compared
        return
    _check_map(settings, log)
    if public.schema is not None:
        _check_schema(public.schema, log)
    elif public.visitor_scale is not None and log.visitor_names and (told := log.declared_spread()) is not None:
        scale = told[: len(log.visitor_names)]
        rule = f"visitor_scale must be {_written(scale)} with this prior: its visitor features are in declared units"
        require(bool((public.visitor_scale == scale).all()), rule, visitor_scale=public.visitor_scale.tolist())


def check_items(catalogue: FloatArray, log: PriorFile, *, units: bool = True) -> None:
    """Refuse items whose features, or evidently whose units, differ from the log's. A catalogue is public.

    With a schema the units are known to agree (`check_log`): ``units=False`` skips that check.
    """
    check_content(log)
    rule = f"items must have {len(log.item_names)} features, because the prior has {', '.join(log.item_names)}"
    require(catalogue.shape[1] == len(log.item_names), rule, features=catalogue.shape[1])
    spread = log.declared_spread()
    if spread is None or not units or not len(catalogue):
        return
    size = np.sqrt((catalogue**2).mean(axis=0))
    own = spread[len(log.visitor_names) :]
    for name, found, usual in zip(log.item_names, size.tolist(), own.tolist(), strict=True):
        rule = f"items must be in the prior's units, {_unit(log, name)}, a few units around 0"
        require(found < FAR * usual, rule, **{f"root_mean_square_of_{name}": round(found, 3)})


def check_content(log: PriorFile) -> None:
    """Refuse a log of which only the cost is left."""
    rule = "the content of this shelf's prior was lost with the backup: delete this shelf and create it again"
    require(not log.lost, rule)


def _unit(log: PriorFile, name: str) -> str:
    if log.scales is None:
        return "those of its schema (make the shelf from a table and that schema)"
    centre, spread = log.scales[name]
    return f"({name} - {centre:g}) / {spread:g}"


def _written(scale: FloatArray) -> str:
    return "1" if bool((scale == 1.0).all()) else str(scale.tolist())


def _check_map(settings: ShelfSettings, log: PriorFile) -> None:
    name, kept = str(settings.feature_map), log.map.intercept
    require(name == log.feature_map, f"feature_map must be that of the prior, {log.feature_map}", feature_map=name)
    same = feature_map(name, intercept=settings.intercept).intercept == kept
    require(same, f"intercept must be that of the prior, {kept}", intercept=settings.intercept)
    if any(block.visitor for block in log.map.blocks):
        rule = f"visitor_dim must be {len(log.visitor_names)}, because the prior has {', '.join(log.visitor_names)}"
        require(settings.visitor_dim == len(log.visitor_names), rule, visitor_dim=settings.visitor_dim)


def _check_schema(schema: Schema, log: PriorFile) -> None:
    """Refuse columns that are declared differently from those of the log."""
    if log.schema is None:
        raise ValueError("the prior must be fitted with the shelf's schema: quietshelf fit --schema")
    told = Schema.from_dict(log.schema)
    sides = ["items", *(["visitors"] if log.visitor_names else [])]
    for side in sides:
        before, now = (_features(getattr(each, side)) for each in (told, schema))
        altered = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
        rule = f"{side} must be declared as they were when the prior was fitted"
        require(not altered, rule, **{name: now.get(name) for name in altered})
        require(list(before) == list(now), f"{side} must come in the prior's order", order=list(now))


def _features(columns: Mapping[str, Column]) -> dict[str, Column]:
    return {name: column for name, column in columns.items() if column.names(name)}
