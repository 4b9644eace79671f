"""The bounded pair of `quiet`: one visitor's score and information at a released theta, with bounded influence.

Contribution: ``(-w phi_chosen, w J)`` in public coordinates z_j = L x_j, over the items shown and none (z_0 = 0), with
    p_j the probabilities at theta, C = 1 and a public bound B > 0:
    psi_j = (z_j - m) h_j, h_j = min(1, C/|z_j - m|), around a centre m that nearly solves r = sum_j p_j psi_j = 0;
    phi_j = s (psi_j - r), s = C/(C + |r|), so that sum_j p_j phi_j = 0 and |phi_j| <= C whatever m is;
    J = s sum_j p_j h_j (z_j - m)(z_j - m)'; a = max over every possible choice of |phi_j|, b = |J|_F;
    w = min(1, 1/sqrt(a²/C² + b²/B²)).
    Nothing but phi_chosen looks at what was chosen, so the score keeps mean zero at the true theta. Where any of this
    is not finite the contribution is exactly zero.
Neighbours: one visitor replaced, features, offer and choice alike; theta, L and B fixed.
Sensitivity: in units u = (score/(sqrt(2) C), svec(information)/B) sqrt(2), attained, whatever the features are. Rounded
    towards zero to a grid: sqrt(2) + 2 grid sqrt(d(d+1)/2)/B.
Assumes: nothing about the features. A relative margin of 1e-11 in w covers the rounding of w, phi and J themselves.
Reference: docs/proofs.md, sections 4 and 5.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import numpy as np

from quietshelf.choice.likelihood import shares, utilities
from quietshelf.statistics.rows import Shown
from quietshelf.statistics.symmetric import svec, svec_dim
from quietshelf.types import NOTHING, BoolArray, FloatArray, IntArray, require

SCORE_BOUND = 1.0
"""C: no score is longer. It is fixed: the scale of L plays its part."""
SMALLEST_BOUND, LARGEST_BOUND = 1e-6, 1e6
"""Of B: far beyond these the squares below would leave the range in which rounding is relative."""
STEPS = 3
"""Fixed-point steps towards the centre m. Their number is public; the bounds hold wherever m ends."""
MARGIN = 1.0 - 1e-11
ROUNDING_ROOM = 8900
"""The margin covers all rounding while 7 K + d is at most this (docs/proofs.md, section 4)."""
NUMBERS, TOGETHER = 160_000, 2048
"""Numbers, and visitors, worked on at once at most: what they need then stays in the cache."""


class Pair(NamedTuple):
    """One visitor's contribution.

    Attributes:
        score: ``-w phi_chosen``, (..., d): like a gradient of the loss (minus the log-likelihood), in coordinates z.
        information: ``w J``, (..., d, d), how its mean changes with theta, in the same coordinates.
    """

    score: FloatArray
    information: FloatArray


class Total(NamedTuple):
    """A sum of contributions: score (..., d), and information in svec coordinates, (..., d (d + 1) / 2)."""

    score: FloatArray
    information: FloatArray

    def __add__(self, other: Total) -> Total:  # type: ignore[override]  # a sum of sums, not of tuples
        return Total(self.score + other.score, self.information + other.information)


def pair_sensitivity(dim: int, bound: FloatArray | float, grid: float = 0.0) -> float:
    """The most that replacing one visitor moves the sums, in units u, after rounding to ``grid``; the worst of bounds.

    >>> pair_sensitivity(5, 1.0) == math.sqrt(2.0)
    True
    """
    return math.sqrt(2.0) + 2.0 * grid * math.sqrt(svec_dim(dim)) / float(np.min(valid_bound(bound)))


def valid_bound(bound: FloatArray | float) -> FloatArray:
    """B as an array, if it is one that the proof covers."""
    values = np.asarray(bound, dtype=np.float64)
    good = bool(((values >= SMALLEST_BOUND) & (values <= LARGEST_BOUND)).all())  # not so if one is NaN
    require(good, f"bound must be between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}", bound=bound)
    return values


def contribution(
    shown: Shown,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: FloatArray | float,
    counts: BoolArray | None = None,
) -> Pair:
    """The bounded pair of each visitor; zero for those who do not count.

    A visitor's pair has the same bits alone and beside others, with empty places and without: empty places are left
    out first, and every product is one of a visitor's own, of a shape that depends on nobody else.

    Args:
        shown: Rows (..., K, d), which places are offered, and the chosen place.
        theta: Released tastes (..., d), in raw coordinates.
        coordinates: L, (..., d, d), public.
        bound: B, (...), public: frozen when the batch opened.
        counts: Visitors who may contribute, (...); None means all.
    """
    theta, coordinates = np.ascontiguousarray(theta), np.ascontiguousarray(coordinates)
    limit = np.broadcast_to(valid_bound(bound), shown.position.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        full = shown.offered.shape[-1] > 0 and bool(shown.offered.all())
        pair = (_full if full else _with_gaps)(shown, theta, coordinates, limit)
    if counts is not None and not counts.all():
        pair.score[~counts] = pair.information[~counts] = 0.0
    return pair


def _with_gaps(shown: Shown, theta: FloatArray, coordinates: FloatArray, bound: FloatArray) -> Pair:
    """The pairs of visitors some of whose places are empty: together those who were offered equally many items."""
    lead, dim = shown.position.shape, shown.rows.shape[-1]
    pair = Pair(np.zeros((*lead, dim)), np.zeros((*lead, dim, dim)))
    if theta.ndim > 1 or coordinates.ndim > 2:
        theta, coordinates = np.broadcast_to(theta, (*lead, dim)), np.broadcast_to(coordinates, (*lead, dim, dim))
    count = np.count_nonzero(shown.offered, axis=-1)
    for places in np.unique(count[count > 0]).tolist():  # where nothing was offered, nothing is learned
        some = count == places
        offered, position = shown.offered[some], shown.position[some]
        rows = shown.rows[some][offered].reshape(-1, places, dim)
        chosen = offered & (np.arange(offered.shape[-1]) == position[:, None])
        place = np.where(chosen, np.cumsum(offered, axis=-1), 0).max(axis=-1) - 1
        part = Shown(rows, np.ones((len(rows), places), np.bool_), place)
        mine, frame = (theta, coordinates) if theta.ndim == 1 else (theta[some], coordinates[some])
        pair.score[some], pair.information[some] = _full(part, mine, frame, bound[some])
    return pair


def _full(shown: Shown, theta: FloatArray, coordinates: FloatArray, bound: FloatArray) -> Pair:
    """The pairs of visitors all of whose places hold an item."""
    lead, (places, dim) = shown.rows.shape[:-2], shown.rows.shape[-2:]
    utility = utilities(shown.rows, theta).reshape(-1, places)
    rows = (shown.rows @ np.swapaxes(coordinates, -1, -2)).reshape(-1, places, dim)
    position, limit = np.maximum(shown.position, NOTHING).reshape(-1), bound.reshape(-1)
    together = max(2, min(TOGETHER, NUMBERS // ((places + 1 + dim) * dim)))
    parts = [
        _weighted(utility[part], rows[part], position[part], limit[part])
        for part in (slice(begin, begin + together) for begin in range(0, max(len(rows), 1), together))
    ]
    score, information = (np.concatenate(both) if len(parts) > 1 else both[0] for both in zip(*parts, strict=True))
    return Pair(score.reshape(*lead, dim), information.reshape(*lead, dim, dim))


def _weighted(utility: FloatArray, rows: FloatArray, position: IntArray, bound: FloatArray) -> Pair:
    """The pairs of n visitors: utilities (n, K), rows z (n, K, d), place chosen (n,), B (n,).

    Everything is made from the centred rows z_j - m, the squares of which are summed last: the information is then
    positive semidefinite in floating point too, and nothing cancels when features share a large offset. The
    sensitivity rests on this. Visitors run along contiguous numbers, for speed; two at least, so that sums are taken in
    the same order however many there are.
    """
    if len(rows) == 1:
        twice = np.zeros(2, dtype=np.int64)
        pair = _weighted(utility[twice], rows[twice], position[twice], bound[twice])
        return Pair(pair.score[:1], pair.information[:1])
    utility = np.ascontiguousarray(utility.T)
    around = _centred(utility, rows)
    everyone = np.arange(len(rows))
    score = around.cut[position, everyone] * around.away[position, :, everyone].T - around.rest  # NOTHING is the last
    scale, information, known = _bounded(around, bound)
    score *= -scale
    unbounded = np.flatnonzero(~(known & np.isfinite(utility).all(axis=0)))
    score[:, unbounded] = information[:, :, unbounded] = 0.0
    flat = information.reshape(-1 if len(rows) else 0, len(rows))
    return Pair(np.ascontiguousarray(score.T), np.ascontiguousarray(flat.T))


class _Centred(NamedTuple):
    """What surrounds the centre m of each visitor, the K items first and none last.

    Attributes:
        chance: p_j, (K + 1, n).
        away: z_j - m, (K + 1, d, n).
        square: Their squared lengths, (K + 1, n).
        cut: h_j = min(1, C/|z_j - m|), (K + 1, n).
        rest: r = sum of p_j h_j (z_j - m), (d, n): zero if m were solved for.
    """

    chance: FloatArray
    away: FloatArray
    square: FloatArray
    cut: FloatArray
    rest: FloatArray


def _centred(utility: FloatArray, rows: FloatArray) -> _Centred:
    """From the mean of z on, each step moves m to the mean weighted by p_j h_j: by r / sum of p_j h_j.

    Utilities are (K, n), rows (n, K, d).
    """
    count, places, dim = rows.shape
    share = shares(utility, axis=0)
    chance = np.concatenate([share.items, share.none[None]])
    away = np.zeros((places + 1, dim, count))
    away[:-1] = np.moveaxis(rows, 0, -1)
    away -= np.einsum("kn,kdn->dn", chance, away)
    for step in range(STEPS + 1):
        square = np.einsum("kdn,kdn->kn", away, away)
        cut = SCORE_BOUND / np.sqrt(np.maximum(square, SCORE_BOUND**2))
        pull = chance * cut
        rest = np.einsum("kn,kdn->dn", pull, away)
        if step < STEPS:
            away -= rest / pull.sum(axis=0)
    return _Centred(chance, away, square, cut, rest)


def _bounded(around: _Centred, bound: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """``w s`` (n,), ``w J`` (d, d, n), and where both are finite, (n,); uses up ``around.away``."""
    away, rest = around.away, around.rest  # C = 1 from here on
    size = np.einsum("dn,dn->n", rest, rest)
    shrink = 1.0 / (1.0 + np.sqrt(size))
    along = np.einsum("kdn,dn->kn", away, rest)
    reach = (around.cut * (around.cut * around.square - 2.0 * along)).max(axis=0) + size  # of psi_j - r, squared
    away *= np.sqrt(around.chance * around.cut * shrink)[:, None]
    information = _outer(away)
    large = np.einsum("den,den->dn", information, information).sum(axis=0)  # row by row: errors grow with d, not d²
    joint = shrink * shrink * reach + large / (bound * bound)
    weight = np.minimum(1.0, MARGIN / np.sqrt(np.maximum(joint, 1e-300)))
    information *= weight
    return weight * shrink, information, np.isfinite(joint)


def expected_squares(
    shown: Shown, theta: FloatArray, coordinates: FloatArray, bound: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean square of each visitor's score over what they may choose, and the trace of their information, (...) each.

    Of made-up visitors, who have chosen nothing. An empty place is as far from the centre as none, and never chosen.
    """
    lead = shown.rows.shape[:-2]
    known, around = _nobodys(shown, theta, coordinates)
    square = (around.chance * around.cut**2 * around.square).sum(axis=0) - (around.rest**2).sum(axis=0)
    scale, information, bounded = _bounded(around, np.broadcast_to(bound, lead).reshape(-1))
    sums = np.stack([scale**2 * square, np.einsum("ddn->n", information)])
    score, trace = np.where(known & bounded & np.isfinite(sums).all(axis=0), sums, 0.0).reshape(2, *lead)
    return score, trace


