"""The ledger: every release made, their total cost, and the refusal to exceed the budget.

Neighbours are two histories that differ in one visit (``unit="visit"``) or in all visits of one person
(``unit="person"``). A visit pays for all events of its batch. Batches are disjoint, so a person with at most ``visits``
visits, at most one per batch, pays at most for the ``visits`` most expensive batches. An event on the whole history
concerns everyone, with all their visits at once: by group privacy of zCDP, n visits pay n² times the price of one. An
event on an earlier log is paid once, on top: every visitor is assumed to be in the log as well.

Reference: docs/proofs.md, sections 1, 3 and 7.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from heapq import nlargest
from typing import Any, Literal, NoReturn

from quietshelf.model.types import integer, positive, require
from quietshelf.privacy.accounting.conversions import DELTA, epsilon_of
from quietshelf.privacy.accounting.events import HISTORY, LOG, BatchOrHistory, Event
from quietshelf.privacy.accounting.figures import TOLERANCE, added_up, round_up
from quietshelf.privacy.accounting.promise import Promise

SCHEMA = 1
_FIELDS = {"schema", "budget", "visits", "unit", "events"}


class BudgetExceeded(ValueError):  # noqa: N818 - the name says what happened
    """A release was refused because it would have cost more than the budget; nothing was spent."""


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All releases so far, as an immutable value that never exceeds its budget.

    >>> from quietshelf.privacy.accounting import Assumption, gaussian
    >>> first = gaussian("score", sensitivity=2.0, noise=2.0, batch=0, assumption=Assumption.EXACT_GRID)
    >>> Ledger(budget=1.0).spend(first).rho
    0.5

    Attributes:
        budget: The most rho that may be spent; None for no limit. The sum may exceed it by a relative 1e-12, room for
            float rounding of the parts.
        visits: How many visits of one person count, at most one per batch.
        unit: Whom the promise protects. Without person ids it is a visit, and ``visits`` is 1.
        events: The releases, oldest first.
    """

    budget: float | None = None
    visits: int = 1
    unit: Literal["visit", "person"] = "visit"
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", None if self.budget is None else positive("budget", self.budget))
        object.__setattr__(self, "visits", integer("visits", self.visits))
        object.__setattr__(self, "events", tuple(self.events))
        require(self.unit in ("visit", "person"), "unit must be visit or person", unit=self.unit)
        require(self.unit == "person" or self.visits == 1, "visits must be 1 without person ids", visits=self.visits)
        require(all(isinstance(event, Event) for event in self.events), "events must be of type Event")
        if self.budget is not None and self.rho > self.budget * (1 + TOLERANCE):
            raise BudgetExceeded(f"rho must stay within the budget={self.budget!r}, got rho={self.rho!r}")

    @cached_property
    def rho(self) -> float:
        """The proven cost of all events together, summed exactly and rounded upwards once."""
        return self._compose(lambda event: event.rho)

    @cached_property
    def nominal_rho(self) -> float:
        """The same sum with each event at the cost its authors claim, if they claim one."""
        return self._compose(lambda event: event.nominal_cost)

    def spend(self, *events: Event) -> Ledger:
        """Add events: all of them or, with ``BudgetExceeded``, none."""
        return replace(self, events=(*self.events, *events))

    def would_cost(self, *events: Event) -> float:
        """The rho of this ledger after these events, regardless of the budget."""
        return replace(self, budget=None).spend(*events).rho

    def promise(self, *, delta: float = DELTA) -> Promise:
        """The promise at this moment, in figures and in words."""
        return Promise(
            rho=self.rho,
            epsilon=epsilon_of(self.rho, delta),
            nominal_rho=self.nominal_rho,
            delta=float(delta),
            budget=self.budget,
            visits=self.visits,
            unit=self.unit,
            events=self.events,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for strict JSON."""
        return {
            "schema": SCHEMA,
            "budget": self.budget,
            "visits": self.visits,
            "unit": self.unit,
            "events": [event.to_dict() for event in self.events],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Ledger:
        """The inverse of ``to_dict``; an unknown schema or malformed content is a ``ValueError``."""
        require(isinstance(record, Mapping), "a ledger must be a mapping", ledger=record)
        schema = record.get("schema")
        require(type(schema) is int and schema == SCHEMA, f"schema must be {SCHEMA}", schema=schema)
        require(
            set(record) == _FIELDS, f"a ledger must have the fields {', '.join(sorted(_FIELDS))}", fields=list(record)
        )
        require(isinstance(record["events"], list), "events must be a list", events=record["events"])
        events = tuple(Event.from_dict(event) for event in record["events"])
        return cls(budget=record["budget"], visits=record["visits"], unit=record["unit"], events=events)

    def to_json(self) -> str:
        """Strict JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """The inverse of ``to_json``."""
        try:
            record = json.loads(text, parse_constant=_refuse_constant)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"a ledger must be JSON, got {error}") from error
        return cls.from_dict(record)

    def _compose(self, price: Callable[[Event], float]) -> float:
        if any(math.isinf(price(event)) for event in self.events):
            return math.inf
        paid: dict[BatchOrHistory, Fraction] = defaultdict(Fraction)
        for event in self.events:
            paid[event.batch] += Fraction(price(event))
        history, log = paid.pop(HISTORY, Fraction(0)), paid.pop(LOG, Fraction(0))
        return round_up(self.visits**2 * history + log + sum(nlargest(self.visits, paid.values())))


def together(*ledgers: Ledger) -> float:
    """The rho for a person whose data are in several shelves, deleted ones included: promises add up."""
    return added_up(ledger.rho for ledger in ledgers)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"a ledger must be strict JSON, got {name}")
