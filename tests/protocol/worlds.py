"""Two worlds that differ in one visitor's (or person's) private inputs: what everybody else receives must be equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

from tests.protocol.oracles import broken
from tests.protocol.steps import TARGET, A, Answer, Arrive, B, Crash, Erase, Lose, Schedule, Step, Visit
from tests.protocol.tape import Tape, taping


class Seen(NamedTuple):
    """Something that somebody received. ``owner``: the visit or person it is for; None if anybody may see it."""

    owner: int | str | None
    what: str
    content: Any


class World(NamedTuple):
    """One of two worlds: what visitors bring there, and the noise."""

    schedule: Schedule
    side: int
    tape: Tape

    def visit(self, number: int) -> Visit:
        """The private side of that visit."""
        return self.schedule.visits[number][self.side]


class User(Protocol):
    """A user of the protocol, in one world."""

    def take(self, step: Step) -> list[Seen]:
        """What is received when that happens."""

    def kept(self) -> dict[int, Any]:
        """What is stored of each visit whose offer arrived: by R6 its own data decide it."""

    def close(self) -> None:
        """The end."""


Make = Callable[[World], User]


class Run(NamedTuple):
    """What came of one schedule in one world: what each step let somebody see, and what is kept in the end."""

    seen: list[list[Seen]]
    kept: dict[int, Any]
    tape: Tape


class Interference(AssertionError):  # noqa: N818 - it says what was found
    """Somebody received something that another's private inputs decided."""


def run(schedule: Schedule, make: Make, side: int = A, replayed: Tape | None = None) -> Run:
    """One world from beginning to end."""
    tape = Tape(schedule.seed, replayed)
    with taping():
        user = make(World(schedule, side, tape))
        try:
            seen = [user.take(step) if step.only in (None, side) else [] for step in schedule.steps]
            return Run(seen, user.kept(), tape)
        finally:
            user.close()


def compare(schedule: Schedule, make: Make) -> Counter[str]:
    """Both worlds; raises `Interference` where others see a difference, else counts what happened."""
    first = run(schedule, make)
    second = run(schedule, make, B, first.tape)
    hidden = {TARGET, *schedule.target, *schedule.persons}
    rules = [line for run in (first, second) for line in broken(schedule, [*chain(*run.seen)], run.tape)]
    if rules:
        raise Interference("\n".join([*rules, f"schedule: {schedule}"]))
    for place, (mine, theirs) in enumerate(zip(first.seen, second.seen, strict=True)):
        ours, others = ([each for each in seen if each.owner not in hidden] for seen in (mine, theirs))
        if ours != others:
            raise Interference(_told(schedule, place, ours, others))
    excess = first.tape.excess(second.tape)
    if excess:
        raise Interference("; ".join(excess))
    kept = {visit for visit in {**first.kept, **second.kept} if first.kept.get(visit) != second.kept.get(visit)}
    if kept - schedule.target:
        raise Interference(f"what is kept of others differs, of visits {sorted(kept - schedule.target)}")
    return counted(schedule, first)


def differs(schedule: Schedule, make: Make) -> bool:
    """Whether others see a difference, or wait for good; for shrinking a schedule that does."""
    try:
        compare(schedule, make)
    except AssertionError:
        return True
    except Exception:
        return False
    return False


def counted(schedule: Schedule, run: Run) -> Counter[str]:
    """How much happened."""
    kinds = {Arrive: "arrivals", Answer: "answers", Erase: "erasures", Crash: "crashes", Lose: "lost commits"}
    found = Counter(kinds[type(step)] for step in schedule.steps if type(step) in kinds)
    return found + Counter(schedules=1, releases=len(run.tape.heard))


def _told(schedule: Schedule, place: int, ours: Sequence[Seen], others: Sequence[Seen]) -> str:
    different = [pair for pair in zip(ours, others, strict=False) if pair[0] != pair[1]]
    lines = [f"in step {place}, {schedule.steps[place]}, others see ({len(ours)} and {len(others)} things)"]
    lines += [
        f"  {one.what}:\n    {mine}\n    {other}" for one, two in different[:3] for mine, other in [_apart(one, two)]
    ]
    return "\n".join([*lines, f"schedule: {schedule}"])


def _apart(one: Seen, two: Seen) -> tuple[str, str]:
    """Both from a little before the first character in which they differ: a page is longer than a report shows."""
    mine, other = str(one), str(two)
    at = next((place for place, (a, b) in enumerate(zip(mine, other, strict=False)) if a != b), 0)
    return mine[max(at - 200, 0) : at + 200], other[max(at - 200, 0) : at + 200]
