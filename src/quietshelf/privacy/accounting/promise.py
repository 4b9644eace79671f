"""What a ledger promises: figures for a program, sentences for a person (docs/proofs.md, sections 2, 7 and 16)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quietshelf.model.types import html_table
from quietshelf.privacy.accounting.conversions import epsilon_of
from quietshelf.privacy.accounting.events import Assumption, Event
from quietshelf.privacy.accounting.figures import TOLERANCE, rounded_up

COSTS_AGAIN = (
    "Every further fit or release of the same people's data costs again, and costs add up: no limit is kept here."
)


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What is promised, proven figures first; ``str`` puts it in words, with every figure rounded upwards.

    Attributes:
        rho: Proven cost of all releases so far, in zCDP; infinite if nothing is promised.
        epsilon: The same as (epsilon, delta), by the tight conversion.
        delta: The delta at which epsilon is stated.
        nominal_rho: The cost that the mechanisms' authors claim; equal to rho if they claim no other.
        budget: What rho can never exceed; None for no limit.
        visits: How many visits of one person count.
        unit: Whom the promise protects: "person" or "visit".
        events: The releases behind it.
    """

    rho: float
    epsilon: float
    delta: float
    nominal_rho: float
    budget: float | None
    visits: int
    unit: str
    events: tuple[Event, ...]

    @property
    def words(self) -> str:
        """The promise in plain words."""
        return " ".join(_sentences(self))

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        cost = f"rho = {rounded_up(self.rho)}, epsilon = {rounded_up(self.epsilon)} at delta = {self.delta!r}"
        events = f"{len(self.events)} event{'' if len(self.events) == 1 else 's'}"
        return f"<Promise: {cost}, to {_whom(self)}, {events}>"

    def _repr_html_(self) -> str:
        rows = [
            ("rho (zCDP)", rounded_up(self.rho)),
            (f"epsilon at delta = {self.delta!r}", rounded_up(self.epsilon)),
            ("never more than rho", "no limit" if self.budget is None else rounded_up(self.budget)),
            ("promised to", _whom(self)),
            ("events in the ledger", f"{len(self.events):,}"),
        ]
        return html_table("What is promised", ("", ""), rows, self.words)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for strict JSON, for ``--json`` and the service."""
        figures = {
            "rho": self.rho,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "nominal_rho": self.nominal_rho,
            "budget": self.budget,
            "visits": self.visits,
            "unit": self.unit,
        }
        plain = {name: "infinity" if value == math.inf else value for name, value in figures.items()}
        return {**plain, "events": [event.to_dict() for event in self.events], "words": self.words}


def _sentences(promise: Promise) -> Iterator[str]:
    if math.isinf(promise.rho):
        unbounded = _names(event for event in promise.events if math.isinf(event.rho)) or "all releases together"
        yield f"No privacy is promised: no finite bound is proven for what was released ({unbounded})."
    elif not promise.events:
        yield f"Nothing has been released yet: rho = 0 so far, to {_whom(promise)}."
    else:
        yield from _guarantee(promise)
    if not math.isclose(promise.nominal_rho, promise.rho, rel_tol=TOLERANCE):
        yield _nominal(promise)
    for event in promise.events:
        if event.cost_alone and event.detail:
            yield event.detail
    if promise.budget is not None:
        yield f"No more than rho = {rounded_up(promise.budget)} will ever be spent: the ledger refuses."
    elif promise.events and math.isfinite(promise.rho):
        yield COSTS_AGAIN
    for assumption in Assumption:
        if names := _names(event for event in promise.events if event.assumption is assumption and event.noise > 0):
            yield f"Noise of {names}: {assumption.words}."


def _guarantee(promise: Promise) -> Iterator[str]:
    yield (
        f"To {_whom(promise)}, joint differential privacy is promised with rho = {rounded_up(promise.rho)} (zCDP), "
        f"that is epsilon = {rounded_up(promise.epsilon)} at delta = {promise.delta!r}."
    )
    yield (
        f"Had the data of that {promise.unit} been anything else, nothing that everyone else sees, all screens and "
        f"releases taken together, would be more than exp(epsilon) times as likely, plus delta. What somebody is shown "
        f"themselves may depend on their own data."
    )
    if promise.unit == "visit":
        yield "Somebody who comes more than once is promised less: the costs of their visits add up, at least."
    else:
        yield "It relies on the person ids being right."
    yield "That somebody came, and when, is not hidden; the operator, who sees raw data, has to be trusted."


def _nominal(promise: Promise) -> str:
    epsilon = rounded_up(epsilon_of(promise.nominal_rho, promise.delta))
    return (
        f"Nominal figures, as the authors of the mechanism claim them: rho = {rounded_up(promise.nominal_rho)}, "
        f"epsilon = {epsilon}; the proven rho is {rounded_up(promise.rho)}, and only that counts."
    )


def _whom(promise: Promise) -> str:
    if promise.unit == "visit":
        return "each visit, not each person"
    return f"each person (at most {promise.visits} visit{'s' if promise.visits > 1 else ''} counted)"


def _names(events: Iterator[Event]) -> str:
    return ", ".join(dict.fromkeys(event.name for event in events))
