"""PrivateCov: the right noise once a node, and a ledger that says what it costs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.noiseless import Noiseless
from tests.privacy.release.continual import check_scale, printed_tree, run, sound_tree, visitors

from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import Assumption, Ledger, epsilon_classic, epsilon_of_gaussian
from quietshelf.privacy.release import tree as trees
from quietshelf.privacy.release.noise import ContinuousGaussian, DiscreteGaussian, NoiseSource, Simulated
from quietshelf.privacy.release.tree import Law, Tree, paper, sound
from quietshelf.privacy.statistics import clip, gram, svec

every_source = pytest.mark.parametrize(
    "source",
    [Simulated(np.random.default_rng(5)), ContinuousGaussian(), DiscreteGaussian()],
    ids=lambda s: type(s).__name__,
)


# The tree's noise.


def test_a_release_is_the_sum_of_the_nodes_of_its_digits_each_drawn_once() -> None:
    """At t the noise is that of popcount(t) nodes, and a node's noise is the same whenever it is used."""
    horizon = 40
    tree = sound_tree(Simulated(np.random.default_rng(9)), horizon, 2)
    grams = visitors(np.random.default_rng(10), horizon)
    state, drawn = tree.start(), {}
    for time, exact in enumerate(np.cumsum(grams, axis=0), start=1):
        state, noisy = tree.add(state, grams[time - 1])
        level = (time & -time).bit_length() - 1
        drawn[level] = state.noise[level].copy()
        digits = [level for level in range(state.noise.shape[0]) if time >> level & 1]
        for level in range(state.noise.shape[0]):
            expected = drawn[level] if level in digits else np.zeros(3)
            np.testing.assert_array_equal(state.noise[level], expected)
        np.testing.assert_allclose(svec(noisy - exact), sum(drawn[level] for level in digits), atol=1e-10)


def test_the_variance_of_a_release_is_popcount_times_that_of_a_node() -> None:
    """At every t up to 16, in 3000 worlds; diagonal and off it (64 accepted scales in all)."""
    worlds, horizon = 3000, 16
    tree = paper(0.5, horizon=horizon, dim=2, capacity=3, source=Simulated(np.random.default_rng(11)))
    noise = run(tree, np.zeros((horizon, worlds, 2, 2)))[1]
    node = math.sqrt(3 * 5 / 0.5)
    for time in range(1, horizon + 1):
        deviation = node * math.sqrt(time.bit_count())
        check_scale(noise[time - 1][:, [0, 1], [0, 1]], deviation)
        check_scale(noise[time - 1][:, 0, 1], deviation)


def test_nodes_and_entries_are_uncorrelated() -> None:
    """10000 worlds, all 9 numbers of three nodes against each other: no correlation above 6 / sqrt(10000)."""
    worlds = 10_000
    tree = printed_tree(Simulated(np.random.default_rng(12)), 4, 2)
    nodes = []
    state = tree.start((worlds,))
    for level in (0, 1, 0):
        state, _ = tree.add(state, np.zeros((worlds, 2, 2)))
        nodes.append(state.noise[level])
    correlation = np.corrcoef(np.concatenate(nodes, axis=-1).T)
    assert np.abs(correlation - np.eye(9)).max() < 6 / math.sqrt(worlds)


PRINTED = 32 * 7 * 3 * math.log(4 / 1e-6) ** 2 / 0.5**2
REPAIRED = 32 * 7 * 9 * math.log(2 / 1e-6) * math.log(2.5 * 7 / 1e-6) / 0.5**2
LAWS: dict[str, tuple[Law, float, float]] = {  # law, variance of diagonal entries, variance off the diagonal
    "paper": (trees.paper_law(0.5, capacity=3, horizon=100), 3 * 7 / 0.5, 3 * 7 / 0.5),
    "sound": (trees.sound_law(0.5, sensitivity=math.sqrt(2) * 3, horizon=100), 9 * 7 / 0.5, 9 * 7 / 0.5 / 2),
    "printed, text": (trees.printed_law(0.5, 1e-6, capacity=3, horizon=100), 2 * PRINTED, PRINTED),
    "printed, pseudo-code": (
        trees.printed_law(0.5, 1e-6, capacity=3, horizon=100, reading="pseudo-code"),
        2 * PRINTED,
        2 * PRINTED,
    ),
    "repaired": (trees.repaired_law(0.5, 1e-6, capacity=3, horizon=100), REPAIRED, REPAIRED / 2),
}


