"""What every continual sum does: exact sums, states that can be saved, one event for the whole run."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.privacy.release.continual import printed_tree, run, sound_tree, toeplitz_sum, visitors

from quietshelf.model.types import Streams
from quietshelf.privacy.accounting import HISTORY, BudgetExceeded, Ledger
from quietshelf.privacy.release.noise import NoiseSource, Simulated
from quietshelf.privacy.release.tree import ContinualSum, State

Maker = Callable[[NoiseSource, int, int], ContinualSum]
every_mechanism = pytest.mark.parametrize("make", [printed_tree, sound_tree, toeplitz_sum])


@every_mechanism
@pytest.mark.parametrize("dim", [1, 3])
def test_noiseless_sums_are_exact_and_their_cost_is_infinite(make: Maker, dim: int) -> None:
    """Without noise every release is the prefix sum, and the ledger reads infinite, nominally as well."""
    mechanism = make(Noiseless(), 100, dim)
    grams = visitors(np.random.default_rng(0), 100, (4,), dim)
    np.testing.assert_allclose(run(mechanism, grams)[1], np.cumsum(grams, axis=0), atol=1e-10)
    assert mechanism.event.rho == mechanism.event.nominal_cost == math.inf
    with pytest.raises(BudgetExceeded):
        Ledger(budget=1e9).spend(mechanism.event)


@every_mechanism
def test_a_saved_state_goes_on_with_the_same_releases(make: Maker) -> None:
    """Arrays written to a file half-way and read back give the later outputs of the run that was not interrupted."""
    grams = visitors(np.random.default_rng(1), 60, (3,))
    rng = np.random.default_rng(2)
    mechanism = make(Simulated(rng), 60, 2)
    _, whole = run(mechanism, grams)
    rng.bit_generator.state = np.random.default_rng(2).bit_generator.state
    half, first = run(mechanism, grams[:37])
    file = io.BytesIO()
    np.savez(file, **half._asdict())
    file.seek(0)
    with np.load(file) as saved:
        restored = State(int(saved["time"]), saved["sums"], saved["noise"])
    _, second = run(mechanism, grams[37:], restored)
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)


@every_mechanism
def test_adding_leaves_the_old_state_as_it_was(make: Maker) -> None:
    """State in, state out: an earlier state can be looked at later."""
    mechanism = make(Simulated(np.random.default_rng(3)), 8, 2)
    grams = visitors(np.random.default_rng(4), 8)
    states = [mechanism.start()]
    for one in grams:
        before = State(states[-1].time, states[-1].sums.copy(), states[-1].noise.copy())
        states.append(mechanism.add(states[-1], one)[0])
        assert states[-2].time == before.time
        np.testing.assert_array_equal(states[-2].sums, before.sums)
        np.testing.assert_array_equal(states[-2].noise, before.noise)


@every_mechanism
def test_rounds_beyond_the_horizon_and_unfit_matrices_are_refused(make: Maker) -> None:
    """One round too many, a wrong shape, a NaN, features that were not clipped: an error each."""
    mechanism = make(Simulated(np.random.default_rng(3)), 2, 2)
    start, good = mechanism.start((5,)), np.broadcast_to(np.eye(2), (5, 2, 2))
    with pytest.raises(ValueError, match=r"gram must have shape \(5, 2, 2\), got shape=\(2, 2\)"):
        mechanism.add(start, np.eye(2))
    with pytest.raises(ValueError, match="gram must be finite"):
        mechanism.add(start, good * np.nan)
    with pytest.raises(ValueError, match=r"must be at most capacity=3: clip features first, got trace=4\.0"):
        mechanism.add(start, good * 2)
    full, _ = run(mechanism, np.stack([good, good]))
    with pytest.raises(ValueError, match="rounds must be at most horizon=2, got round=3"):
        mechanism.add(full, good)


@every_mechanism
@pytest.mark.parametrize("dim", [1, 2])
def test_a_world_does_not_depend_on_the_worlds_beside_it(make: Maker, dim: int) -> None:
    """With a stream a world, world 0 of three gives to the last bit what it gives alone, over 2^8 rounds."""
    seeds = np.random.SeedSequence(7).spawn(3)
    grams = visitors(np.random.default_rng(8), 256, (3,), dim)
    together = run(make(Simulated(Streams(seeds)), 256, dim), grams)[1]
    alone = run(make(Simulated(Streams(seeds[:1])), 256, dim), grams[:, :1])[1]
    np.testing.assert_array_equal(together[:, :1], alone)


@every_mechanism
def test_the_event_covers_the_whole_run_once(make: Maker) -> None:
    """One entry, on the history, known before any round; a budget that is too small refuses it."""
    event = make(Simulated(np.random.default_rng(0)), 100, 2).event
    assert event.batch == HISTORY
    assert Ledger(budget=10.0).spend(event).rho == event.rho
    with pytest.raises(BudgetExceeded):
        Ledger(budget=0.4).spend(event)


@every_mechanism
def test_a_trace_above_the_capacity_is_refused_beyond_rounding(make: Maker) -> None:
    """K and a rounding error pass, a billionth more does not: sensitivities rest on it."""
    one = make(Simulated(np.random.default_rng(0)), 4, 2)
    one.add(one.start(), np.diag([2.0, 1.0]) * (1 + 1e-15))
    with pytest.raises(ValueError, match="the trace of a Gram matrix must be at most capacity=3"):
        one.add(one.start(), np.diag([2.0, 1.0]) * (1 + 1e-9))
