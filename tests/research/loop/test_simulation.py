"""Equal seeds give equal rows, whatever runs beside them and wherever; and the rows are right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quietshelf.model.types import Curator, FloatArray, Random, Release, Round
from quietshelf.policies import Greedy, Optimistic, Thompson, Uniform
from quietshelf.privacy.accounting import Assumption, Ledger, gaussian
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, Result, Row, SimulationContext, World, simulate, summary

SMALL = Synthetic(items=12, capacity=3, dim=3, contexts="clipped", revenue="uniform")


def knowing(theta: FloatArray, radius: float = 0.0) -> Release:
    worlds, dim = theta.shape
    precision = np.broadcast_to(np.eye(dim), (worlds, dim, dim))
    full = np.full(worlds, radius), np.zeros(worlds, dtype=bool), np.zeros(worlds, dtype=np.int64)
    return Release(theta, precision, *full)


class Oracle:
    """Knows the tastes of the visitor who comes next."""

    def __init__(self, setting: SimulationContext, noise: Random) -> None:  # noqa: ARG002 - what a factory is given
        self._setting = setting

    @property
    def release(self) -> Release:
        return knowing(self._setting.theta)

    def observe(self, round: Round) -> Release:  # noqa: A002, ARG002
        return self.release


class Learner:
    """Adds up what was chosen, with noise: no good estimate, but one that depends on all that went before."""

    def __init__(self, setting: SimulationContext, noise: Random) -> None:
        self._sum, self._noise = np.zeros((setting.worlds, setting.dim)), noise
        self.ledger = Ledger()
        self._publish()

    @property
    def release(self) -> Release:
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002
        self._sum += round.context.features.rows(round.choice[:, None])[:, 0]
        self._publish()
        return self._release

    def _publish(self) -> None:
        self._release = knowing(0.1 * self._sum + 0.01 * self._noise.standard_normal(self._sum.shape), 0.5)


@dataclass(frozen=True)
class Spending:
    """Makes learners whose ledger holds one event."""

    rho: float

    def __call__(self, setting: SimulationContext, noise: Random) -> Curator:
        learner = Learner(setting, noise)
        event = gaussian("sum", sensitivity=1.0, noise=2.0, batch=0, assumption=Assumption.REAL_ARITHMETIC)
        learner.ledger = Ledger(budget=self.rho).spend(event)
        return learner


class Failing(Learner):
    """Breaks down in its third round."""

    def observe(self, round: Round) -> Release:  # noqa: A002
        self._seen = getattr(self, "_seen", 0) + 1
        if self._seen == 3:
            raise ArithmeticError("this curator broke down")
        return super().observe(round)


class FailingAlone(Failing):
    """Breaks down too, but only as the only replicate of its group."""

    def observe(self, round: Round) -> Release:  # noqa: A002
        return super().observe(round) if len(self._sum) == 1 else self.release


ALL = [
    Contestant("learner", Optimistic(), Learner),
    Contestant("sampler", Thompson(2), Learner),
    Contestant("chance", Uniform(), Learner),
    Contestant("oracle", Greedy(), Oracle),
]


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import this module by its name, from the root of the project."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3])


def rows(world: World, contestants: list[Contestant], **options: Any) -> list[Row]:
    return list(simulate(world, contestants, **{"horizon": 60, "replicates": 5, "seed": 1, **options}))


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("workers", [2, 3])
def test_rows_do_not_depend_on_workers(workers: int) -> None:
    """Five replicates in one process, in two or in three: the same rows, to the bit."""
    assert rows(SMALL, ALL, workers=workers) == rows(SMALL, ALL)


def test_rows_do_not_depend_on_other_contestants() -> None:
    """Each alone loses what it loses beside the others: all face the same visitors, chances and noise."""
    together = rows(SMALL, ALL)
    for contestant in ALL:
        assert rows(SMALL, [contestant]) == [row for row in together if row.label == contestant.label]
    twins = [Contestant("one", Optimistic(), Learner), Contestant("two", Optimistic(), Learner)]
    result = simulate(SMALL, twins, horizon=60, replicates=5, seed=1)
    np.testing.assert_array_equal(result.regret["one"], result.regret["two"])


def test_more_replicates_leave_the_first_as_they_were() -> None:
    """Replicates are independent of each other, and differ."""
    few, many = rows(SMALL, ALL, replicates=2), rows(SMALL, ALL, replicates=5)
    assert few == [row for row in many if row.replicate < 2]
    finals = {row.regret for row in many if row.label == "learner" and row.t == 60}
    assert len(finals) == 5


def test_seeds_decide() -> None:
    """The same seed gives the same rows again, another seed other ones."""
    assert rows(SMALL, ALL) == rows(SMALL, ALL)
    final = [{row.regret for row in rows(SMALL, ALL[:1], seed=seed) if row.t == 60} for seed in (1, 2)]
    assert not final[0] & final[1]


@pytest.mark.parametrize("world", [Synthetic(), SMALL, Synthetic(items=12, capacity=3, drift=0.2, fixed=True)])
def test_the_oracle_loses_nothing(world: Synthetic) -> None:
    """Greed with the true theta, drifting or not, is never worse than the best but for ties of rounding."""
    result = simulate(world, ALL[-1:], horizon=100, replicates=10, seed=3)
    assert result.regret["oracle"].max() < 1e-9


@pytest.mark.parametrize("contexts", ["normal", "clipped"])
def test_uniform_loses_what_an_independent_computation_says(contexts: str) -> None:
    """Mean regret a round at the paper's size, 300 replicates of 20 rounds, against as many written out by hand.

    The difference is within 3.9 of its standard errors (false alarm 1e-4); 2/3 and 3/2 of the truth are not.
    """
    chance = [Contestant("chance", Uniform(), Learner)]
    result = simulate(Synthetic(contexts=contexts), chance, horizon=20, replicates=300, seed=4)
    ours = result.regret["chance"][:, -1] / 20
    theirs = np.array([_mean_loss(np.random.default_rng(seed), contexts) for seed in range(300)])
    error = 3.9 * np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / 300)
    assert abs(ours.mean() - theirs.mean()) < error
    for wrong in (2 / 3, 3 / 2):
        assert abs(wrong * ours.mean() - theirs.mean()) > error


def _mean_loss(rng: np.random.Generator, contexts: str) -> float:
    theta, lost = rng.random(5), []
    for _ in range(20):
        x = rng.normal(size=(100, 5))
        if contexts == "clipped":
            x = np.array([row / max(1.0, np.linalg.norm(row)) for row in x])
        weight = np.exp(x @ theta)
        best, shown = np.sort(weight)[-10:].sum(), rng.choice(weight, 10, replace=False).sum()
        lost.append(best / (1 + best) - shown / (1 + shown))
    return float(np.mean(lost))


def test_checkpoints_are_evenly_spread_and_end_at_the_horizon() -> None:
    """Regret is noted that often, grows, and is the same however often it is noted."""
    fine = simulate(SMALL, ALL[:1], horizon=60, replicates=2, seed=5, checkpoints=100)
    coarse = simulate(SMALL, ALL[:1], horizon=60, replicates=2, seed=5, checkpoints=7)
    assert fine.times == tuple(range(1, 61))
    assert coarse.times == (9, 18, 26, 35, 43, 52, 60)
    assert (np.diff(fine.regret["learner"], axis=-1) >= 0).all()
    np.testing.assert_array_equal(coarse.regret["learner"], fine.regret["learner"][:, np.array(coarse.times) - 1])
    assert len(coarse) == len(list(coarse)) == 2 * 7
    assert next(iter(coarse)) == Row("learner", 0, 9, float(coarse.regret["learner"][0, 0]))


@pytest.mark.usefixtures("importable")
def test_ledgers_are_reported_once_where_they_agree() -> None:
    """Groups of replicates that spent alike have one ledger; curators without events an empty one, or none at all."""
    contestants = [Contestant("spender", Optimistic(), Spending(1.0)), *ALL[-2:]]
    result = simulate(SMALL, contestants, horizon=4, replicates=3, seed=6, workers=2)
    (ledger,) = result.ledgers["spender"]
    assert ledger.rho == 0.125
    assert result.ledgers["chance"] == (Ledger(),)
    assert result.ledgers["oracle"] == ()


def test_summary_is_mean_and_standard_error_of_the_last_regret() -> None:
    """One line a contestant; a single replicate has no standard error."""
    result = simulate(SMALL, ALL[:2], horizon=30, replicates=4, seed=7)
    line = summary(replace(result, seconds={"learner": 6.0, "sampler": 1.0}))[0]
    final = result.regret["learner"][:, -1]
    assert (line.label, line.mean, line.seconds_per_round) == ("learner", final.mean(), 6.0 / (4 * 30))
    assert line.standard_error == pytest.approx(np.std(final, ddof=1) / 2)
    single: Result = simulate(SMALL, ALL[:1], horizon=30, replicates=1, seed=7)
    assert np.isnan(summary(single)[0].standard_error)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("workers", [1, 2])
def test_progress_grows_to_the_whole(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports count rounds of all replicates, never fall, and end with everything done."""
    monkeypatch.setattr("quietshelf.research.loop.parallel.INTERVAL", 0.001)
    heard: list[tuple[int, int]] = []
    simulate(SMALL, ALL[:2], horizon=500, replicates=4, seed=8, workers=workers, progress=lambda *at: heard.append(at))
    assert heard[-1] == (2000, 2000)
    assert {total for _, total in heard} == {2000}
    assert [done for done, _ in heard] == sorted(done for done, _ in heard)
    assert any(0 < done < 2000 for done, _ in heard)


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_curator_ends_the_simulation(workers: int) -> None:
    """Its own error comes out, from other processes too."""
    with pytest.raises(ArithmeticError, match="this curator broke down"):
        simulate(SMALL, [Contestant("bad", Uniform(), Failing)], horizon=9, replicates=2, seed=9, workers=workers)


