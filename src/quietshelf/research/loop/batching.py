"""Contestants take their places: those whose curators differ in numbers alone are served together, to the same effect.

Merged curators have an axis of contestants before that of the worlds, which the context has not. Policies say
``stacks = True`` if they understand further leading axes, of contestants or of rounds; others are asked about one round
of one contestant at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from quietshelf.model.types import Common, Curator, Environment, Random, Release, Round
from quietshelf.privacy.accounting import Ledger
from quietshelf.research.loop.arrow import Runner
from quietshelf.research.loop.blocks import TOGETHER, AheadOfTime
from quietshelf.research.loop.clock import Stopwatch, TimedCurator, TimedPolicy
from quietshelf.research.loop.contest import Contestant
from quietshelf.research.loop.validation import CheckedPolicy


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
class StartedContestant:
    """A contestant, the curator that was made for it, and the clock that timed that."""

    contestant: Contestant
    curator: Curator
    clock: Stopwatch


@dataclass(frozen=True, eq=False)
class ContestantBatch:
    """Contestants who are one runner of the loop, in the order of their axis.

    Attributes:
        runner: What takes part.
        started: Who they are.
        curator: Theirs.
        clock: Hears how long they decide and learn; they share its time equally.
    """

    runner: Runner
    started: tuple[StartedContestant, ...]
    curator: Curator
    clock: Stopwatch

    @property
    def labels(self) -> tuple[str, ...]:
        """Of the contestants."""
        return tuple(each.contestant.label for each in self.started)

    @property
    def ledgers(self) -> dict[str, tuple[Ledger, ...]]:
        """What each contestant's curator had released; nothing for curators that keep no ledger."""
        if isinstance(self.curator, Mergeable):
            return {label: (ledger,) for label, ledger in zip(self.labels, self.curator.ledgers, strict=True)}
        ledger = getattr(self.curator, "ledger", None)
        return {self.labels[0]: (ledger,) if isinstance(ledger, Ledger) else ()}

    @property
    def seconds(self) -> dict[str, float]:
        """What each took to decide and learn."""
        share = self.clock.seconds / len(self.started)
        return {each.contestant.label: each.clock.seconds + share for each in self.started}


def batched(
    started: Sequence[StartedContestant], environment: Environment, worlds: int, chance: Callable[[], Random]
) -> list[ContestantBatch]:
    """Who is served together; ``chance`` gives the randomness of a policy, the same for all."""
    ahead, groups = isinstance(environment, AheadOfTime), list[list[StartedContestant]]()
    for each in started:
        alike = (group for group in groups if ahead and _alike(group[0], each))
        found = next(alike, None)
        if found is None:
            groups.append([each])
        else:
            found.append(each)
    return [_batch(group, chance(), worlds if ahead else TOGETHER) for group in groups]


def _alike(one: StartedContestant, other: StartedContestant) -> bool:
    """Whether the same policy and a merged curator can serve both."""
    policy, mine, its = one.contestant.policy, one.curator, other.curator
    if not (getattr(policy, "stacks", False) and isinstance(mine, Mergeable) and isinstance(its, Mergeable)):
        return False
    equal = type(mine) is type(its) and mine.batch_key is not None and mine.batch_key == its.batch_key
    return equal and policy == other.contestant.policy


def _batch(started: list[StartedContestant], rng: Random, worlds: int) -> ContestantBatch:
    first, many, clock = started[0], len(started), Stopwatch()
    label, curator = " | ".join(each.contestant.label for each in started), first.curator
    if many > 1 and isinstance(curator, Mergeable):
        curator = curator.merge([each.curator for each in started if isinstance(each.curator, Mergeable)])
    runner = Runner(
        label,
        TimedPolicy(CheckedPolicy(first.contestant.policy, label), clock),
        TimedCurator(curator, clock),
        rng if many == 1 else Common(rng),
        stacked=many > 1,
        rounds=max(1, TOGETHER // (many * worlds)) if getattr(first.contestant.policy, "stacks", False) else 1,
    )
    return ContestantBatch(runner, tuple(started), curator, clock)
