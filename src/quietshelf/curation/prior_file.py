"""Tastes learned from a log, as a file that a shelf can start from: values, features, and privacy cost.

A private fit is a release: using it later reveals nothing more about the log, so a shelf's geometry, noise and learner
may depend on it (docs/proofs.md, section 2). Its cost to the people in the log adds to the cost of the shelf.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quietshelf.curation.atomic_write import atomic_write
from quietshelf.data.tables import Schema
from quietshelf.model.choice.maps import FeatureMap, feature_map
from quietshelf.model.types import FloatArray, finite, one_of, positive, require
from quietshelf.privacy.accounting.events import LOG, Assumption, Event
from quietshelf.privacy.accounting.figures import rounded_up
from quietshelf.privacy.release.private_newton import PrivateTastes

KIND, VERSION = "quietshelf prior", 1
FIELDS = (
    "kind", "version", "private", "cost", "feature_map", "intercept", "visitor_names", "item_names", "names", "scales",
    "schema", "theta", "precision",
)  # fmt: skip
NOT_PRIVATE = (
    "this prior is not private: its log was prepared by looking at visitors' data, so nothing is promised to those in "
    "it. Fit a log that was prepared publicly, or say that you accept it ({how})"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class PriorFile:
    """The result of fitting a log, with its declarations; made by ``quietshelf fit --prior``.

    Attributes:
        theta: Tastes, (d,).
        precision: The inverse of their covariance, sampling and noise included, (d, d).
        feature_map: Name of the map from visitor and item features to x.
        intercept: Whether the map keeps its 1.
        visitor_names: Names of visitor features, in order; empty if the map uses none.
        item_names: Names of item features, in order.
        scales: Declared centre and spread of each feature, by name; None if undeclared.
        schema: Declaration of the columns from which features were made; None without one.
        rho: Cost of the fit to each unit of the log, in zCDP; infinite if unbounded.
        unit: "person", or "visit" for a log without person ids.
        statement: The promise to the people in the log, in words.
    """

    theta: FloatArray
    precision: FloatArray
    feature_map: str
    intercept: bool = True
    visitor_names: tuple[str, ...] = ()
    item_names: tuple[str, ...]
    scales: Mapping[str, Sequence[float]] | None = None
    schema: Mapping[str, Any] | None = None
    rho: float
    unit: Literal["visit", "person"]
    statement: str

    def __post_init__(self) -> None:
        dim = len(self.names)
        theta, precision = np.shape(self.theta), np.shape(self.precision)
        require(theta == (dim,), f"theta of a prior must have one number per feature, {dim}", shape=theta)
        require(precision == (dim, dim), f"precision of a prior must be ({dim}, {dim})", shape=precision)
        one_of("unit", self.unit, ("visit", "person"))
        require(self.rho > 0, "rho of a prior must be positive", rho=self.rho)
        known = {*self.visitor_names, *self.item_names}
        strange = [] if self.scales is None else sorted(known.symmetric_difference(self.scales))
        require(not strange, "scales of a prior must be of its features, each of them", differ=strange)
        if self.schema is not None:
            found = Schema.from_dict(self.schema).item_names
            require(found == self.item_names, "item_names of a prior must be its schema's", schema=found)

    @classmethod
    def of(cls, found: PrivateTastes, made_by: FeatureMap, *, statement: str | None = None, **named: Any) -> PriorFile:
        """Make a prior from a private fit.

        Args:
            found: The fit.
            made_by: The feature map of the fit.
            statement: The promise in words; by default that of the ledger.
            **named: ``visitor_names``, ``item_names``, and ``scales`` or ``schema``.
        """
        precision, ledger = np.linalg.inv(found.covariance), found.ledger
        return cls(
            theta=found.theta,
            precision=0.5 * (precision + precision.T),
            feature_map=made_by.name,
            intercept=made_by.intercept,
            rho=ledger.rho,
            unit=ledger.unit,
            statement=replace(ledger, budget=None).promise().words if statement is None else statement,
            **named,
        )

    @classmethod
    def forgotten(cls, cost: Mapping[str, Any]) -> PriorFile:
        """A prior of which only the cost is left; it knows no tastes, and no shelf can start from it."""
        nothing = np.zeros(1)
        return cls(theta=nothing, precision=nothing[None], feature_map="item", item_names=(), **_cost(cost))

    @cached_property
    def map(self) -> FeatureMap:
        """The feature map."""
        return feature_map(self.feature_map, intercept=self.intercept)

    @property
    def names(self) -> list[str]:
        """A name for each place of theta."""
        return self.map.names(self.visitor_names, self.item_names)

    @property
    def private(self) -> bool:
        """Whether anything is promised to the people in the log."""
        return math.isfinite(self.rho)

    @property
    def event(self) -> Event:
        """The cost of the log, as an entry for the ledger of a shelf that uses the prior."""
        whom = "person" if self.unit == "person" else "row, for the log told no persons apart"
        return Event(
            name="log behind the prior",
            batch=LOG,
            sensitivity=math.inf,
            noise=0.0,
            rho=self.rho,
            assumption=Assumption.EXACT_GRID,
            detail=f"The shelf starts from a log, whose fit cost rho = {rounded_up(self.rho)} to each {whom}; that is "
            "counted here on top, since visitors may be in the log as well."
            if self.private
            else "The shelf starts from a log whose fit promises nothing to those in it.",
        )

    @property
    def lost(self) -> bool:
        """Whether only the cost is left (see `forgotten`): every fit has some precision."""
        return not self.precision.any()

    def declared_spread(self) -> FloatArray | None:
        """Declared standard deviations of visitor features, then of item features; None if undeclared."""
        if self.schema is None:
            return None if self.scales is None else np.ones(len(self._features))
        schema = Schema.from_dict(self.schema)
        return np.concatenate([schema.visitor_scale[: len(self.visitor_names)], schema.item_scale])

    def accepted(self, allowed: bool, how: str) -> PriorFile:
        """Return this prior; refuse it if it is not private and that is not allowed. ``how`` tells how to allow it."""
        require(self.private or allowed, NOT_PRIVATE.format(how=how))
        return self

    def precision_in_units(self) -> FloatArray:
        """The precision in units in which every feature has a declared standard deviation of 1, (d, d)."""
        spread, visitor = self.declared_spread(), len(self.visitor_names)
        if spread is None:
            advice = 'fit the log again with --scales "price=120:40,..." or --schema'
            raise ValueError(f"the prior must be of a log with declared scales: {advice}, got scales=None")
        size = self.map.dense(spread[:visitor], spread[None, visitor:])[0]
        return np.asarray(self.precision / np.outer(size, size))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for strict JSON; equal priors give equal files."""
        scales = None if self.scales is None else {name: list(self.scales[name]) for name in self._features}
        return {
            "kind": KIND,
            "version": VERSION,
            "private": self.private,
            "cost": {"rho": self.rho if self.private else "infinity", "unit": self.unit, "statement": self.statement},
            "feature_map": self.feature_map,
            "intercept": self.map.intercept,
            "visitor_names": list(self.visitor_names),
            "item_names": list(self.item_names),
            "names": self.names,
            "scales": scales,
            "schema": None if self.schema is None else dict(self.schema),
            "theta": self.theta.tolist(),
            "precision": self.precision.tolist(),
        }

    @classmethod
    def from_dict(cls, record: Any) -> PriorFile:
        """The inverse of ``to_dict``; another kind or version, or malformed content, is a ``ValueError``."""
        require(isinstance(record, Mapping), "a prior must be a JSON object", type=type(record).__name__)
        require(record.get("kind") == KIND, f"a prior must be of the kind {KIND!r}", kind=record.get("kind"))
        version = record.get("version")
        require(type(version) is int and version == VERSION, f"version of a prior must be {VERSION}", version=version)
        differ = sorted(set(FIELDS).symmetric_difference(record))
        require(not differ, f"a prior must have the fields {', '.join(FIELDS)}", differ=differ)
        cost = _cost(record["cost"])
        rule = "private must be true exactly if rho is finite"
        require(record["private"] is math.isfinite(cost["rho"]), rule, private=record["private"], rho=cost["rho"])
        found = cls(
            theta=finite("theta of a prior", record["theta"], shape=(None,)),
            precision=finite("precision of a prior", record["precision"], shape=(None, None)),
            feature_map=record["feature_map"],
            intercept=_flag("intercept", record["intercept"]),
            visitor_names=_names("visitor_names", record["visitor_names"]),
            item_names=_names("item_names", record["item_names"]),
            scales=_scales(record["scales"]),
            schema=record["schema"],
            **cost,
        )
        rule = f"names must be those of the map {found.feature_map}, {found.names}"
        require(record["names"] == found.names, rule, names=record["names"])
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically."""
        atomic_write(Path(path), (json.dumps(self.to_dict(), allow_nan=False, indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, allow_not_private: bool = False) -> PriorFile:
        """Load a prior from its file; one that is not private must be allowed explicitly."""
        named = isinstance(path, (str, os.PathLike)) and Path(path).is_file()
        require(named, "the prior file must exist", path=path)
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"a prior file must be JSON, got {path}: {error}") from None
        return cls.from_dict(record).accepted(
            allow_not_private, how="PriorFile.load(path, allow_not_private=True), --allow-data-dependent"
        )

    @property
    def _features(self) -> tuple[str, ...]:
        return (*self.visitor_names, *self.item_names)


def _cost(given: Any) -> dict[str, Any]:
    """Check the cost of a prior, given as plain data."""
    good = isinstance(given, Mapping) and set(given) == {"rho", "unit", "statement"}
    require(good, "cost of a prior must have rho, unit and statement", cost=given)
    rho = math.inf if given["rho"] == "infinity" else positive("rho of a prior", given["rho"])
    return {"rho": rho, "unit": given["unit"], "statement": str(given["statement"])}


def given_prior(given: Any) -> Any:
    """Accept a prior in any form that a shelf takes: a `PriorFile`, the path of one, plain data, or a pair."""
    if isinstance(given, (str, os.PathLike)):
        return PriorFile.load(given)
    if not isinstance(given, Mapping):
        pair = isinstance(given, (tuple, list)) and len(given) == 2
        known = given is None or pair or isinstance(given, PriorFile)
        require(known, "prior must be a PriorFile, the path of its file, or (theta, precision)", prior=given)
        return given
    if set(given) == {"theta", "precision"}:
        return given["theta"], given["precision"]
    return PriorFile.from_dict(given).accepted(False, how="Shelf(prior=PriorFile.from_dict(...))")


def _flag(field: str, given: Any) -> bool:
    require(isinstance(given, bool), f"{field} of a prior must be true or false", **{field: given})
    return bool(given)


def _names(field: str, given: Any) -> tuple[str, ...]:
    good = isinstance(given, list) and all(isinstance(name, str) for name in given)
    require(good, f"{field} of a prior must be a list of names", **{field: given})
    return tuple(given)


def _scales(given: Any) -> dict[str, tuple[float, float]] | None:
    if given is None:
        return None
    require(isinstance(given, Mapping), "scales of a prior must be an object", scales=given)
    found = {}
    for name, pair in given.items():
        centre, spread = finite(f"scale of {name}", pair, shape=(2,)).tolist()
        found[name] = (centre, positive(f"spread of {name}", spread))
    return found
