"""An audit finds most of what is lost, says so honestly, and stays silent where nothing is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from quietshelf.model.types import FloatArray
from quietshelf.research.auditing import Auditable, Claim, audit


def gaussian(rho: float, claim: float, features: int = 4) -> Auditable:
    """A Gaussian release that costs rho, hidden among features of no use."""
    shift = math.sqrt(2 * rho) / 2 * np.array([1.0, -1.0, 1.0, -1.0][:features])

    def run(secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal((runs, features)) + secret * shift

    return Auditable(name="gaussian", pair="shifted or not", claim=Claim(rho=claim, gaussian=True), run=run)


@pytest.mark.parametrize("rho", [0.1, 1.0, 4.0])
def test_audit_accepts_the_true_claim_and_refutes_two_thirds_of_the_noise(rho: float) -> None:
    """40,000 runs: the claim of the true noise stands; noise of 2/3, which costs 9/4, is refuted at 99.9 %."""
    rng = np.random.default_rng(0)
    assert not audit(gaussian(rho, rho), runs=40_000, rng=rng).refuted
    found = audit(gaussian(2.25 * rho, rho), runs=40_000, rng=rng)
    assert found.refuted
    assert found.gaussian_rho > rho


def test_lower_bounds_are_close_to_the_truth() -> None:
    """At rho = 1 with 40,000 runs: four fifths of rho without any assumption; epsilon above 2.5 where 7.3 is true."""
    found = audit(gaussian(1.0, 1.0), runs=40_000, rng=np.random.default_rng(1))
    assert 0.8 < found.rho <= 1.0
    assert 0.8 < found.gaussian_rho <= 1.0
    assert 2.5 < found.epsilon < 7.3


def test_false_alarms_are_as_rare_as_stated() -> None:
    """150 audits of true claims at confidence 0.9: fewer than 10 % + 4 s.e. refuted; a tight claim, few runs."""
    alarms = sum(
        audit(gaussian(0.5, 0.5), runs=400, rng=np.random.default_rng(seed), confidence=0.9).refuted
        for seed in range(150)
    )
    assert alarms / 150 < 0.1 + 4 * math.sqrt(0.09 / 150)


def test_equal_worlds_lose_nothing() -> None:
    """No difference, no loss: nothing near a claim of one thousandth."""
    found = audit(gaussian(0.0, 1e-3), runs=4000, rng=np.random.default_rng(2))
    assert not found.refuted
    assert found.rho < 1e-3


def test_constant_outputs_lose_nothing() -> None:
    """A mechanism that says always the same is as private as can be."""
    silent = replace(gaussian(1.0, 0.0), run=lambda _secret, runs, _rng: np.ones((runs, 2)))
    found = audit(silent, runs=100, rng=np.random.default_rng(0))
    assert not found.refuted
    assert found.measured == 0.0


def test_leak_without_noise_is_found() -> None:
    """The secret hidden in the last bits of the difference of two noisy features, far below their noise."""

    def run(secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
        noise = rng.standard_normal(runs)
        return np.stack([noise, noise + 1e-5 * secret], axis=-1)

    leaky = replace(gaussian(1.0, 1.0), run=run)
    found = audit(leaky, runs=4000, rng=np.random.default_rng(0))
    assert found.refuted
    assert found.rho > 4


def test_loss_in_the_spread_is_found() -> None:
    """Neighbours with equal means and different variance: a linear score is blind, squares are not."""

    def run(secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
        return (1.0 + 3.0 * secret) * rng.standard_normal((runs, 1))

    assert audit(replace(gaussian(1.0, 0.2), run=run), runs=8000, rng=np.random.default_rng(0)).refuted


def test_more_tests_ask_for_more_evidence() -> None:
    """Familywise confidence: the same runs prove less when a thousand claims are tested together."""
    alone, many = (
        audit(gaussian(1.0, 1.0), runs=4000, rng=np.random.default_rng(3), tests=tests) for tests in (1, 1000)
    )
    assert many.rho < alone.rho
    assert many.gaussian_rho < alone.gaussian_rho


def test_band_of_the_roc_contains_the_true_curve() -> None:
    """Both rates of every point lie within their bounds, which contain the curve of the Gaussian."""
    from scipy.special import ndtr, ndtri

    roc = audit(gaussian(1.0, 1.0), runs=20_000, rng=np.random.default_rng(4)).roc
    assert (roc.level_low <= roc.level).all()
    assert (roc.level <= roc.level_high).all()
    assert (roc.power_low <= ndtr(ndtri(np.clip(roc.level_high, 0, 1 - 1e-12)) + math.sqrt(2))).all()
    assert (roc.power_high >= ndtr(ndtri(np.maximum(roc.level_low, 1e-12)) + math.sqrt(2))).all()


def test_epsilon_claims_are_tested_as_they_are_stated() -> None:
    """A claim in (epsilon, delta) alone is refuted by epsilon; no claim cannot be refuted at all."""
    stated = replace(gaussian(8.0, 1.0), claim=Claim(epsilon=1.0, delta=1e-6))
    assert audit(stated, runs=4000, rng=np.random.default_rng(5)).refuted
    free = replace(stated, claim=Claim())
    assert free.claim.nothing
    assert not audit(free, runs=4000, rng=np.random.default_rng(5)).refuted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 10}, "runs must be a whole number from 40 on, got runs=10"),
        ({"runs": 100, "confidence": 1.0}, r"confidence must be in \(0, 1\), got confidence=1.0"),
    ],
)
def test_refusals_name_rule_and_value(options: dict[str, float], message: str) -> None:
    """Too few runs prove nothing, and nothing is certain."""
    with pytest.raises(ValueError, match=message):
        audit(gaussian(1.0, 1.0), rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]
