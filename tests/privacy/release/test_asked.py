"""Every mechanism asks its source for the very scales that its ledger entries state.

A test of sampled noise lets a few per cent pass; what is asked for can be compared to the last bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.privacy.release.continual import run, visitors
from tests.privacy.release.learners import opened, released, started

from quietshelf.privacy.accounting import HISTORY, Assumption
from quietshelf.privacy.release import batch_pair, tree
from quietshelf.privacy.release.batch_pair import Scales
from quietshelf.privacy.release.certificate import DenseVisits
from quietshelf.privacy.release.noise import GRID
from quietshelf.privacy.release.objective_perturbation import OUTPUT_NOISE, private_fit
from quietshelf.privacy.release.perturbation_cost import calibrate
from quietshelf.privacy.release.private_newton import private_newton
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.release.toeplitz import Toeplitz
from quietshelf.privacy.release.tree import Law
from quietshelf.privacy.statistics import ObservedChoice, nothing, row_grid


@dataclass
class Asked:
    """A source that notes which scales and sizes it is asked for, and draws zeros."""

    grid: float = 0.0
    assumption: Assumption = Assumption.REAL_ARITHMETIC
    noiseless: bool = False
    scales: list[float] = field(default_factory=list)
    sizes: list[tuple[int, ...]] = field(default_factory=list)

    def draw(self, scale: float, size: tuple[int, ...]) -> np.ndarray:
        self.scales.append(scale)
        self.sizes.append(size)
        return np.zeros(size)

    def only(self, worlds: Any) -> Asked:
        raise AssertionError(worlds)


def crowd(count: int = 30) -> ObservedChoice:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(count, 4, 2))
    return ObservedChoice(
        rows / np.linalg.norm(rows, axis=-1, keepdims=True), np.ones((count, 4), bool), np.arange(count) % 4
    )


def asked(scales: Scales, size: int, grid: float) -> list[float]:
    """For the score, and for the information: on and off the diagonal if discrete, in steps of its own grid."""
    if not grid:
        return [scales.score, float(scales.information)]
    steps = float(row_grid(scales.bound, scales.information, size)) ** 2 / grid
    on, off = float(scales.information) / steps, float(scales.information) * math.sqrt(0.5) * batch_pair.WIDER / steps
    return [scales.score, on, off]


@pytest.mark.parametrize("grid", [0.0, GRID])
def test_a_batch_is_released_with_the_noise_frozen_when_it_opened(grid: float) -> None:
    """Each sum has one draw, the event the least of their units; a batch with other scales than today's keeps them."""
    source = Asked(grid)
    learner = started(Quiet(rho=2.0), 2, source)
    batch = opened(learner)
    assert batch.scales == batch_pair.scales(rho=2.0, bound=batch.scales.bound)
    frozen = batch._replace(scales=Scales(3 * batch.scales.score, 5 * batch.scales.information, 0.5))
    for each in (batch, frozen):
        source.scales.clear()
        events = released(learner, each, nothing((), 2), source).ledger.events
        assert source.scales == asked(each.scales, each.size, grid)
        assert [event.noise for event in events] == [batch_pair.unit_scale(each.scales)]
    assert source.sizes == ([(2,), (2,), (1,)] if grid else [(2,), (3,)]) * 2


@pytest.mark.parametrize("law", [Law(2.0, 3.0), Law(3.0, 2.0)])
def test_a_tree_asks_once_a_node_for_its_law(law: Law) -> None:
    """Diagonal entries and the others, each at its own scale; the cost is that of the smaller one."""
    source = Asked()
    made = tree.Tree(horizon=7, dim=2, capacity=3, law=law, source=source)
    run(made, visitors(np.random.default_rng(1), 7))
    assert source.scales == [law.diagonal, law.off] * 7
    assert made.event.noise == 2.0


def test_a_toeplitz_sum_asks_once_a_round_for_the_scale_it_states() -> None:
    """The same at every round, and that of the event."""
    source = Asked()
    made = Toeplitz(rho=0.5, horizon=6, dim=2, capacity=3, source=source)
    run(made, visitors(np.random.default_rng(2), 6))
    assert source.scales == [made.event.noise] * 6


def test_a_private_fit_asks_for_the_noise_it_charges() -> None:
    """First b, then the output noise that the solver's share of the cost rests on."""
    source, seen, perturbation = Asked(), crowd(), calibrate(1.0, 2, 4)
    visits = DenseVisits(seen.rows, seen.position, None)
    found = private_fit(visits, perturbation=perturbation, source=source, batch=HISTORY)
    assert source.scales == [perturbation.sigma, OUTPUT_NOISE]
    assert found.event.noise == perturbation.sigma


@pytest.mark.parametrize("grid", [0.0, GRID])
def test_private_newton_asks_for_what_is_in_its_ledger(grid: float) -> None:
    """The draws of thirteen entries in the order of the ledger, each at the scale of its entry."""
    source = Asked(grid)
    found = private_newton(crowd(), rho=1.0, curvature=np.eye(2) / 2, source=source)
    pairs = [asked(one.scales, 30, grid) for one in found.releases]
    *noise, squares = (event.noise for event in found.ledger.events)
    assert source.scales == [scale for pair in pairs for scale in pair] + [squares]
    assert noise == [batch_pair.unit_scale(one.scales) for one in found.releases]
    assert source.sizes == ([(2,), (2,), (1,)] if grid else [(2,), (3,)]) * 12 + [(1,)]
