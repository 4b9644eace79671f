"""The bounded pair of `quiet`: one visitor's score and information at a released theta, with bounded influence.

Contribution: ``(-w phi_chosen, w J)`` in public coordinates z_j = L x_j, over the items shown and none (z_0 = 0), with
    p_j the probabilities at theta, C = 1 and a public bound B > 0:
    psi_j = (z_j - m) h_j, h_j = min(1, C/|z_j - m|), around a centre m that nearly solves r = sum_j p_j psi_j = 0;
    phi_j = s (psi_j - r), s = C/(C + |r|), so that sum_j p_j phi_j = 0 and |phi_j| <= C whatever m is;
    J = s sum_j p_j h_j (z_j - m)(z_j - m)'; a = max over every possible choice of |phi_j|, b = |J|_F;
    w = min(1, 1/sqrt(a²/C² + b²/B²)).
    Only phi_chosen depends on the choice, so the score keeps mean zero at the true theta. Where any of this is not
    finite the contribution is exactly zero.
Neighbours: one visitor replaced, features, offer and choice alike; theta, L and B fixed.
Sensitivity: in units u = (score/(sqrt(2) C), svec(information)/B) sqrt(2), attained, whatever the features are. As
    rounded for a release by `statistics.factors`: the same.
Assumes: nothing about the features. A relative margin of 1e-11 in w covers the rounding of w, phi and J themselves.
Reference: docs/proofs.md, sections 4 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from quietshelf.model.choice.likelihood import shares, utilities
from quietshelf.model.types import NOTHING, BoolArray, FloatArray, IntArray, require
from quietshelf.privacy.statistics.rows import ObservedChoice
from quietshelf.privacy.statistics.symmetric import svec_dim

SENSITIVITY = math.sqrt(2.0)
"""The most that replacing one visitor moves the sums, in units u, rounded or not."""
SCORE_BOUND = 1.0
"""C: no score is longer. It is fixed, because the scale of L takes its role."""
SMALLEST_BOUND, LARGEST_BOUND = 1e-6, 1e6
"""Limits of B: far beyond them the squares below would leave the range in which rounding is relative."""
STEPS = 3
"""Fixed-point steps towards the centre m. Their number is public; the bounds hold wherever m ends up."""
MARGIN = 1.0 - 1e-11
ROUNDING_ROOM = 8900
"""The margin covers all rounding while 7 K + d is at most this (docs/proofs.md, section 4)."""
NUMBERS, TOGETHER = 160_000, 2048
"""The most numbers and visitors per step, so that scratch memory stays in the cache."""


class Pair(NamedTuple):
    """One visitor's contribution.

    Attributes:
        score: ``-w phi_chosen``, (..., d): like a gradient of the loss (minus the log-likelihood), in coordinates z.
        information: ``w J``, (..., d, d): how the mean score changes with theta, in the same coordinates.
    """

    score: FloatArray
    information: FloatArray


class Total(NamedTuple):
    """A sum of contributions: score (..., d), and the upper triangle of the information, (..., d (d + 1) / 2).

    Also the outcomes of two arms, (..., OUTCOME_NUMBERS), if they are compared, else empty.
    """

    score: FloatArray
    information: FloatArray
    outcomes: FloatArray = np.empty(0)

    def __add__(self, other: Total) -> Total:  # type: ignore[override]  # a sum of sums, not of tuples
        outcomes = self.outcomes + other.outcomes
        return Total(self.score + other.score, self.information + other.information, outcomes)


def valid_bound(bound: FloatArray | float) -> FloatArray:
    """Return B as an array; refuse values that the proof does not cover."""
    values = np.asarray(bound, dtype=np.float64)
    good = bool(((values >= SMALLEST_BOUND) & (values <= LARGEST_BOUND)).all())  # False if one is NaN
    require(good, f"bound must be between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}", bound=bound)
    return values


def contribution(
    shown: ObservedChoice,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: FloatArray | float,
    counts: BoolArray | None = None,
) -> Pair:
    """The bounded pair of each visitor; zero for visitors who do not count.

    A visitor's pair has the same bits alone and in a group, with empty places and without: empty places are removed
    first, and every product involves one visitor only, in a shape that depends on no other.

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


def _with_gaps(shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: FloatArray) -> Pair:
    """The pairs of visitors with empty places."""
    lead, dim = shown.position.shape, shown.rows.shape[-1]
    pair = Pair(np.zeros((*lead, dim)), np.zeros((*lead, dim, dim)))
    for some, part, mine, frame, limit in without_gaps(shown, theta, coordinates, bound):
        pair.score[some], pair.information[some] = _full(part, mine, frame, limit)
    return pair


def without_gaps(
    shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: FloatArray
) -> Iterator[tuple[BoolArray, ObservedChoice, FloatArray, FloatArray, FloatArray]]:
    """Remove empty places and yield groups of visitors who were offered equally many items, with their arguments.

    Visitors to whom nothing was offered are skipped: nothing is learned from them.
    """
    lead, dim = shown.position.shape, shown.rows.shape[-1]
    if theta.ndim > 1 or coordinates.ndim > 2:
        theta, coordinates = np.broadcast_to(theta, (*lead, dim)), np.broadcast_to(coordinates, (*lead, dim, dim))
    count = np.count_nonzero(shown.offered, axis=-1)
    for places in sorted(set(count.ravel().tolist()) - {0}):
        some = count == places
        offered, position = shown.offered[some], shown.position[some]
        rows = shown.rows[some][offered].reshape(-1, places, dim)
        chosen = offered & (np.arange(offered.shape[-1]) == position[:, None])
        place = np.where(chosen, np.cumsum(offered, axis=-1), 0).max(axis=-1) - 1
        part = ObservedChoice(rows, np.ones((len(rows), places), np.bool_), place)
        mine, frame = (theta, coordinates) if theta.ndim == 1 else (theta[some], coordinates[some])
        yield some, part, mine, frame, bound[some]