@every_source
@pytest.mark.parametrize("name", LAWS)
def test_node_noise_has_the_stated_variance_on_and_off_the_diagonal(source: NoiseSource, name: str) -> None:
    """Each law from each source: 3000 diagonal entries, 3000 off it."""
    law, diagonal, off = LAWS[name]
    tree = Tree(horizon=100, dim=3, capacity=3, law=law, source=source)
    _, noisy = tree.add(tree.start((1000,)), np.zeros((1000, 3, 3)))
    check_scale(np.diagonal(noisy, axis1=-2, axis2=-1), math.sqrt(diagonal))
    check_scale(noisy[:, [0, 0, 1], [1, 2, 2]], math.sqrt(off))
    np.testing.assert_array_equal(noisy, np.swapaxes(noisy, -1, -2))


def test_both_readings_of_the_supplement_are_what_its_words_build() -> None:
    """(N' + N'^T)/sqrt(2), built literally with free N' or with symmetric N', has the variances of the two laws."""
    rng = np.random.default_rng(13)
    free = math.sqrt(PRINTED) * rng.standard_normal((3000, 2, 2))
    mirrored = np.triu(free) + np.swapaxes(np.triu(free, 1), -1, -2)
    for name, drawn in (("printed, text", free), ("printed, pseudo-code", mirrored)):
        built = (drawn + np.swapaxes(drawn, -1, -2)) / math.sqrt(2)
        check_scale(built[:, [0, 1], [0, 1]], LAWS[name][0].diagonal)
        check_scale(built[:, 0, 1], LAWS[name][0].off / math.sqrt(2))


# What it costs.


def costs(law: Law, horizon: int, one: FloatArray, other: FloatArray) -> FloatArray:
    """The exact zCDP cost of replacing visitor n, n = 1..T, from the means of all nodes in the two worlds."""
    everyone = np.zeros((2, horizon, horizon, *one.shape))  # which world, round, who is replaced
    everyone[0, np.arange(horizon), np.arange(horizon)] = one
    everyone[1, np.arange(horizon), np.arange(horizon)] = other
    tree = Tree(horizon=horizon, dim=one.shape[-1], capacity=10, law=law, source=Noiseless())
    scales = svec(
        np.full(one.shape, law.off / math.sqrt(2)) + np.eye(len(one)) * (law.diagonal - law.off / math.sqrt(2))
    )
    states = [tree.start((horizon,)), tree.start((horizon,))]
    total = np.zeros(horizon)
    for time in range(1, horizon + 1):
        states = [tree.add(state, grams[time - 1])[0] for state, grams in zip(states, everyone, strict=True)]
        level = (time & -time).bit_length() - 1
        moved = states[0].sums[level] - states[1].sums[level]
        total += ((moved / scales) ** 2).sum(-1) / 2
    return total


SAME, OTHER = gram(np.tile([1.0, 0.0], (10, 1))), gram(np.tile([0.0, 1.0], (10, 1)))
UP, DOWN = gram(np.tile([0.5**0.5, 0.5**0.5], (10, 1))), gram(np.tile([0.5**0.5, -(0.5**0.5)], (10, 1)))


@pytest.mark.parametrize("horizon", [1, 2, 3, 31, 32, 50])
def test_the_ledger_states_exactly_what_the_worst_neighbour_costs(horizon: int) -> None:
    """Ten contexts e1 against ten e2, who differ by 10 sqrt(2), at slot 1: K rho2 as printed, rho2 when sound."""
    assert np.linalg.norm(SAME - OTHER) == pytest.approx(10 * math.sqrt(2))
    source = Simulated(np.random.default_rng(0))
    printed = paper(0.1, horizon=horizon, dim=2, capacity=10, source=source)
    proven = sound(0.1, horizon=horizon, dim=2, capacity=10, source=source)
    for tree, rho in ((printed, 10 * 0.1), (proven, 0.1)):
        by_slot = costs(tree.law, horizon, SAME, OTHER)
        assert by_slot[0] == pytest.approx(rho, rel=1e-12)
        assert by_slot.max() == by_slot[0]
        assert tree.event.rho == pytest.approx(rho, rel=1e-12)


