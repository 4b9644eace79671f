"""The private fit of a log: its sums move as little as proven, its noise is as stated, an audit sees what is left."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.noiseless import Noiseless
from tests.research.auditing.newton_faults import FEW

from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import noise_for
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.noise import GRID, DiscreteGaussian, Simulated
from quietshelf.privacy.release.private_newton import BOUND, SQUARES, PrivateTastes, _total, private_newton
from quietshelf.privacy.statistics import SENSITIVITY, Grids, ObservedChoice, svec_weights, upper
from quietshelf.research.auditing import Claim, audit
from quietshelf.research.auditing.neighbours import (
    Neighbours,
    axis,
    far_crowds,
    far_information,
    far_pairs,
    far_scores,
    pair_cost,
    visitor,
)
from quietshelf.research.auditing.newton import evidence, newton_run, newton_subject, others

RUNS, DIM = 400, 2


def few(crowd: ObservedChoice) -> ObservedChoice:
    """The first five of them."""
    return ObservedChoice(crowd.rows[:5], crowd.offered[:5], crowd.position[:5])


SMALL = few(others(far_scores(DIM).first))


def visitors(rng: np.random.Generator, count: int, dim: int) -> ObservedChoice:
    """As bad as they come: features of any length, equal ones, opposite ones, none; some places empty."""
    rows = rng.standard_normal((count, 3, dim)) * 10.0 ** rng.uniform(-3, 3, (count, 1, 1))
    kind = rng.integers(5, size=count)
    rows[kind == 1] = rows[kind == 1][:, :1]  # all items alike
    rows[kind == 2] = 1e150 * rows[kind == 2]
    rows[kind == 3] = 0.0
    offered = rng.random((count, 3)) < 0.8
    position = np.where(np.take_along_axis(offered, (p := rng.integers(3, size=count))[:, None], 1)[:, 0], p, -1)
    return ObservedChoice(np.where(offered[..., None], rows, 0.0), offered, position)


def moved(pair: Neighbours, theta: FloatArray, frame: FloatArray, grid: float) -> tuple[float, float]:
    """By how much the pair, in its units, and the squares of a log move when the one is replaced by the other."""
    logs = [
        ObservedChoice(*(np.concatenate([one[None], rest]) for one, rest in zip(target, others(target), strict=True)))
        for target in pair[:2]
    ]
    scales, size = batch_pair.scales(rho=1.0, bound=BOUND), len(logs[0].position)
    grids = batch_pair.grids(scales, size, grid)
    (one, squares), (other, less) = (_total(log, theta, frame, grids) for log in logs)
    score = float(np.linalg.norm(one.score - other.score))
    information = float(np.linalg.norm(svec_weights(len(theta)) * (one.information - other.information)))
    return math.hypot(score / math.sqrt(2), information / BOUND), abs(squares - less)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.integers(1, 4), st.sampled_from([0.0, GRID, 2.0**-6]), st.floats(0.0, 30.0))
def test_no_neighbour_moves_the_sums_more_than_proven(seed: int, dim: int, grid: float, far: float) -> None:
    """Random, long, equal and empty visitors, any theta, any coordinates, any grid: sqrt 2, and 1."""
    rng = np.random.default_rng(seed)
    two = visitors(rng, 2, dim)
    one, other = (ObservedChoice(two.rows[i], two.offered[i], two.position[i]) for i in (0, 1))
    pair = Neighbours(one, other, "")
    theta, frame = far * rng.standard_normal(dim), rng.standard_normal((dim, dim)) * 10.0 ** rng.uniform(-2, 2)
    both, squares = moved(pair, theta, frame, grid)
    assert both <= SENSITIVITY * (1 + 1e-9)
    assert squares <= 1 + 1e-9


@pytest.mark.parametrize(
    ("pair", "bounds"),
    [
        (far_scores(3), (math.sqrt(math.sqrt(5) - 1), 0.0)),
        (far_information(3), (math.sqrt(2), 0.0)),
        (far_pairs(1000, 3), (math.sqrt(2), 0.0)),
        (
            Neighbours(visitor(np.tile(1.001 * axis(0, 3), (1000, 1))), visitor(np.zeros((1000, 3))), ""),
            (0.5**0.5, 1.0),
        ),
    ],
)
def test_adversarial_neighbours_attain_what_is_proven(pair: Neighbours, bounds: tuple[float, float]) -> None:
    """At theta = 0 and L = I: the bound of the pair, nearly, by information and by both parts, and the squares' own."""
    assert moved(pair, np.zeros(3), np.eye(3), 0.0) == pytest.approx(bounds, abs=1e-5)