def _full(shown: ObservedChoice, theta: FloatArray, coordinates: FloatArray, bound: FloatArray) -> Pair:
    """The pairs of visitors without empty places."""
    lead, (places, dim) = shown.rows.shape[:-2], shown.rows.shape[-2:]
    utility = utilities(shown.rows, theta).reshape(-1, places)
    rows = (shown.rows @ coordinates.mT).reshape(-1, places, dim)
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

    Everything is computed from the centred rows z_j - m, whose squares are summed last: the information is then
    positive semidefinite in floating point too, and nothing cancels when features share a large offset. The sensitivity
    depends on this. For speed, memory is contiguous along visitors; a single visitor is computed as two, so that sums
    run in the same order for any number.
    """
    if len(rows) == 1:
        twice = np.zeros(2, dtype=np.int64)
        pair = _weighted(utility[twice], rows[twice], position[twice], bound[twice])
        return Pair(pair.score[:1], pair.information[:1])
    utility = np.ascontiguousarray(utility.T)
    around = centred(utility, rows)
    everyone = np.arange(len(rows))
    score = around.cut[position, everyone] * around.away[position, :, everyone].T - around.rest  # NOTHING is the last
    scale, information, known = bounded(around, bound)
    score *= -scale
    unbounded = np.flatnonzero(~(known & np.isfinite(utility).all(axis=0)))
    score[:, unbounded] = information[:, :, unbounded] = 0.0
    flat = information.reshape(-1 if len(rows) else 0, len(rows))
    return Pair(np.ascontiguousarray(score.T), np.ascontiguousarray(flat.T))


class Centred(NamedTuple):
    """The rows around the centre m of each visitor, the K items first and no choice last.

    Attributes:
        chance: p_j, (K + 1, n).
        away: z_j - m, (K + 1, d, n).
        square: Their squared lengths, (K + 1, n).
        cut: h_j = min(1, C/|z_j - m|), (K + 1, n).
        rest: r = sum of p_j h_j (z_j - m), (d, n): zero at the exact centre.
    """

    chance: FloatArray
    away: FloatArray
    square: FloatArray
    cut: FloatArray
    rest: FloatArray


def centred(utility: FloatArray, rows: FloatArray) -> Centred:
    """Find the centre m: from the mean of z, each step moves m to the mean weighted by p_j h_j, by r / sum of p_j h_j.

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
    return Centred(chance, away, square, cut, rest)


def bounded(around: Centred, bound: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
    """``w s`` (n,), ``w J`` (d, d, n), and where both are finite, (n,); overwrites ``around.away``."""
    shrink, reach = shrunk(around)
    away = around.away
    away *= np.sqrt(around.chance * around.cut * shrink)[:, None]
    information = _outer(away)
    large = np.einsum("den,den->dn", information, information).sum(axis=0)  # row by row: errors grow with d, not d²
    weight, known = weighed(shrink, reach, large, bound)
    information *= weight
    return weight * shrink, information, known


def shrunk(around: Centred) -> tuple[FloatArray, FloatArray]:
    """``s`` and the longest of ``psi_j - r``, squared, (n,) each; C = 1 from here on."""
    size = np.einsum("dn,dn->n", around.rest, around.rest)
    along = np.einsum("kdn,dn->kn", around.away, around.rest)
    reach = (around.cut * (around.cut * around.square - 2.0 * along)).max(axis=0) + size
    return 1.0 / (1.0 + np.sqrt(size)), reach


def weighed(
    shrink: FloatArray, reach: FloatArray, large: FloatArray, bound: FloatArray, most: FloatArray | float = MARGIN
) -> tuple[FloatArray, BoolArray]:
    """``w``, from ``large``, the squared length of J, and where it is known, (n,): w (a, b) is no longer than most."""
    joint = shrink * shrink * reach + large / (bound * bound)
    return np.minimum(1.0, most / np.sqrt(np.maximum(joint, 1e-300))), np.isfinite(joint)


def _outer(rows: FloatArray) -> FloatArray:
    """Sums of outer products: (K, d, n) -> (d, d, n), symmetric to the last bit."""
    _, dim, count = rows.shape
    sums = np.empty((dim, dim, count))
    for place in range(dim):
        sums[place, place:] = np.einsum("kn,ken->en", rows[:, place], rows[:, place:])
        sums[place:, place] = sums[place, place:]
    return sums


def nothing(lead: tuple[int, ...], dim: int) -> Total:
    """The sum over no visitor."""
    return Total(np.zeros((*lead, dim)), np.zeros((*lead, svec_dim(dim))))


def on_grid(values: FloatArray, grid: float) -> FloatArray:
    """Each number rounded towards zero to a multiple of ``grid``, a power of two: exact in float64, and so are sums."""
    return np.asarray(np.trunc(values / grid) * grid)