def test_the_papers_ledger_shows_the_nominal_cost_next_to_the_proven_one() -> None:
    """Rho2 claimed, K rho2 proven; infinite where features are as they come; K rho2 / 2 in one dimension."""
    source = ContinuousGaussian()
    event = paper(0.1, horizon=10_000, dim=5, capacity=10, source=source).event
    ledger = Ledger().spend(event)
    assert ledger.nominal_rho == 0.1
    assert ledger.rho == pytest.approx(1.0, rel=1e-12)
    assert event.sensitivity == pytest.approx(math.sqrt(14) * math.sqrt(2) * 10)
    assert event.noise == pytest.approx(math.sqrt(10 * 14 / 0.1))
    unbounded = paper(0.1, horizon=10_000, dim=5, capacity=10, source=source, bounded=False)
    assert (unbounded.event.rho, unbounded.event.nominal_rho) == (math.inf, 0.1)
    unbounded.add(unbounded.start(), 1e6 * np.eye(5))
    assert paper(0.1, horizon=10_000, dim=1, capacity=10, source=source).event.rho == pytest.approx(0.5)
    assert paper(0.1, horizon=10_000, dim=5, capacity=1, source=source).event.rho == pytest.approx(0.1)


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.floats(0.2, 5.0))
def test_no_pair_of_neighbours_costs_more_than_the_event(seed: int, dim: int, ratio: float) -> None:
    """Whatever the noise off the diagonal, replacing anybody costs at most what the ledger says."""
    rng = np.random.default_rng(seed)
    law = Law(7.0, 7.0 * ratio)
    tree = Tree(horizon=5, dim=dim, capacity=10, law=law, source=Simulated(rng))
    concentrated = 10 ** rng.uniform(-3, 0)
    pair = [gram(clip(rng.normal(size=dim) + concentrated * rng.normal(size=(10, dim)), 1e-3)) for _ in range(2)]
    assert costs(law, 5, *pair).max() <= tree.event.rho * (1 + 1e-12)


def test_quieter_noise_off_the_diagonal_is_charged_by_a_pair_that_differs_there() -> None:
    """With less noise off the diagonal the worst pair is (1, 1) against (1, -1), and the event is its exact cost."""
    law = Law(7.0, 3.0)
    tree = Tree(horizon=5, dim=2, capacity=10, law=law, source=ContinuousGaussian())
    assert costs(law, 5, UP, DOWN).max() == pytest.approx(tree.event.rho, rel=1e-12)
    assert costs(law, 5, SAME, OTHER).max() < tree.event.rho / 5


# On a grid.


def test_on_a_grid_contributions_are_rounded_and_the_sensitivity_says_so() -> None:
    """Sums and noise in svec are multiples of the grid, exactly; the cost is still rho, with a little more noise."""
    grid = 2.0**-6
    source = DiscreteGaussian(grid)
    tree = sound(0.5, horizon=50, dim=3, capacity=3, source=source)
    state, _ = run(tree, visitors(np.random.default_rng(14), 50, dim=3))
    for part in (state.sums, state.noise):
        assert part.any()
        np.testing.assert_array_equal(part / grid, np.round(part / grid))
    assert trees.sensitivity(3, 3, grid) == pytest.approx(math.sqrt(2) * 3 + 2 * grid * math.sqrt(6))
    assert 2 * 3 <= trees.sensitivity(3, 3, 1.0) <= 2 * 3 * (1 + 1e-12)
    assert tree.event.rho == pytest.approx(0.5, rel=1e-12)
    assert tree.event.assumption is Assumption.EXACT_GRID
    assert tree.law.diagonal > sound(0.5, horizon=50, dim=3, capacity=3, source=ContinuousGaussian()).law.diagonal