def test_crowds_stay_far_apart_wherever_theta_goes() -> None:
    """Opposite crowds of four items: most of what is possible at every theta within reach, |x . theta| <= log 4."""
    pair = far_crowds(4, DIM)
    for along in np.linspace(-math.log(4) / 2, math.log(4) / 2, 9):
        assert moved(pair, np.array([along, 1.0]), np.eye(DIM), 0.0)[0] > 0.92 * math.sqrt(2)


def test_nearly_all_of_rho_can_be_lost_by_one_pair() -> None:
    """All but a share of order 1/K² of it, at any B: the calibration has no slack that holds for every K."""
    for capacity in (2, 4, 50):
        for bound in (0.2, 1.0, 5.0):
            first, second, _ = far_pairs(capacity, 3)
            apart = (1 - 1 / capacity) ** 2 / bound**2
            wanted = (1 + apart) / (1 + apart + 1 / (capacity * bound) ** 2)
            assert float(pair_cost(first, second, bound=bound)) == pytest.approx(wanted, abs=1e-9)


def standardised(found: PrivateTastes, rho: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What is left of releases when the exact sums are taken away, in units of the noise that was stated."""
    score, information = [], []
    for theta, frame, scales, noisy in found.releases:
        total, squares = _total(SMALL, theta, frame, Grids(0.0, 0.0))
        score.append((noisy.score - total.score) / scales.score)
        rest = upper(noisy.information) - total.information
        information.append(svec_weights(len(theta)) * rest / scales.information)
    left = (found.squares - squares) / noise_for(1.0, SQUARES * rho)
    return np.concatenate(score), np.concatenate(information), np.array([left])


def test_releases_are_the_sums_and_noise_of_the_stated_scale() -> None:
    """Scores, informations, squares: the true scale is accepted, 2/3 and 3/2 of it are rejected.

    400 fits in two steps: 400 or more draws of each kind, so each variance ratio is within 1 +- 0.35 with probability
    above 1 - 1e-5 if true.
    """
    source = Simulated(np.random.default_rng(3))
    with FEW():
        fits = [private_newton(SMALL, rho=2.0, curvature=np.eye(DIM) / DIM, source=source) for _ in range(RUNS)]
    for part in zip(*(standardised(found, 2.0) for found in fits), strict=True):
        ratio = float((np.concatenate(part) ** 2).mean())
        assert [abs(ratio / factor**2 - 1) < 0.35 for factor in (1.0, 2 / 3, 3 / 2)] == [True, False, False]


def test_without_noise_releases_are_the_sums() -> None:
    """To the last bit: nothing else is in them."""
    found = private_newton(SMALL, rho=2.0, curvature=np.eye(DIM) / DIM, source=Noiseless())
    for part in standardised(found, 2.0):
        np.testing.assert_allclose(part, 0.0, atol=1e-12)


def test_evidence_is_the_likelihood_ratio() -> None:
    """1000 fits in each world: under one world's law the average of exp(-ratio) is 1, as of no other statistic.

    Within 4 standard errors of the 1000 values at hand.
    """
    pair = far_pairs(4, 3)
    with FEW():
        seen = newton_run(pair, 0.5, None, True, 1000, np.random.default_rng(4))
    ratio = seen[:, :3].sum(axis=1)
    back = np.exp(-ratio)
    assert abs(back.mean() - 1) < 4 * back.std() / math.sqrt(1000)
    assert 0.2 < ratio.mean() < 0.5


def test_private_newton_with_its_own_noise_passes_but_not_a_tenth_of_its_claim() -> None:
    """300 fits in two steps, discrete noise of the operating system: the claim stands, a tenth of it would not."""
    subject = newton_subject(far_crowds(4, DIM), Claim(rho=4.0, gaussian=True), DiscreteGaussian())
    with FEW():
        found = audit(subject, runs=300, rng=np.random.default_rng(5))
    assert not found.refuted
    assert found.gaussian_rho > 0.4


def test_evidence_needs_all_releases() -> None:
    """Ratios of the two worlds at the same releases are opposite: swapping the neighbours changes the sign."""
    pair, crowd = far_crowds(4, DIM), others(far_crowds(4, DIM).first)
    found = private_newton(crowd, rho=1.0, curvature=np.eye(DIM) / DIM, source=Noiseless())
    swapped = Neighbours(pair.second, pair.first, pair.words)
    np.testing.assert_allclose(evidence(found, pair, crowd, 1.0), -evidence(found, swapped, crowd, 1.0), atol=1e-12)
