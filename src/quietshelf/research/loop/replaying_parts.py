"""Replay of a log in partitions: a world fitted on it, and the log itself, read in the order of time and never kept.

The world has the tastes fitted on the whole log. Its visitors are the rounds of the log or, if there are more than
``WORLD_ROUNDS``, a sample of that size drawn with the seed. Rejection and inverse propensity read all rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.files import pandas
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.partitioned import PartitionedLog
from quietshelf.data.logs.partitions import Batch, Form, Partition, batches
from quietshelf.model.choice.fitting import fit_sums
from quietshelf.model.types import FloatArray, IntArray, require
from quietshelf.research.environments.expedia import Hotels
from quietshelf.research.environments.replay import Logged, world_of_candidates, world_of_items
from quietshelf.research.loop.contest import Contestant, SimulationContext
from quietshelf.research.loop.replaying import Answer, Replayed, Visit, propensities, replays, require_support

WORLD_ROUNDS = 100_000
"""Rounds that a simulated world keeps in memory at most."""
IN_TIME = "replay follows time: the rounds of a log in partitions must be in the order of time, file after file"


class Facts(NamedTuple):
    """What a replay must know of a log, or of a part of it, before it begins.

    Attributes:
        rounds: How many there are, by partition.
        candidates: Whether items that were not shown are known.
        places: The most candidates of a round.
        shown: The most items shown in one.
        known: In how many rounds the chance of the assortment is known.
        least: The smallest of these chances.
        times: The first and the last time; None if the log has none.
        ordered: Whether no round is earlier than the one before it.
    """

    rounds: tuple[int, ...] = ()
    candidates: bool = False
    places: int = 1
    shown: int = 1
    known: int = 0
    least: float = 1.0
    times: tuple[Any, Any] | None = None
    ordered: bool = True

    def then(self, later: Facts) -> Facts:
        """Of both together."""
        ends = [times for times in (self.times, later.times) if times is not None]
        in_time = len(ends) < 2 or bool(ends[0][1] <= ends[1][0])
        return Facts(
            rounds=self.rounds + later.rounds,
            candidates=self.candidates or later.candidates,
            places=max(self.places, later.places),
            shown=max(self.shown, later.shown),
            known=self.known + later.known,
            least=min(self.least, later.least),
            times=(ends[0][0], ends[-1][1]) if ends else None,
            ordered=self.ordered and later.ordered and in_time,
        )


def facts_of(partition: Partition, *, form: Form) -> Facts:
    """The facts of one partition."""
    found = Facts()
    for batch in batches(partition, form.layout):
        log = form.log(form.numbers(batch))
        candidates = log.offerable(form.feature_map)
        chance = propensities(log, candidates)
        chance = chance[np.isfinite(chance)]
        here = Facts(
            candidates=log.candidates,
            places=int(candidates.rounds.available.sum(axis=1).max()),
            shown=log.capacity,
            known=chance.size,
            least=float(chance.min(initial=1.0)),
            times=_ends(batch, form),
            ordered=log.time is None or bool((np.diff(log.time) > 0).all()),
        )
        found = found.then(here)._replace(rounds=(sum(found.rounds) + len(log),))
    return found if found.rounds else found._replace(rounds=(0,))


def _ends(batch: Batch, form: Form) -> tuple[Any, Any] | None:
    name = form.layout.columns.get("time", "time")
    if name not in batch.table.column_names:
        return None
    times = batch.table[name]
    return times[0].as_py(), times[len(times) - 1].as_py()


def replay_facts(log: PartitionedLog) -> Facts:
    """The facts of a whole log; one that is not in the order of time is refused."""
    found = Facts()
    for part in log.map(partial(facts_of, form=log.form)):
        found = found.then(part)
    require(found.ordered, IN_TIME)
    return found


@dataclass(frozen=True, eq=False)
class PartitionedReplay:
    """The rounds of a log in partitions whose assortments had known chances, in the order of time."""

    partitions: tuple[Partition, ...]
    form: Form
    facts: Facts

    @property
    def rounds(self) -> int:
        """How many."""
        return self.facts.known

    @property
    def least(self) -> float:
        """The chance of the least likely assortment."""
        return self.facts.least

    def visits(self) -> Iterator[Visit]:
        """One after the other; some whole rounds are in memory at a time."""
        require_support(candidates=self.facts.candidates, known=self.facts.known > 0)
        for partition in self.partitions:
            for batch in batches(partition, self.form.layout):
                log = self.form.log(self.form.numbers(batch))
                candidates = log.offerable(self.form.feature_map, width=self.facts.places)
                chance = propensities(log, candidates)
                yield from Replayed(candidates, chance, np.flatnonzero(np.isfinite(chance)), self.facts.shown).visits()


def answers_of(
    one: Contestant, *, replay: PartitionedReplay, world: Logged | Hotels, horizon: int, seed: int
) -> dict[str, Answer]:
    """What the log itself answers for one contestant: two passes over all of it, one per method."""
    setting = SimulationContext(world=world, worlds=1, horizon=horizon, tastes=lambda: world.theta[None])

    def ready() -> PartitionedReplay:
        require_support(candidates=replay.facts.candidates, known=replay.facts.known > 0)
        return replay

    return replays(ready, one, setting, seed=seed)


def world_of_parts(
    log: PartitionedLog, facts: Facts, *, ridge: float, capacity: int | None, seed: int
) -> Logged | Hotels:
    """The world fitted on a log in partitions, not in private."""
    found = fit_sums(log, (len(log.names),), ridge)
    require(bool(found.converged), "the fit must converge: more ridge", gradient_norm=float(found.gradient_norm))
    most, feature_map = facts.shown if capacity is None else capacity, log.form.feature_map
    sample = _sampled(log, facts, seed)
    if facts.candidates:
        candidates = sample.offerable(feature_map, width=facts.places)
        return world_of_candidates(candidates, theta=found.theta, capacity=most)
    return world_of_items(sample.visitor, *_catalogue(log), feature_map, theta=found.theta, capacity=most)


def _sampled(log: PartitionedLog, facts: Facts, seed: int) -> Log:
    """The rounds that the world keeps, as a log in memory."""
    total = sum(facts.rounds)
    drawn = np.arange(total)
    if total > WORLD_ROUNDS:
        drawn = np.sort(np.random.default_rng(seed).choice(total, WORLD_ROUNDS, replace=False, shuffle=False))
    ends = np.cumsum((0, *facts.rounds))
    shares = np.split(drawn, np.searchsorted(drawn, ends[1:-1]))
    parts = [(part, mine - first) for part, mine, first in zip(log.partitions, shares, ends[:-1], strict=True)]
    frames, before = [], 0
    for frame, (_, mine) in zip(log.executor(partial(_rows_of, form=log.form), parts), parts, strict=True):
        if mine.size:
            frames.append(frame.assign(round=frame["round"] + before))
            before += mine.size
    return log.form.log(pandas().concat(frames, ignore_index=True))


def _rows_of(part: tuple[Partition, IntArray], *, form: Form) -> Any:
    """The rows of some rounds of a partition, which are numbered anew."""
    partition, drawn = part
    frames, first = [], 0
    for batch in batches(partition, form.layout):
        frame, count = form.numbers(batch), batch.starts.size
        mine = drawn[(drawn >= first) & (drawn < first + count)]
        number = np.full(count, -1)
        number[mine - first] = np.searchsorted(drawn, mine)
        first += count
        frames.append(frame.assign(round=number[frame["round"]])[number[frame["round"]] >= 0])
    return pandas().concat(frames, ignore_index=True) if frames else None


def _catalogue(log: PartitionedLog) -> tuple[FloatArray, FloatArray]:
    """Features and revenue of every item, (N, d2) and (N,): averages over the rows that have it."""
    parts = log.map(partial(_items_of, form=log.form))
    sums = _summed([frame for frame in parts if len(frame)]).to_numpy()
    means = sums[:, :-1] / sums[:, -1:]
    return means[:, :-1], means[:, -1]


def _items_of(partition: Partition, *, form: Form) -> Any:
    """Features, revenue and a one, added up by item."""
    sums = []
    for batch in batches(partition, form.layout):
        log = form.log(form.numbers(batch), items=True)
        rows = np.column_stack([log.features, log.revenue, np.ones(len(log.revenue))])
        sums.append(pandas().DataFrame(rows, index=np.array(log.item_ids, dtype=object)[log.item]))
    return _summed(sums) if sums else pandas().DataFrame()


def _summed(frames: Sequence[Any]) -> Any:
    return pandas().concat(frames).groupby(level=0, sort=True).sum()