@pytest.mark.usefixtures("importable")
def test_a_failure_stops_the_other_groups() -> None:
    """Ten million rounds of the group that goes well are not waited for."""
    contestants = [Contestant("bad", Uniform(), FailingAlone)]
    with pytest.raises(ArithmeticError, match="this curator broke down"):
        simulate(SMALL, contestants, horizon=10_000_000, replicates=3, seed=9, workers=2)


def test_misuse_is_refused_by_name() -> None:
    """The rule, then the value."""
    local = Contestant("local", Uniform(), lambda setting, noise: Learner(setting, noise))
    options: dict[str, Any] = {"horizon": 5, "replicates": 2, "seed": 0}
    with pytest.raises(ValueError, match=r"distinct labels, one at least, got labels=\['chance', 'chance'\]"):
        simulate(SMALL, [ALL[2], ALL[2]], **options)
    with pytest.raises(ValueError, match=r"one at least, got labels=\[\]"):
        simulate(SMALL, [], **options)
    with pytest.raises(ValueError, match="must be picklable"):
        simulate(SMALL, [local], workers=2, **options)
    for name in ("horizon", "replicates", "workers", "checkpoints"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number from 1 on, got {name}=0"):
            simulate(SMALL, ALL, **{**options, name: 0})
    with pytest.raises(ValueError, match="seed must be"):
        simulate(SMALL, ALL, **{**options, "seed": -1})
