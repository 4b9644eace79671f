"""The records of a private fit: from noisy sums over a log to an estimate, without made-up visitors.

A log has no next batch whose information could be predicted: its noisy information is shrunk towards a multiple of the
identity and weighted by how far it stands above its noise. This post-processes public data, so it costs no privacy
(docs/proofs.md, section 2).

Everything has leading batch axes ``...`` (parallel worlds).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.batch_pair import Noisy, Scales
from quietshelf.privacy.release.records import REBUILDS, Estimate, Record
from quietshelf.privacy.statistics import svec_dim

EIGENVALUE_FLOOR = 1e-3


class Trust(NamedTuple):
    """How much a first guess Γ0 is trusted.

    Attributes:
        anchor: Number of visitors that it counts for, over d.
        caution: Multiple of the noise's spectral norm, sH sqrt(2 d), subtracted from what was seen.
    """

    anchor: float
    caution: float


DECLARED, BLIND = Trust(50.0, 2.0), Trust(5.0, 1.0)


def record(noisy: Noisy, *, theta: FloatArray, coordinates: FloatArray, scales: Scales, size: int) -> Record:
    """Shrink the noisy information towards a multiple of the identity, and keep what later estimates need."""
    values, vectors = np.linalg.eigh(shrunk(noisy.information, scale=scales.information, size=size))
    return Record(
        theta=theta,
        coordinates=coordinates,
        score=noisy.score,
        vectors=vectors,
        values=np.maximum(values, EIGENVALUE_FLOOR),
        scales=scales,
        size=size,
        kept=np.ones(noisy.score.shape[:-1]),
        spread=np.ones(noisy.score.shape[:-1]),
        fit=np.zeros((1, *noisy.score.shape[:-1])),
    )


def shrunk(information: FloatArray, *, scale: FloatArray | float, size: int) -> FloatArray:
    """``mu I + a (H - mu I)``: mu is the mean eigenvalue, clipped to its possible range; a the share above noise."""
    dim = information.shape[-1]
    mean = np.clip(np.trace(information, axis1=-2, axis2=-1) / dim, 0.0, size / dim)
    centre = mean[..., None, None] * np.eye(dim)
    excess = information - centre
    squared = (excess**2).sum((-2, -1))
    noise = (svec_dim(dim) - 1) * scale**2
    keep = np.maximum(0.0, 1.0 - noise / np.where(squared > 0, squared, np.inf))
    return np.asarray(centre + keep[..., None, None] * excess)


def rebuild(records: Sequence[Record], prior: Estimate, current: Estimate, *, forgetting: float = 1.0) -> Estimate:
    """The estimate from all records, started at the current one, which sets the weights of the first pass."""
    estimate = current
    for _ in range(REBUILDS):
        estimate = _weighted(records, prior, estimate, forgetting)
    return estimate


def _weighted(records: Sequence[Record], prior: Estimate, current: Estimate, forgetting: float) -> Estimate:
    covariance = np.linalg.inv(current.precision)
    precision = prior.precision
    shift = (prior.precision @ prior.theta[..., None])[..., 0]
    for age, item in enumerate(reversed(records)):
        weight = (
            forgetting**age * item.values / (item.values + signal_noise(item, current.theta, covariance)[..., None])
        )
        frame = item.frame
        precision = precision + (frame * (weight * item.values)[..., None, :]) @ frame.mT
        shift = shift + (frame @ (weight * item.signal)[..., None])[..., 0]
    precision = 0.5 * (precision + precision.mT)
    theta = np.linalg.solve(precision, shift[..., None])[..., 0]
    return Estimate(theta, precision)


def signal_noise(item: Record, theta: FloatArray, covariance: FloatArray) -> FloatArray:
    """s_k²: variance of a record's signal in any direction; the noise of H acts on the distance of theta from it."""
    dim = theta.shape[-1]
    back = np.linalg.inv(item.coordinates).mT  # L^-T
    away = (back @ (theta - item.theta)[..., None])[..., 0]
    distance = (away**2).sum(-1) + np.trace(back @ covariance @ back.mT, axis1=-2, axis2=-1)
    result: FloatArray = item.scales.score**2 + item.scales.information**2 * (dim + 1) / (2 * dim) * distance
    return result


def geometry(records: Sequence[Record], first: FloatArray, *, declared: bool) -> FloatArray:
    """Γ for the next batch: the curvature that the records saw, minus noise, anchored by the first guess, (..., d, d).

    Args:
        records: All releases so far.
        first: Γ0.
        declared: Whether Γ0 was declared, and so is trusted longer, or is the blind guess I/d.
    """
    dim, (anchor, caution) = first.shape[-1], DECLARED if declared else BLIND
    total = anchor * dim * first
    for item in records:
        above = np.maximum(
            item.values - caution * np.sqrt(2 * dim) * np.asarray(item.scales.information)[..., None], 0.0
        )
        frame = item.frame
        total = total + (frame * above[..., None, :]) @ frame.mT
    result: FloatArray = total / (sum(item.size for item in records) + anchor * dim)
    return result


def drowned(item: Record) -> FloatArray:
    """In how many directions a record's information cannot be told from noise, (...).

    The noise level is the variance sg² of the score or sH sqrt(2 d), that of the information, whichever is larger.
    """
    own = np.asarray(item.scales.information) * np.sqrt(2 * item.values.shape[-1])
    level = np.maximum(item.scales.score**2, own)
    result: FloatArray = (item.values < level[..., None]).sum(-1)
    return result
