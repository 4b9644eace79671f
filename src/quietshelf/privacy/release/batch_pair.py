"""The release of `quiet`: the sums of scores and informations of one batch, once, with Gaussian noise.

Releases: ``sum of -w phi_chosen + N(0, sg² I)`` and ``sum of w J + symmetric noise`` over one full batch: sums of the
    bounded pairs of `statistics.pair`, in coordinates and with a bound B that were public when the batch opened. A
    batch that is not full is never released.
Neighbours: one visitor of the batch replaced. Batches are disjoint: no one is in two, except within the ``visits`` cap.
Sensitivity: sqrt(2) in units u = (score/(sqrt(2) C), svec(information)/B), both together, rounding included.
Noise: the same in every coordinate of u, s = sqrt(2) / sqrt(2 rho). So sg = sqrt(2) C s for the score; sH = B s for the
    information, round in svec coordinates: standard deviation sH on the diagonal, sH/sqrt(2) off it. Where noise is
    discrete, it is on the grid of the statistic: that of scores, and q² for the information (`statistics.factors`).
Privacy: rho-zCDP for the batch, one entry in the ledger. All batches together: rho for a person counted once, visits
    times that for a person counted ``visits`` times; no horizon.
Assumes: theta, coordinates, bound, size and noise scales frozen when the batch opened; each batch released once.
Reference: docs/proofs.md, sections 3 to 6.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, positive, require
from quietshelf.privacy.accounting import Event, noise_for
from quietshelf.privacy.release.noise import NoiseSource, entry
from quietshelf.privacy.statistics import (
    SCORE_BOUND,
    SENSITIVITY,
    Grids,
    Total,
    from_upper,
    interleaved,
    row_grid,
    svec_dim,
    svec_weights,
    valid_bound,
)

BOUND = 1.0
"""B if nothing else is known: about the size of one visitor's information in coordinates in which Γ0 is I/d."""
WIDER, NARROWER = 1 + 2.0**-49, 1 - 2.0**-51
"""Room for rounding: scales are wider than asked, and charged, by a smaller margin, as narrower than they are."""
FEWEST_STEPS = 2.0**16.5
"""Times 1/sqrt(rho): the least number of grid steps in each scale, in every batch (docs/proofs.md, section 5)."""


class Scales(NamedTuple):
    """Standard deviations of the noise: sg of the score and sH of the information; and the bound B they are made for.

    In parallel worlds sH and B may be arrays, one number per world.
    """

    score: float
    information: FloatArray | float
    bound: FloatArray | float


class Noisy(NamedTuple):
    """What is released: the noisy score sum (..., d) and information sum (..., d, d)."""

    score: FloatArray
    information: FloatArray


def scales(*, rho: float, bound: FloatArray | float) -> Scales:
    """The noise that makes the release of one batch cost rho.

    >>> [round(scale, 4) for scale in scales(rho=1.0, bound=0.5)]
    [1.4142, 0.5, 0.5]
    """
    unit = noise_for(SENSITIVITY, positive("rho", rho)) * WIDER
    information = valid_bound(bound) * unit
    return Scales(math.sqrt(2.0) * SCORE_BOUND * unit, information if information.ndim else float(information), bound)


def unit_scale(scales: Scales) -> float:
    """The noise in units u, for the part and the world with the least noise; never rounded upwards."""
    information = float(np.min(scales.information / valid_bound(scales.bound)))
    return min(scales.score / (math.sqrt(2.0) * SCORE_BOUND), information) * NARROWER


def most_visitors(grid: float) -> int | None:
    """How many scores on ``grid`` sum exactly, as the sensitivity assumes; None without a grid."""
    return int(2.0**53 * grid / SCORE_BOUND) if grid else None


def grids(scales: Scales, size: int, grid: float) -> Grids:
    """The grids of a batch of ``size`` visitors with scores on ``grid``; no grids if that is 0."""
    most = most_visitors(grid)
    if most is None:
        return Grids(0.0, 0.0)
    require(size <= most, f"visitors must be at most {most:,} to sum exactly", visitors=size)
    return Grids(grid, row_grid(scales.bound, scales.information, size))


def release(total: Total, *, scales: Scales, size: int, source: NoiseSource) -> Noisy:
    """Release the noisy sums of one full batch; enter ``events`` in the ledger first. Draws the noise, once.

    Args:
        total: Sums of contributions over the batch, each rounded to ``grids`` before summing.
        scales: Noise, as frozen when the batch opened.
        size: Number of visitors in the batch.
        source: The source of the noise.
    """
    score = total.score + source.draw(scales.score, total.score.shape)
    information = total.information + _information_noise(scales, size, total.score.shape, source)
    return Noisy(score, from_upper(information, total.score.shape[-1]))


def _information_noise(scales: Scales, size: int, shape: tuple[int, ...], source: NoiseSource) -> FloatArray:
    """Noise for the upper triangle, (..., d (d + 1) / 2); ``shape`` (..., d) is that of the score."""
    *lead, dim = shape
    scale = np.asarray(scales.information)
    if source.grid == 0:
        drawn = source.draw(1.0 if scale.size > 1 else scale.item(), (*lead, svec_dim(dim))) / svec_weights(dim)
        return np.asarray(scale[..., None] * drawn) if scale.size > 1 else drawn
    require(scale.size == 1, "noise on a grid must have one scale: exact integers cannot be stretched")
    fine = np.asarray(grids(scales, size, source.grid).rows).item()
    unit = fine**2 / source.grid  # a power of two, so no bit is lost
    on, off = scale.item() / unit, scale.item() * math.sqrt(0.5) * WIDER / unit
    return np.asarray(unit * interleaved(source.draw(on, shape), source.draw(off, (*lead, svec_dim(dim) - dim))))


def events(*, batch: int, scales: Scales, source: NoiseSource) -> tuple[Event]:
    """The cost of releasing a batch, known before the noise is drawn, so that a ledger can refuse in time."""
    return (entry(source, "pair", sensitivity=SENSITIVITY, scale=unit_scale(scales), batch=batch),)