class Expected(NamedTuple):
    """What made-up visitors would contribute.

    Attributes:
        information: Its mean over the visitors, (..., d, d).
        size: |w J|_F of each, (..., m).
        square: Mean square of the score of each, (..., m).
        trace: Of the information of each, (..., m).
    """

    information: FloatArray
    size: FloatArray
    square: FloatArray
    trace: FloatArray


def expected_pair(shown: Shown, theta: FloatArray, coordinates: FloatArray, bound: FloatArray | float) -> Expected:
    """For many dimensions: what `contribution` and `expected_squares` say but for rounding, without a matrix of each.

    For made-up visitors (..., m) alone: nothing that is proven rests on it.
    """
    lead, dim = shown.rows.shape[:-2], shown.rows.shape[-1]
    known, around = _nobodys(shown, theta, coordinates)
    rest = np.einsum("dn,dn->n", around.rest, around.rest)
    shrink = 1.0 / (1.0 + np.sqrt(rest))
    along = np.einsum("kdn,dn->kn", around.away, around.rest)
    reach = (around.cut * (around.cut * around.square - 2.0 * along)).max(axis=0) + rest
    factors = around.away * np.sqrt(around.chance * around.cut * shrink)[:, None]
    products = np.einsum("jdn,kdn->jkn", factors, factors)  # J is a sum of K + 1 squares: these say all of its size
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
    return Expected(np.swapaxes(flat, -1, -2) @ flat / lead[-1], size, score, trace)


