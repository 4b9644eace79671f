"""Events: one release as data, whom it concerns, and what it costs.

A ledger outlives the code that wrote it, so the fields of an event never change their meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np

from quietshelf.model.types import one_of, positive, require
from quietshelf.privacy.accounting.figures import at_least_zero, round_up

HISTORY: Final = "history"
"""Everyone so far, and everyone a continual release will see later."""

LOG: Final = "log"
"""Everyone in an earlier log, from which a prior was learned; they may be in a batch as well."""

BatchOrHistory = int | Literal["history", "log"]
"""The number of a batch (batches are disjoint), ``HISTORY`` or ``LOG``."""


class Assumption(Enum):
    """What the proof of an event assumes about its noise (docs/proofs.md, section 5)."""

    EXACT_GRID = "exact-grid"
    REAL_ARITHMETIC = "real-arithmetic"

    @property
    def words(self) -> str:
        """The assumption in words, for a privacy officer."""
        return {
            Assumption.EXACT_GRID: "exact discrete Gaussian on a public grid",
            Assumption.REAL_ARITHMETIC: "continuous Gaussian; real arithmetic assumed",
        }[self]


@dataclass(frozen=True, kw_only=True)
class Event:
    """One release.

    Attributes:
        name: What was released, such as "score" or "gram tree".
        batch: The batch it was computed from, ``HISTORY`` or ``LOG``.
        sensitivity: The most that replacing one visit can move it; infinite where nothing bounds it.
        noise: Standard deviation of the noise added; 0 for an exact release.
        rho: The proven cost of replacing one visit, in zCDP; NaN or None means unknown and is stored as infinite.
        assumption: What the proof assumes about the noise.
        nominal_rho: The cost that the authors of the mechanism claim, if it differs from the proven one.
        detail: Anything else worth reading later.
    """

    name: str
    batch: BatchOrHistory
    sensitivity: float
    noise: float
    rho: float
    assumption: Assumption
    nominal_rho: float | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        require(isinstance(self.name, str) and self.name != "", "name must be a word or more", name=self.name)
        require(isinstance(self.detail, str), "detail must be text", detail=self.detail)
        require(isinstance(self.assumption, Assumption), "assumption must be an Assumption", assumption=self.assumption)
        tidy = {
            "batch": _batch(self.batch),
            "sensitivity": at_least_zero("sensitivity", self.sensitivity),
            "noise": positive("noise", self.noise, zero=True),
            "rho": _known_or_infinite("rho", self.rho),
            "nominal_rho": None if self.nominal_rho is None else at_least_zero("nominal_rho", self.nominal_rho),
        }
        for field, value in tidy.items():
            object.__setattr__(self, field, value)

    @property
    def nominal_cost(self) -> float:
        """The claimed rho if there is a claim, else the proven one."""
        return self.rho if self.nominal_rho is None else self.nominal_rho

    @property
    def cost_alone(self) -> bool:
        """Whether the cost is proven without known noise, so that no formula derives it."""
        return self.noise == 0 and math.isfinite(self.rho)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for strict JSON: infinity is the string "infinity"."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record["assumption"] = self.assumption.value
        return {name: "infinity" if value == math.inf else value for name, value in record.items()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Event:
        """The inverse of ``to_dict``; anything missing, unknown or out of range is a ``ValueError``."""
        names = [field.name for field in fields(cls)]
        require(isinstance(record, Mapping), "an event must be a mapping", event=record)
        record = {_present(name, record): value for name, value in record.items()}
        require(set(record) == set(names), f"an event must have the fields {', '.join(names)}", fields=list(record))
        code = record["assumption"]
        one_of("assumption", code, [assumption.value for assumption in Assumption])
        numbers = {name: record[name] for name in ("sensitivity", "noise", "rho", "nominal_rho")}
        values = {name: math.inf if value == "infinity" else value for name, value in numbers.items()}
        return cls(**{**record, **values, "assumption": Assumption(code)})


def gaussian(
    name: str,
    *,
    sensitivity: float,
    noise: float,
    batch: BatchOrHistory,
    assumption: Assumption,
    nominal_rho: float | None = None,
    detail: str = "",
) -> Event:
    """An event with Gaussian noise: rho = sensitivity² / (2 noise²), computed exactly and rounded upwards.

    >>> gaussian("score", sensitivity=2.0, noise=2.0, batch=0, assumption=Assumption.EXACT_GRID).rho
    0.5
    """
    return Event(
        name=name,
        batch=batch,
        sensitivity=sensitivity,
        noise=noise,
        rho=_gaussian_rho(at_least_zero("sensitivity", sensitivity), positive("noise", noise, zero=True)),
        assumption=assumption,
        nominal_rho=nominal_rho,
        detail=detail,
    )


def noise_for(sensitivity: float, rho: float) -> float:
    """The standard deviation sensitivity / sqrt(2 rho), rounded upwards: ``gaussian`` then costs at most rho.

    >>> noise_for(2.0, 0.5)
    2.0
    """
    sensitivity, rho = positive("sensitivity", sensitivity), positive("rho", rho)
    noise = sensitivity / math.sqrt(rho) / math.sqrt(2)
    require(math.isfinite(noise), "no finite noise reaches this rho", sensitivity=sensitivity, rho=rho)
    noise = max(noise, math.ulp(0.0))
    while _gaussian_rho(sensitivity, noise) > rho:
        noise = math.nextafter(noise, math.inf)
    return noise


def _present(name: str, record: Mapping[str, Any]) -> str:
    """The current name of a field: an earlier version called the batch ``visitors``."""
    return "batch" if name == "visitors" and "batch" not in record else name


def _gaussian_rho(sensitivity: float, noise: float) -> float:
    if noise == 0 or math.isinf(sensitivity):
        return math.inf
    return round_up(Fraction(sensitivity) ** 2 / (2 * Fraction(noise) ** 2))


def _known_or_infinite(name: str, value: Any) -> float:
    unknown = value is None or (isinstance(value, float) and math.isnan(value))
    return math.inf if unknown else at_least_zero(name, value)


def _batch(value: Any) -> BatchOrHistory:
    if value in (HISTORY, LOG):
        return value  # type: ignore[no-any-return]
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(is_whole and value >= 0, 'batch must be "history", "log" or the number of a batch, from 0 on', batch=value)
    return int(value)
