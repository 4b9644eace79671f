"""A schedule: who comes when, who answers, what the shop, the clock and the machines do. Plain data, so it can be kept.

Public and the same in two worlds: the shop, every arrival, whether it comes with a person id, the clock, the catalogue,
crashes, how requests are grouped. Private, and free to differ for one visitor or person (`Schedule.target`): `Visit`,
and the steps that exist in one world only (`Step.only`): answers, when they are received, and erasures.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

A, B = 0, 1
"""The two worlds."""
OVERSIZED = -9
"""The place of an answer whose body is larger than the service takes."""


@dataclass(frozen=True)
class Shop:
    """What is told once; ``items`` are rows of item features. Without a feature map a visit brings x for every item.

    Where arms are compared, the present ranking has the items in their order. ``block``: how many slots a process
    leases for arrivals to come, whenever it can. ``release_seconds``: what a service publishes a release later by.
    """

    items: tuple[tuple[float, ...], ...]
    feature_map: str | None = "full"
    visitor_dim: int = 1
    capacity: int = 2
    rho: float = 100.0
    conversion: float | None = 0.9
    max_batch: int | None = None
    policy: str = "quiet"
    visits: int = 1
    on_no_answer: str = "no-choice"
    window: int = 3
    groups: tuple[int, ...] | None = None
    limits: tuple[int, ...] | None = None
    poll: bool = True
    group_limit: int = 256
    comparison: float = 0.0
    present: str = "ranking"
    learned_share: float = 1.0
    block: int = 0
    release_seconds: float = 0.0

    @property
    def feature_count(self) -> int:
        """How many numbers a visit brings."""
        return self.visitor_dim if self.feature_map is not None else len(self.items) * len(self.items[0])


@dataclass(frozen=True)
class Visit:
    """One visitor's private side: features, wishes (items by number), revenue where the user takes it, and who it is.

    ``chooses``: the place chosen where the answer comes with the visit (a simulation), -1 for none.
    """

    features: tuple[float, ...]
    person: str | None = None
    candidates: tuple[int, ...] | None = None
    required: tuple[int, ...] = ()
    exclude: tuple[int, ...] = ()
    capacity: int | None = None
    revenue: tuple[float, ...] | None = None
    chooses: int = -1


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that happens. ``only``: in that world alone; ``worker``: which process takes it."""

    only: int | None = None
    worker: int = 0


@dataclass(frozen=True, kw_only=True)
class Arrive(Step):
    """Visitor ``visit`` asks for an offer; the same visit again is a retry with the same Idempotency-Key."""

    visit: int
    retry: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer(Step):
    """``place`` of the item chosen among those shown (modulo their number), -1 for none, None for an item not shown.

    ``foreign``: by a key of another shelf.
    """

    visit: int
    place: int | None
    foreign: bool = False


@dataclass(frozen=True, kw_only=True)
class Erase(Step):
    """A person asks for erasure."""

    person: str


@dataclass(frozen=True, kw_only=True)
class Invalid(Step):
    """A request that is no visitor's: of features too long, an item that does not exist, more than fits, a forged id.

    ``private``: the target's; that it came is public, what was wrong with it is not.
    """

    kind: str
    private: bool = False


@dataclass(frozen=True, kw_only=True)
class Tick(Step):
    """Time passes."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Change(Step):
    """The shop changes its catalogue: adds an item, or changes or retires number ``item``."""

    kind: str
    item: int = 0
    features: tuple[float, ...] = ()
    revenue: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Write(Step):
    """A worker writes what it has received: the end of a group."""


@dataclass(frozen=True, kw_only=True)
class Look(Step):
    """Somebody looks at everything that anybody may know."""


@dataclass(frozen=True, kw_only=True)
class Crash(Step):
    """A machine stops and another takes its place.

    ``where``: between two writes (``now``); in the next release, once it is ``announced``, ``drawn`` or ``committed``;
    in the next group of writes, ``before`` its commit or ``after`` it. A shelf in memory stops ``now``, or goes on in a
    ``fork``, or fails once a release is ``drawn``.
    """

    where: str = "now"


@dataclass(frozen=True, kw_only=True)
class Save(Step):
    """A shelf is saved to its file; of a service, its standby is brought up to date."""


@dataclass(frozen=True, kw_only=True)
class Lose(Step):
    """The standby takes over: every commit since the last `Save` was acknowledged, and is lost."""


@dataclass(frozen=True)
class Schedule:
    """A shop, its visits in both worlds, and what happens.

    Attributes:
        target: The visits whose private side may differ.
        persons: The names they come with in either world.
    """

    shop: Shop
    visits: tuple[tuple[Visit, Visit], ...]
    target: frozenset[int]
    steps: tuple[Step, ...]
    workers: int = 1
    seed: int = 0
    persons: frozenset[str] = field(default_factory=frozenset)

    @property
    def calm(self) -> bool:
        """Whether no machine stops and nothing is lost."""
        return not any(isinstance(step, Crash | Lose) for step in self.steps)

    def without(self, places: frozenset[int]) -> Schedule:
        """The same without some of its steps."""
        return replace(self, steps=tuple(step for place, step in enumerate(self.steps) if place not in places))


TARGET = "the target"
"""Whoever sends the target's invalid requests."""
