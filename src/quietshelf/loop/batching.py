"""Contestants take their places: those with the same policy are served together, where all concerned allow it.

Environments and policies say ``stacks = True`` if they understand offers for several contestants at once: an axis of
contestants before that of the worlds, of which the context has none. Curators of equal ``batch_key`` may be merged.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from quietshelf.accounting import Ledger
from quietshelf.loop.arrow import Party
from quietshelf.loop.blocks import TOGETHER
from quietshelf.loop.clock import Clock, TimedCurator, TimedPolicy
from quietshelf.loop.contest import Contestant
from quietshelf.loop.stack import Seat, Stack
from quietshelf.loop.validation import CheckedPolicy
from quietshelf.types import Common, Curator, Environment, Policy, Random, Release, Round


@runtime_checkable
class Mergeable(Protocol):
    """A curator that can do the work of several that differ in numbers alone."""

    @property
    def batch_key(self) -> Hashable:
        """Equal for those that can be merged; None for those that cannot."""

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """What each of those taken together has spent."""

    @property
    def release(self) -> Release:
        """As every curator has it."""

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """As every curator does."""

    @classmethod
    def merge(cls, curators: Sequence[Self]) -> Self:
        """One curator in place of several, along a new leading axis."""


@dataclass(frozen=True, eq=False)
class Entrant:
    """A contestant, the curator that was made for it, and its clock."""

    contestant: Contestant
    curator: Curator
    clock: Clock


@dataclass(frozen=True, eq=False)
class Team:
    """Contestants who are one party of the loop.

    Attributes:
        party: What takes part.
        labels: Of the contestants, in the order of their axis; just one where there is no such axis.
        curators: Theirs, each with the labels it works for.
        clocks: Clocks, each with the labels that share its time equally.
    """

    party: Party
    labels: tuple[str, ...]
    curators: tuple[tuple[Curator, tuple[str, ...]], ...]
    clocks: tuple[tuple[Clock, tuple[str, ...]], ...]

    @property
    def ledgers(self) -> dict[str, tuple[Ledger, ...]]:
        """What each contestant's curator had released; nothing for curators that keep no ledger."""
        return {
            label: ledger
            for curator, labels in self.curators
            for label, ledger in zip(labels, _ledgers(curator, len(labels)), strict=True)
        }

    @property
    def seconds(self) -> dict[str, float]:
        """What each took to decide and learn."""
        return {
            label: sum(clock.seconds / len(labels) for clock, labels in self.clocks if label in labels)
            for label in self.labels
        }


def teams(
    entrants: Sequence[Entrant], environment: Environment, worlds: int, chance: Callable[[], Random]
) -> list[Team]:
    """Who is served together; ``chance`` gives the randomness of a policy, the same for all."""
    found: list[Team] = []
    stacked: list[tuple[Policy, list[Entrant]]] = []
    for entrant in entrants:
        policy = entrant.contestant.policy
        if not (getattr(environment, "stacks", False) and getattr(policy, "stacks", False)):
            found.append(_alone(entrant, chance()))
            continue
        group = next((group for other, group in stacked if other == policy), None)
        if group is None:
            stacked.append((policy, [entrant]))
        else:
            group.append(entrant)
    return found + [_together(policy, group, chance(), worlds) for policy, group in stacked]


def _alone(entrant: Entrant, rng: Random) -> Team:
    label, clock = entrant.contestant.label, entrant.clock
    policy = TimedPolicy(CheckedPolicy(entrant.contestant.policy, label), clock)
    party = Party(label, policy, TimedCurator(entrant.curator, clock), rng)
    return Team(party, (label,), ((entrant.curator, (label,)),), ((clock, (label,)),))


def _together(policy: Policy, entrants: list[Entrant], rng: Random, worlds: int) -> Team:
    seats, curators, clocks, labels = [], [], [], list[str]()
    for family in _families(entrants):
        names = tuple(entrant.contestant.label for entrant in family)
        curator, clock, begin = _one(family), Clock(), len(labels)
        place = begin if len(family) == 1 else slice(begin, begin + len(family))
        seats.append(Seat(TimedCurator(curator, clock), place))
        curators.append((curator, names))
        clocks.extend([(clock, names), *((entrant.clock, (entrant.contestant.label,)) for entrant in family)])
        labels.extend(names)
    decide = Clock()
    party = Party(
        " | ".join(labels),
        TimedPolicy(policy, decide),
        Stack(seats),
        Common(rng),
        stacked=True,
        rounds=max(1, TOGETHER // (len(labels) * worlds)),
    )
    return Team(party, tuple(labels), tuple(curators), ((decide, tuple(labels)), *clocks))


def _families(entrants: list[Entrant]) -> list[list[Entrant]]:
    """Those of equal batch key together, the others by themselves."""
    kinds: dict[Hashable, list[Entrant]] = {}
    for place, entrant in enumerate(entrants):
        key = entrant.curator.batch_key if isinstance(entrant.curator, Mergeable) else None
        kinds.setdefault((place,) if key is None else (type(entrant.curator), key), []).append(entrant)
    return list(kinds.values())


def _one(family: list[Entrant]) -> Curator:
    first = family[0].curator
    if len(family) == 1 or not isinstance(first, Mergeable):
        return first
    return first.merge([entrant.curator for entrant in family if isinstance(entrant.curator, Mergeable)])


def _ledgers(curator: Curator, many: int) -> list[tuple[Ledger, ...]]:
    if many > 1 and isinstance(curator, Mergeable):
        return [(ledger,) for ledger in curator.ledgers]
    ledger = getattr(curator, "ledger", None)
    return [(ledger,) if isinstance(ledger, Ledger) else ()]
