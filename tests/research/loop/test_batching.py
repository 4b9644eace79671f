"""Contestants who are served together get, to the last bit, what each would get alone."""

from __future__ import annotations

import numpy as np
import pytest

from quietshelf.model.types import Common, Streams
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, Result, simulate
from quietshelf.research.loop.named import contestant

WORLD = Synthetic(items=30, capacity=4, dim=3, contexts="clipped")
"""Most features have length 1, to within rounding: before the first release such items are tied."""
HORIZON = 120


def everybody() -> list[Contestant]:
    """Several of every kind: equal batch keys, other keys, curators of their own."""
    fast = {"explore": 20, "fits": 5}
    return [
        contestant("quiet", rho=0.5),
        contestant("quiet", rho=2.0, growth=1.2),
        contestant("quiet", rho=1.0, geometry="unknown"),
        contestant("dpmnl", rho=1.0, calibration="paper", label="paper 1", **fast),
        contestant("dpmnl", rho=5.0, calibration="paper", share=0.5, label="paper 5", **fast),
        contestant("dpmnl", rho=5.0, calibration="paper", trigger="doubling", label="paper doubling", **fast),
        contestant("dpmnl", rho=5.0, calibration="paper", trigger="literal", label="paper literal", **fast),
        contestant("dpmnl", rho=50.0, label="sound 50", **fast),
        contestant("dpmnl", rho=90.0, share=0.8, label="sound 90", **fast),
        contestant("dpmnl", rho=50.0, continual="toeplitz", label="toeplitz", **fast),
        contestant("dpmnl-eps-delta", rho=1.0, calibration="paper", label="benchmark", **fast),
        contestant("ucb-mnl"),
        contestant("ts-mnl"),
        contestant("ofu-mnl"),
        contestant("greedy"),
        contestant("uniform"),
        contestant("oracle"),
    ]


@pytest.fixture(scope="module")
def together() -> Result:
    """All of them in one simulation."""
    return simulate(WORLD, everybody(), horizon=HORIZON, replicates=3, seed=5)


@pytest.mark.parametrize("one", everybody(), ids=lambda one: one.label)
def test_nobody_notices_who_is_served_beside_them(together: Result, one: Contestant) -> None:
    """Regret and ledger of each, alone in the simulation, are those it has among all the others."""
    alone = simulate(WORLD, [one], horizon=HORIZON, replicates=3, seed=5)
    np.testing.assert_array_equal(alone.regret[one.label], together.regret[one.label])
    assert alone.ledgers[one.label] == together.ledgers[one.label]


@pytest.mark.parametrize("replicate", [0, 2])
def test_a_replicate_alone_is_the_same_too(replicate: int) -> None:
    """Groups of one replicate, as many workers make them, change no bit of any contestant."""
    many = simulate(WORLD, everybody(), horizon=HORIZON, replicates=3, seed=5)
    few = simulate(WORLD, everybody(), horizon=HORIZON, replicates=replicate + 1, seed=5)
    for label in many.labels:
        np.testing.assert_array_equal(few.regret[label][replicate], many.regret[label][replicate])


def test_results_keep_the_order_and_everybody_takes_time(together: Result) -> None:
    """Whoever is served together, rows come in the order given; time is shared among those who took it together."""
    assert together.labels == tuple(one.label for one in everybody())
    assert list(together.ledgers) == list(together.seconds) == list(together.labels)
    assert all(seconds > 0 for seconds in together.seconds.values())


def test_contestants_are_not_mixed_up(together: Result) -> None:
    """Settings of one's own give a regret of one's own."""
    final = {tuple(regret[:, -1]) for regret in together.regret.values()}
    assert len(final) == len(together.labels)


def test_common_draws_are_those_of_one() -> None:
    """Every contestant sees the numbers that a single one would draw."""
    seeds = np.random.SeedSequence(1).spawn(2)
    common, single = Common(Streams(seeds)), Streams(seeds)
    for _ in range(3):
        np.testing.assert_array_equal(common.random((4, 2, 5)), np.broadcast_to(single.random((2, 5)), (4, 2, 5)))
        drawn = common.standard_normal((4, 2))
        np.testing.assert_array_equal(drawn, np.broadcast_to(single.standard_normal((2,)), (4, 2)))
