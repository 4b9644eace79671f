"""Sound mechanisms pass, at their exact cost; the printed tree does not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.noiseless import Noiseless
from tests.research.auditing import faults
from tests.studies.size import FULL

from quietshelf.privacy.release.noise import Simulated
from quietshelf.research.auditing import MECHANISMS, audit, exact_rho, mechanism
from quietshelf.research.auditing.linear import response
from quietshelf.research.auditing.mechanisms import KNOWN_FALSE
from quietshelf.research.auditing.neighbours import far_scores, pair_cost, search
from quietshelf.research.auditing.shelves import shelf_subject

SOUND = [name for name in MECHANISMS if name not in (*KNOWN_FALSE, "shelf")]


@pytest.mark.study
@pytest.mark.parametrize("rho", [0.1, 1.0, 5.0] if FULL else [1.0])
@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanism_passes(name: str, rho: float) -> None:
    """Each calibration under its own claim, 2000 runs a world (100,000 in the study): not refuted.

    Where runs are slow: 100 (2000).
    """
    runs = 100_000 if FULL else 2000
    for place, subject in enumerate(mechanism(name, rho)):
        count = runs if subject.slow == 1 else (40_000 if FULL else 2000) // subject.slow
        assert not audit(subject, runs=count, rng=np.random.default_rng(place), tests=60).refuted


@pytest.mark.study
def test_shelf_with_its_own_noise_passes() -> None:
    """The embeddable object with the discrete Gaussian of the operating system: 200 runs (5000 in the study)."""
    found = audit(shelf_subject(1.0), runs=5000 if FULL else 200, rng=np.random.default_rng(0))
    assert not found.refuted
    if FULL:
        assert found.gaussian_rho > 0.4


def test_printed_tree_is_refuted_at_any_rho() -> None:
    """It claims rho and costs K rho; 10,000 runs show it without the computation, which gives K rho exactly."""
    for rho in (0.5, 2.0):
        subject, _ = mechanism("gram-tree-paper", rho)
        found = audit(subject, runs=10_000, rng=np.random.default_rng(0))
        assert found.refuted
        assert found.gaussian_rho > rho
        assert found.exact is not None
        assert found.exact.rho == pytest.approx(3 * rho)


@pytest.mark.parametrize(
    ("name", "costs"),
    [("gram-tree", [1.0, 1.0]), ("gram-toeplitz", [1.0, 1.0]), ("batch-pair", [0.618034, 0.999998, 0.999796])],
)
def test_exact_cost_of_the_proofs_pairs(name: str, costs: list[float]) -> None:
    """Trees attain their claim, also by search; so does a batch, nearly: by the score, the information, and both."""
    for subject, cost in zip(mechanism(name, 1.0), costs, strict=False):
        assert subject.exact is not None
        assert subject.exact().rho == pytest.approx(cost, rel=1e-4)
        assert subject.exact().rho <= 1.0


def test_response_is_the_law_of_the_mechanism() -> None:
    """Mean and covariance from single draws agree with 200,000 runs of the same mechanism.

    Within five standard errors of a mean; a standardised variance, the least certain entry, is known to sqrt(2/200,000)
    = 0.0032, and 0.015 is more than four times that.
    """
    run = faults.tree_run()
    mean, columns = response(run, True)
    np.testing.assert_allclose(run(True, Noiseless(), 1)[0], mean)
    outputs = run(True, Simulated(np.random.default_rng(0)), 200_000)
    covariance = columns @ columns.T
    scale = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(outputs.mean(axis=0), mean, atol=5 * scale.max() / 200_000**0.5)
    np.testing.assert_allclose(
        np.cov(outputs, rowvar=False) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.015
    )


def test_exact_cost_is_infinite_where_no_noise_hides_a_difference() -> None:
    """The bare statistic beside the noisy one."""

    def naked(secret: bool, source: Simulated, runs: int) -> np.ndarray:
        noisy = faults.batch_run()(secret, source, runs)
        return np.concatenate([noisy, np.full((runs, 1), float(secret))], axis=-1)

    assert exact_rho(naked) == np.inf  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [0.2, 1.0, 5.0])
def test_search_finds_bad_pairs_but_none_beyond_the_proof(bound: float) -> None:
    """60 steps over 1000 pairs: at least as bad as the proofs' score pair, never above rho."""
    found = search(
        lambda one, two: pair_cost(one, two, bound=bound), capacity=2, dim=3, tries=1000, rng=np.random.default_rng(0)
    )
    known = far_scores(3)
    best, base = (float(pair_cost(pair.first, pair.second, bound=bound)) for pair in (found, known))
    assert base <= best + 1e-6
    assert best <= 1.0