def test_rounding_that_is_let_pass_is_charged() -> None:
    """Traces a little above K are taken for rounding: two such visitors still differ by less than is charged."""
    for capacity, dim in ((10, 5), (3, 1)):
        most = capacity * (1 + 0.99 * trees.SLACK)
        ends = np.zeros((2, dim, dim))
        ends[0, 0, 0] = most
        ends[1, -1, -1] = most if dim > 1 else 0.0
        tree = sound(1.0, horizon=8, dim=dim, capacity=capacity, source=Simulated(np.random.default_rng(0)))
        first, second = (tree.add(tree.start(), end)[0].sums.sum(axis=0) for end in ends)
        moved = math.fsum((first - second) ** 2) ** 0.5
        assert capacity < moved
        assert moved * (1 + 2e-16) <= trees.sensitivity(capacity, dim) <= moved * (1 + 1e-12)
        with pytest.raises(ValueError, match="must be at most capacity"):
            tree.add(tree.start(), ends[0] * (1 + 2 * trees.SLACK))


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.sampled_from([2.0**-20, 2.0**-6, 0.25]))
def test_rounded_contributions_of_neighbours_stay_within_the_sensitivity(seed: int, dim: int, grid: float) -> None:
    """First sums of two neighbouring runs, as the tree keeps them."""
    rng = np.random.default_rng(seed)
    kept = []
    tree = Tree(horizon=1, dim=dim, capacity=3, law=Law(1.0, 1.0), source=DiscreteGaussian(grid))
    for _ in range(2):
        rows = clip(rng.normal(size=dim) + 10 ** rng.uniform(-3, 0) * rng.normal(size=(3, dim)), 1e-3)
        kept.append(tree.add(tree.start(), gram(rows))[0].sums[0])
    assert np.linalg.norm(kept[0] - kept[1]) <= trees.sensitivity(3, dim, grid) * (1 + 1e-12)


def test_a_horizon_whose_sums_would_not_be_exact_is_refused() -> None:
    """Float64 holds whole numbers up to 2^53 only."""
    with pytest.raises(ValueError, match="horizon must be shorter for exact sums on this grid, got horizon="):
        sound(0.5, horizon=2**33, dim=2, capacity=3, source=DiscreteGaussian())


# The (epsilon, delta) benchmark.


@pytest.mark.parametrize(("rho", "deviation", "epsilon"), [(0.1, 981, 0.034), (0.5, 435, 0.083), (1.0, 303, 0.123)])
def test_benchmark_trees_have_the_published_figures(rho: float, deviation: float, epsilon: float) -> None:
    """T = 10^4, K = 10, a tenth of the lemma's epsilon and of delta: docs/proofs.md, section 14."""
    share, delta = epsilon_classic(rho, 1e-8) / 10, 1e-9
    fair = trees.fair_law(share, delta, sensitivity=math.sqrt(2) * 10, horizon=10_000)
    assert fair.diagonal == fair.off == pytest.approx(deviation, abs=0.5)

    def spent(law: Law) -> float:
        event = Tree(horizon=10_000, dim=5, capacity=10, law=law, source=ContinuousGaussian()).event
        return epsilon_of_gaussian(math.sqrt(2 * event.rho), delta)

    text = trees.printed_law(share, delta, capacity=10, horizon=10_000)
    code = trees.printed_law(share, delta, capacity=10, horizon=10_000, reading="pseudo-code")
    assert spent(text) == spent(code) == pytest.approx(epsilon, abs=5e-4)
    assert spent(fair) == pytest.approx(share, rel=1e-9)
    assert spent(trees.repaired_law(share, delta, capacity=10, horizon=10_000)) < spent(text)


def test_bad_settings_are_refused() -> None:
    """The rule, then the value."""
    source = ContinuousGaussian()
    with pytest.raises(ValueError, match="rho must be positive and finite, got rho=0"):
        sound(0, horizon=10, dim=2, capacity=3, source=source)
    with pytest.raises(ValueError, match="horizon must be a whole number from 1 on, got horizon=0"):
        paper(1.0, horizon=0, dim=2, capacity=3, source=source)
    with pytest.raises(ValueError, match="reading must be text or pseudo-code, got reading='both'"):
        trees.printed_law(1.0, 1e-6, capacity=3, horizon=10, reading="both")  # type: ignore[arg-type]
    tree = sound(1.0, horizon=10, dim=2, capacity=3, source=source)
    bad: list[dict[str, Any]] = [{"capacity": 0}, {"dim": 0}, {"law": Law(0.0, 1.0)}, {"law": Law(1.0, math.nan)}]
    for change in bad:
        with pytest.raises(ValueError, match="must be"):
            replace(tree, **change)
