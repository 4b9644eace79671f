"""What made-up visitors, who have chosen nothing, would contribute. No proof depends on this: no visitor is real."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.choice.likelihood import utilities
from quietshelf.model.types import BoolArray, FloatArray
from quietshelf.privacy.statistics.pair import MARGIN, Centred, bounded, centred
from quietshelf.privacy.statistics.rows import ObservedChoice


def expected_squares(
    shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean square of each visitor's score over their possible choices, and the trace of their information, (...) each.

    For made-up visitors, who have chosen nothing. An empty place is as far from the centre as no choice, and never
    chosen.
    """
    lead = shown.rows.shape[:-2]
    known, around = _nobodys(shown, theta, coordinates)
    square = (around.chance * around.cut**2 * around.square).sum(axis=0) - (around.rest**2).sum(axis=0)
    scale, information, finite = bounded(around, np.broadcast_to(bound, lead).reshape(-1))
    sums = np.stack([scale**2 * square, np.einsum("ddn->n", information)])
    score, trace = np.where(known & finite & np.isfinite(sums).all(axis=0), sums, 0.0).reshape(2, *lead)
    return score, trace


class Expected(NamedTuple):
    """What made-up visitors would contribute.

    Attributes:
        information: Mean information over the visitors, (..., d, d).
        size: |w J|_F of each visitor, (..., m).
        square: Mean square of each visitor's score, (..., m).
        trace: Trace of each visitor's information, (..., m).
    """

    information: FloatArray
    size: FloatArray
    square: FloatArray
    trace: FloatArray


def expected_pair(
    shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: FloatArray | float
) -> Expected:
    """`contribution` and `expected_squares` up to rounding, for many dimensions: makes no matrix per visitor.

    For made-up visitors (..., m) only: no proof depends on it.
    """
    lead, dim = shown.rows.shape[:-2], shown.rows.shape[-1]
    known, around = _nobodys(shown, theta, coordinates)
    rest = np.einsum("dn,dn->n", around.rest, around.rest)
    shrink = 1.0 / (1.0 + np.sqrt(rest))
    along = np.einsum("kdn,dn->kn", around.away, around.rest)
    reach = (around.cut * (around.cut * around.square - 2.0 * along)).max(axis=0) + rest
    factors = around.away * np.sqrt(around.chance * around.cut * shrink)[:, None]
    products = np.einsum("jdn,kdn->jkn", factors, factors)  # J is a sum of K + 1 outer products: these give its size
    large = (products**2).sum(axis=(0, 1))
    joint = shrink * shrink * reach + large / np.broadcast_to(bound, lead).reshape(-1) ** 2
    counts = known & np.isfinite(joint)
    weight = np.where(counts, np.minimum(1.0, MARGIN / np.sqrt(np.maximum(joint, 1e-300))), 0.0)
    square = (around.chance * around.cut**2 * around.square).sum(axis=0) - rest
    numbers = np.stack(
        [weight * np.sqrt(large), (weight * shrink) ** 2 * square, weight * np.einsum("kkn->n", products)]
    )
    size, score, trace = np.where(counts, numbers, 0.0).reshape(3, *lead)
    flat = np.moveaxis(np.where(counts, factors, 0.0) * np.sqrt(weight), -1, 0).reshape(*lead[:-1], -1, dim)
    return Expected(flat.mT @ flat / lead[-1], size, score, trace)


def _nobodys(shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray) -> tuple[BoolArray, Centred]:
    """Where utilities of made-up visitors are finite, (n,), and the rows around their centres."""
    places, dim = shown.rows.shape[-2:]
    found = utilities(shown.rows, theta)
    known = np.where(shown.offered, np.isfinite(found), True).all(axis=-1).reshape(-1)
    utility = np.where(shown.offered, found, -np.inf).reshape(-1, places)
    rows = np.where(shown.offered[..., None], shown.rows @ coordinates.mT, 0.0)
    return known, centred(np.ascontiguousarray(utility.T), rows.reshape(-1, places, dim))
