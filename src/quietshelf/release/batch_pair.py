"""The release of `quiet`: one batch's score and information sums, once, with Gaussian noise.

Releases: ``sum of w g + N(0, sg² I)`` and ``sum of w H + symmetric noise`` over one full batch: sums of the bounded
    pairs of `statistics.pair`, in coordinates that were public when the batch opened. A batch that is not full is never
    released.
Neighbours: one visitor of the batch replaced. Batches are disjoint: nobody is in two, except by the ``visits`` cap.
Sensitivity: 2 C for the score; sqrt(2) B (+ rounding to the grid) for the information, in Frobenius norm.
Noise: sg = 2 C / sqrt(2 share rho) in every coordinate; sH = (sqrt(2) B + ...) / sqrt(2 (1 - share) rho), round in svec
    coordinates (variance sH² on the diagonal, sH²/2 off it).
Privacy: rho-zCDP for the batch: share of it for the score, the rest for the information. All batches together: rho for
    a person counted once, visits times that for a person counted ``visits`` times; no horizon.
Assumes: theta, coordinates, size and noise scales frozen when the batch opened; each batch released once.
Reference: docs/proofs.md, sections 3 to 6.
"""

from __future__ import annotations

from typing import NamedTuple

from quietshelf.accounting import Event, noise_for
from quietshelf.release.noise import NoiseSource, entry
from quietshelf.statistics import Total, from_svec, information_sensitivity, score_sensitivity
from quietshelf.types import FloatArray, positive, require

SHARE = 0.8
"""Share of rho that goes to the score; the information has the rest."""


class Scales(NamedTuple):
    """Standard deviations of the noise: of the score, sg, and of the information, sH."""

    score: float
    information: float


class Noisy(NamedTuple):
    """What leaves: the noisy score sum (..., d) and information sum (..., d, d)."""

    score: FloatArray
    information: FloatArray


def scales(*, rho: float, dim: int, grid: float = 0.0, share: float = SHARE) -> Scales:
    """The noise that makes the release of one batch cost rho.

    >>> [round(scale, 4) for scale in scales(rho=1.0, dim=5)]
    [1.5811, 2.2361]
    """
    positive("rho", rho)
    require(0 < share < 1, "share must be between 0 and 1", share=share)
    return Scales(
        noise_for(score_sensitivity(), share * rho),
        noise_for(information_sensitivity(dim, grid), (1 - share) * rho),
    )


def release(total: Total, *, scales: Scales, source: NoiseSource) -> Noisy:
    """The noisy sums of one full batch; enter ``events`` in the ledger first. The noise is drawn here, once.

    Args:
        total: Sums of contributions over the batch, rounded to ``source.grid`` one by one before summing.
        scales: Noise, as frozen when the batch opened.
        source: Where the noise comes from.
    """
    score = total.score + source.draw(scales.score, total.score.shape)
    information = total.information + source.draw(scales.information, total.information.shape)
    return Noisy(score, from_svec(information, total.score.shape[-1]))


def events(dim: int, *, batch: int, scales: Scales, source: NoiseSource) -> tuple[Event, Event]:
    """What releasing a batch costs: known before the noise is drawn, so that a ledger can refuse in time."""
    information = information_sensitivity(dim, source.grid)
    return (
        entry(source, "score", sensitivity=score_sensitivity(), scale=scales.score, batch=batch),
        entry(source, "information", sensitivity=information, scale=scales.information, batch=batch),
    )
