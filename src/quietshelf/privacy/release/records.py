"""From noisy batch sums to an estimate: post-processing of what is already public.

Every release leaves a record: where it was evaluated (theta, L), the noisy score, and an estimate of the information in
the batch: the expected information, corrected by the noisy sum as far as that stands above its noise. The estimate of
theta is rebuilt from all records, each weighted by how far its information stands above the noise of its score and
above its own uncertainty. No raw data enter, so nothing here costs privacy (docs/proofs.md, section 2).

Everything has leading batch axes ``...`` (parallel worlds).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, IntArray
from quietshelf.privacy.release.arm_sales import ArmSums
from quietshelf.privacy.release.batch_pair import Noisy, Scales
from quietshelf.privacy.release.prior import Prior
from quietshelf.privacy.release.strength import STRENGTHS, Strengths
from quietshelf.privacy.statistics import svec_dim

EIGENVALUE_FLOOR = 1e-6
"""The least information of a record in any direction, per visitor."""
REBUILDS = 2
"""Passes per rebuild of the estimate: the weights depend on it, and settle after two."""
SCALE_DOUBT = 1.0
"""Standard deviation of the factor by which information may differ from the expectation."""
SHAPE_DOUBT = 0.2
"""Relative error of the expectation."""
FIT_DOUBT = 0.3
"""The same when factors are compared: none of them gives the true law."""
FACTOR_DOUBT = 1.0
"""Standard deviation of the logarithm of the factor by which declared scales are wrong."""
NEAR = 0.5
"""Changes of utilities up to this hardly alter a curvature; each 1 beyond divides the weight of a record by e."""
STEP = 1.5
"""The most by which a release may move utilities (root mean square): further out the curvature says little."""


class _Fields(NamedTuple):
    theta: FloatArray
    coordinates: FloatArray
    score: FloatArray
    vectors: FloatArray
    values: FloatArray
    scales: Scales
    size: int
    kept: FloatArray
    spread: FloatArray
    fit: FloatArray
    arms: ArmSums | None = None


class Record(_Fields):
    """What one release leaves behind, in the coordinates of its batch.

    Attributes:
        theta: Where the contributions were evaluated, raw coordinates, (..., d).
        coordinates: L, (..., d, d).
        score: The noisy score sum, (..., d).
        vectors: Q, eigenvectors of the information, (..., d, d).
        values: v, its eigenvalues, (..., d), floored.
        scales: Standard deviations of the noise, and the bound.
        size: Visitors in the batch.
        kept: Share of the noisy correction to the expectation that was kept as information, (...).
        spread: Variance of the score relative to its information, (...).
        fit: Log-likelihood of the noisy sum under each factor, (F, ...).
        arms: What the two arms sold; None without a comparison.
    """

    @cached_property
    def frame(self) -> FloatArray:
        """``L^-1 Q``, (..., d, d): the record's eigenvectors in raw coordinates."""
        return np.linalg.solve(self.coordinates, self.vectors)

    @property
    def signal(self) -> FloatArray:
        """``Q' (H theta' - g)``, (..., d): what a Newton step from theta would solve for, along the eigenvectors."""
        score = (self.vectors.mT @ self.score[..., None])[..., 0]
        return np.asarray(self.values * self.primed(self.theta) - score)

    def primed(self, theta: FloatArray) -> FloatArray:
        """``Q' L^-T theta``, (..., d): tastes in the batch's coordinates, along the eigenvectors."""
        return (self.frame.mT @ theta[..., None])[..., 0]


class Evidence(NamedTuple):
    """What records say about theta: precision (..., d, d), and precision times theta, (..., d)."""

    precision: FloatArray
    shift: FloatArray


class Estimate(NamedTuple):
    """Tastes and how well they are known: theta (..., d), precision A (..., d, d)."""

    theta: FloatArray
    precision: FloatArray