def _nobodys(shown: Shown, theta: FloatArray, coordinates: FloatArray) -> tuple[BoolArray, _Centred]:
    """Where utilities of made-up visitors are finite, (n,), and what surrounds their centres."""
    places, dim = shown.rows.shape[-2:]
    found = utilities(shown.rows, theta)
    known = np.where(shown.offered, np.isfinite(found), True).all(axis=-1).reshape(-1)
    utility = np.where(shown.offered, found, -np.inf).reshape(-1, places)
    rows = np.where(shown.offered[..., None], shown.rows @ np.swapaxes(coordinates, -1, -2), 0.0)
    return known, _centred(np.ascontiguousarray(utility.T), rows.reshape(-1, places, dim))


def _outer(rows: FloatArray) -> FloatArray:
    """Sums of outer products: (K, d, n) -> (d, d, n), symmetric to the last bit."""
    _, dim, count = rows.shape
    sums = np.empty((dim, dim, count))
    for place in range(dim):
        sums[place, place:] = np.einsum("kn,ken->en", rows[:, place], rows[:, place:])
        sums[place:, place] = sums[place, place:]
    return sums


def summed(pairs: Pair, grid: float = 0.0, *, after: Total | None = None) -> Total:
    """Sum over the first axis, each visitor's svec rounded to the grid before (0: not at all).

    With ``after``, that sum goes on: visitors are added one after the other, and it does not matter how many at a time.
    """
    score, information = pairs.score, svec(pairs.information)
    if grid:
        score, information = on_grid(score, grid), on_grid(information, grid)
    if after is None:
        return Total(score.sum(0), information.sum(0))
    return Total(reduce(np.add, score, after.score), reduce(np.add, information, after.information))


def nothing(lead: tuple[int, ...], dim: int) -> Total:
    """The sum over nobody."""
    return Total(np.zeros((*lead, dim)), np.zeros((*lead, svec_dim(dim))))


def on_grid(values: FloatArray, grid: float) -> FloatArray:
    """Each number rounded towards zero to a multiple of ``grid``, a power of two: exact in float64, sums as well."""
    return np.asarray(np.trunc(values / grid) * grid)
