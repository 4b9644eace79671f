"""Verdicts on series whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quietshelf.report import Series
from quietshelf.research.experiments import judge

TIMES = np.arange(1.0, 11.0)
ORDER = {"says": "falls", "kind": "order", "along": "rho", "direction": "falls"}


def series(final: np.ndarray[Any, Any], measures: dict[str, Any] | None = None, **settings: Any) -> Series:
    regret = final[:, None] * TIMES / 10
    return Series(settings, TIMES, regret, measures=measures or {})


def noisy(mean: float, seed: int, shared: int = 0, replicates: int = 30) -> np.ndarray[Any, Any]:
    """Replicates that differ a lot, but alike for all who share a seed."""
    common = np.random.default_rng(shared).normal(scale=20.0, size=replicates)
    return mean + common + np.random.default_rng(seed).normal(size=replicates)


def test_order_holds_where_neighbours_differ_in_every_pair() -> None:
    """Pairing removes what replicates share: a difference of 5 shows under a spread of 20."""
    found = [
        series(noisy(mean, seed), rho=rho) for seed, (rho, mean) in enumerate([(0.1, 40), (0.5, 35), (1.0, 30)], 1)
    ]
    (outcome,) = judge(ORDER, found)
    assert (outcome.verdict, outcome.holding, len(outcome.comparisons)) == ("holds", 2, 2)


def test_order_fails_where_one_neighbour_is_the_other_way_round() -> None:
    """One significant reversal is enough; the other comparison still reads as holding."""
    found = [
        series(noisy(mean, seed), rho=rho) for seed, (rho, mean) in enumerate([(0.1, 40), (0.5, 30), (1.0, 35)], 1)
    ]
    (outcome,) = judge(ORDER, found)
    assert (outcome.verdict, outcome.holding) == ("fails", 1)
    assert [each.verdict for each in outcome.comparisons] == ["holds", "fails"]


def test_order_is_undecided_where_nothing_differs() -> None:
    """No difference, no verdict; nor from a single replicate."""
    same = [series(noisy(40, seed), rho=rho) for seed, rho in enumerate((0.1, 1.0), 1)]
    single = [series(noisy(40 - rho, 1, replicates=1), rho=rho) for rho in (0.1, 1.0)]
    assert judge(ORDER, same)[0].verdict == judge(ORDER, single)[0].verdict == "undecided"


def test_order_compares_only_what_is_alike_otherwise() -> None:
    """Two dimensions, two levels: one comparison a dimension, or one outcome a dimension."""
    found = [series(noisy(40 - rho, rho), rho=rho, dim=dim) for dim in (3, 5) for rho in (1, 9)]
    assert len(judge(ORDER, found)[0].comparisons) == 2
    by = judge({**ORDER, "by": ["dim"]}, found)
    assert [(outcome.group, len(outcome.comparisons)) for outcome in by] == [("d = 3", 1), ("d = 5", 1)]


def test_versus_ignores_settings_that_only_one_side_has() -> None:
    """A policy is compared with another of the same rho, whatever else the other may be set to."""
    ours = [series(noisy(30, rho), policy="a", rho=rho, split=0.5) for rho in (1, 2)]
    theirs = [series(noisy(50, rho), policy="b", rho=rho, conversion="text") for rho in (1, 2)]
    claim = {"says": "a beats b", "kind": "versus", "better": {"policy": "a"}, "worse": {"policy": "b"}}
    (outcome,) = judge(claim, [*ours, *theirs])
    assert (outcome.verdict, len(outcome.comparisons)) == ("holds", 2)


def test_interval_covers_a_true_difference_as_often_as_said() -> None:
    """Normal differences, 30 replicates, 2,000 studies: 95 % are covered; four deviations are allowed (1 in 15,000)."""
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(2000):
        pair = [series(rng.normal(size=30) + mean, rho=rho) for rho, mean in ((0.1, 3.0), (1.0, 1.0))]
        (each,) = judge(ORDER, pair)[0].comparisons
        covered.append(each.low <= 2.0 <= each.high)
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)


def test_slows_tells_a_straight_line_from_a_bent_one() -> None:
    """Square roots slow down, squares speed up."""
    level = 1 + np.random.default_rng(0).random((20, 1))
    claim = {"says": "slows", "kind": "slows"}
    verdicts = [
        judge(claim, [Series({"policy": "a"}, TIMES, level * shape)])[0].verdict for shape in (np.sqrt(TIMES), TIMES**2)
    ]
    assert verdicts == ["holds", "fails"]


def test_measures_are_held_against_their_bounds() -> None:
    """Shares, bounds and levels, each met and missed."""
    one, true = np.ones(8), np.ones((8, 10))
    half = true.copy()
    half[:, ::2] = 0
    found = [series(one, {"good": true, "bad": half, "bound": 2 * true}, policy="a")]
    always = {"says": "", "kind": "always", "least": 0.99}
    within = {"says": "", "kind": "within", "measure": "regret"}
    exceeds = {"says": "", "kind": "exceeds", "measure": "good"}
    claims = [{**always, "measure": name} for name in ("good", "bad")]
    claims += [{**within, "bound": "bound"}, {**within, "bound": "bad"}]
    claims += [{**exceeds, "level": 0.5}, {**exceeds, "level": 1.5}]
    assert [judge(claim, found)[0].verdict for claim in claims] == [
        "holds",
        "fails",
        "holds",
        "undecided",
        "holds",
        "fails",
    ]


def test_unknown_kind_is_refused() -> None:
    """The error names the kinds."""
    with pytest.raises(ValueError, match="kind must be one of order, versus"):
        judge({"says": "", "kind": "magic"}, [])


def test_a_goal_within_two_standard_errors_is_undecided() -> None:
    """Mean 10 with a standard error of 1: goals above 12 are met, goals below 8 are missed."""
    spread = np.random.default_rng(1).normal(size=25)
    lost = 10 + 5 * (spread - spread.mean()) / spread.std(ddof=1)
    claim = {"says": "", "kind": "reaches", "along": "rho", "horizon": 10, "replicates": 20}
    for goal, verdict in ((12.01, "holds"), (11.99, "undecided"), (8.01, "undecided"), (7.99, "fails")):
        (outcome,) = judge({**claim, "goals": [goal]}, [series(lost, rho=1.0)])
        assert outcome.verdict == verdict
        assert (outcome.comparisons[0].larger, outcome.comparisons[0].smaller) == pytest.approx((goal, 10.0))


def test_goals_say_nothing_of_another_size() -> None:
    """Fewer visitors, or fewer replicates, than a goal is for: no verdict; a goal must be given for every value."""
    claim = {"says": "", "kind": "reaches", "along": "rho", "goals": [1.0], "horizon": 10, "replicates": 20}
    one = series(noisy(40, 1), rho=1.0)
    assert judge({**claim, "horizon": 20_000}, [one]) == judge({**claim, "replicates": 31}, [one]) == []
    with pytest.raises(ValueError, match="reaches needs a goal for each rho"):
        judge({**claim, "goals": [1.0, 2.0]}, [one])


def test_a_run_too_short_to_slow_down_is_not_judged() -> None:
    """An early and a late part need three checkpoints after exploration."""
    claim = {"says": "", "kind": "slows", "after": 9}
    assert judge(claim, [series(noisy(40, 1), rho=1.0)]) == []


def test_a_widening_gap_is_told_from_a_closing_one() -> None:
    """Gaps of 1, 2 and 4 widen; of 4, 2 and 1 they do not."""
    claim = {"says": "", "kind": "widens", "along": "rho", "better": {"policy": "a"}, "worse": {"policy": "b"}}
    rhos, spread = (0.5, 1.0, 5.0), np.linspace(-0.1, 0.1, 8)
    for gaps, verdict in (((1, 2, 4), "holds"), ((4, 2, 1), "fails")):
        noise = np.random.default_rng(0).normal(0, 0.01, 3)
        made = [series(10.0 + extra + spread, policy="a", rho=rho) for rho, extra in zip(rhos, noise, strict=True)]
        made += [series(10.0 + gap + spread, policy="b", rho=rho) for rho, gap in zip(rhos, gaps, strict=True)]
        (outcome,) = judge(claim, made)
        assert outcome.verdict == verdict
        assert len(outcome.comparisons) == 2