def blended(information: FloatArray, expected: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``a T + k (H - a T)``: the expected sum T, scaled by a, corrected by the noisy sum H; and k.

    The scale a combines its prior, 1 with standard deviation SCALE_DOUBT, with what H says about it; k is the share of
    the remainder that is not noise of standard deviation ``scale``.
    """
    along = (information * expected).sum((-1, -2))  # H says a = along / |T|², with variance scale² / |T|²
    amount = (scale**2 + SCALE_DOUBT**2 * along) / (scale**2 + SCALE_DOUBT**2 * _squared(expected))
    centre = np.maximum(amount, 0.02)[..., None, None] * expected
    excess = information - centre
    noise = (svec_dim(expected.shape[-1]) - 1) * scale**2
    kept = np.maximum(0.0, 1.0 - _ratio(noise, _squared(excess)))
    return centre + kept[..., None, None] * excess, kept


def fits(information: FloatArray, expected: FloatArray, scale: FloatArray) -> FloatArray:
    """Log-likelihood of the noisy sum under the sums expected of each factor, (F, ..., d, d) -> (F, ...)."""
    count = svec_dim(expected.shape[-1])
    variance = scale**2 + FIT_DOUBT**2 * _squared(expected) / count
    return -0.5 * _squared(information - expected) / variance - 0.5 * count * np.log(variance)


def believed(records: Sequence[Record], factors: FloatArray) -> IntArray:
    """The index of the factor that fits all records best, (...)."""
    doubt = -0.5 * (np.log(factors) / FACTOR_DOUBT) ** 2
    told = [record.fit for record in records if len(record.fit) == len(factors)]
    lead = told[0].shape[1:] if told else ()
    total = sum(told, np.zeros((len(factors), *lead))) + doubt.reshape(-1, *(1,) * len(lead))
    return np.asarray(total.argmax(axis=0))


def record(noisy: Noisy, *, theta: FloatArray, coordinates: FloatArray, scales: Scales, size: int,
           expected: FloatArray, place: IntArray, spread: FloatArray) -> Record:  # fmt: skip
    """Keep what later estimates need; ``place`` is the index of the factor believed so far."""
    sums = size * expected
    own = sums[0] if len(sums) == 1 else np.take_along_axis(sums, place[None, ..., None, None], axis=0)[0]
    level = np.asarray(scales.information)
    information, kept = blended(noisy.information, own, level)
    values, vectors = np.linalg.eigh(information)
    return Record(
        theta=theta,
        coordinates=coordinates,
        score=noisy.score,
        vectors=vectors,
        values=np.maximum(values, EIGENVALUE_FLOOR * size),
        scales=scales,
        size=size,
        kept=kept,
        spread=spread,
        fit=fits(noisy.information, sums, level) if len(sums) > 1 else np.zeros((1, *kept.shape)),
    )


def rebuild(
    records: Sequence[Record],
    prior: Prior,
    second: FloatArray,
    current: Estimate,
    *,
    forgetting: float = 1.0,
    strengths: FloatArray = STRENGTHS,
) -> Estimate:
    """The estimate from all records, started at the current one, which sets the weights of the first pass.

    Args:
        records: All releases so far.
        prior: The prior.
        second: Second moment of x, (..., d, d): how a change of theta moves utilities.
        current: The estimate before the last record.
        forgetting: Factor by which each release reduces the weight of older records.
        strengths: Variances of utilities to choose from; only 1 if the prior was given.
    """
    estimate, beliefs = current, Strengths.of(prior, strengths)
    for _ in range(REBUILDS):
        estimate = Estimate(*beliefs.strongest(*evidence(records, second, estimate, forgetting)))
    start = records[-1].theta
    far = _root_mean_square(estimate.theta - start, second)
    step = np.minimum(1.0, _ratio(np.asarray(STEP), far, otherwise=1.0))
    return Estimate(start + step[..., None] * (estimate.theta - start), estimate.precision)


def evidence(records: Sequence[Record], second: FloatArray, current: Estimate, forgetting: float) -> Evidence:
    """Combine all records, each direction weighted by ``v / (spread v + s²)``."""
    covariance = np.linalg.inv(current.precision)
    precision, shift = np.zeros_like(current.precision), np.zeros_like(current.theta)
    last = records[-1].theta
    for age, item in enumerate(reversed(records)):
        away = _root_mean_square(last - item.theta, second)
        counts = forgetting**age * np.exp(-np.maximum(away - NEAR, 0.0))
        noise = signal_noise(item, current.theta, covariance)
        weight = counts[..., None] * item.values / (item.spread[..., None] * item.values + noise)
        rooted = item.frame * np.sqrt(weight * item.values)[..., None, :]
        precision = precision + rooted @ rooted.mT
        shift = shift + (item.frame @ (weight * item.signal)[..., None])[..., 0]
    return Evidence(0.5 * (precision + precision.mT), shift)


def signal_noise(item: Record, theta: FloatArray, covariance: FloatArray) -> FloatArray:
    """s²: variance of a record's signal in each of its directions, apart from that of the choices, (..., d).

    It has the noise of the score, and errors of H, which act on the distance of theta from where the record was
    evaluated: errors of the expectation, proportional to it, and of the noisy correction, equal in all directions.
    """
    dim = theta.shape[-1]
    distance = item.primed(theta - item.theta) ** 2 + (item.frame * (covariance @ item.frame)).sum(-2)
    kept = item.kept[..., None]
    felt = (item.values * distance).sum(-1, keepdims=True)
    expected = (SHAPE_DOUBT * (1.0 - kept)) ** 2 * item.values * felt
    heard = (kept * np.asarray(item.scales.information)[..., None]) ** 2 * (dim + 1) / (2 * dim)
    result: FloatArray = item.scales.score**2 + expected + heard * distance.sum(-1, keepdims=True)
    return result


def drowned(item: Record) -> FloatArray:
    """In how many directions a record's information is below the noise of its score, (...)."""
    result: FloatArray = (item.values < item.scales.score**2).sum(-1)
    return result


def _root_mean_square(change: FloatArray, second: FloatArray) -> FloatArray:
    """Root mean square of the change of utilities that a change of theta makes, (...)."""
    return np.asarray(np.sqrt(np.maximum((change * (second @ change[..., None])[..., 0]).sum(-1), 0.0)))


def _squared(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix**2).sum((-1, -2)))


def _ratio(above: FloatArray, below: FloatArray, otherwise: float = np.inf) -> FloatArray:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), otherwise)
