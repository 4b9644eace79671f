"""Pairs of visitors that may replace each other: the worst cases from the proofs, and the worst that a search finds.

docs/proofs.md, sections 4, 8, 9 and 18 say which pairs attain each sensitivity. A search over random visitors, improved
step by step, looks for worse pairs; it must not find any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import NOTHING, FloatArray, IntArray
from quietshelf.privacy.statistics import SCORE_BOUND, ObservedChoice, contribution, gram, svec

STEPS = 60
KEPT = 16
GOLDEN = float(np.sqrt(2 * (np.sqrt(5) - 1)))
"""The length of a single item that, bought or not, costs most at B = 1: 0.618 of rho."""
LONG = 1000.0


class Neighbours(NamedTuple):
    """What each of two visitors saw and chose, and the pair in words."""

    first: ObservedChoice
    second: ObservedChoice
    words: str

    def target(self, secret: bool) -> ObservedChoice:
        """The visitor who came: the first if ``secret``, else the second."""
        return self.first if secret else self.second


def visitor(rows: FloatArray, position: int = NOTHING) -> ObservedChoice:
    """A visitor who saw items with these features, (K, d), and chose the one at ``position``."""
    return ObservedChoice(np.asarray(rows, dtype=np.float64), np.ones(len(rows), dtype=bool), np.asarray(position))


def axis(place: int, dim: int) -> FloatArray:
    """A unit vector (d,)."""
    return np.asarray(np.eye(dim)[place])


def far_scores(dim: int) -> Neighbours:
    """Scores as far apart as one item allows, bought or not (section 4); the information matrices are equal."""
    rows = GOLDEN * axis(0, dim)[None]
    return Neighbours(visitor(rows, 0), visitor(rows), "same visitor, bought the item or nothing")


def far_information(dim: int) -> Neighbours:
    """Information matrices nearly sqrt(2) B apart: one very long item, along two different axes (section 4)."""
    rows = [LONG * axis(place, dim)[None] for place in (0, 1)]
    return Neighbours(visitor(rows[0]), visitor(rows[1]), "visitors with items along different axes")


def far_crowds(capacity: int, dim: int) -> Neighbours:
    """Opposite scores for any theta within reach: all items on one side or all opposite, none bought (section 18)."""
    rows = np.tile(2.0 * axis(0, dim), (capacity, 1))
    return Neighbours(visitor(rows), visitor(-rows), "visitors with opposite items, nothing bought")


def far_pairs(capacity: int, dim: int) -> Neighbours:
    """Opposite scores and, up to 1/K, orthogonal information matrices at theta = 0, for even K and d >= 3 (section 4).

    Everything lies on a unit sphere around xbar = e1 or -e1, spread along e2 or e3.
    """
    along = 1 + 1 / capacity
    side = np.sqrt(1 - 1 / capacity**2) * np.where(np.arange(capacity) % 2, 1.0, -1.0)[:, None]
    first, second = along * axis(0, dim) + side * axis(1, dim), -along * axis(0, dim) + side * axis(2, dim)
    return Neighbours(visitor(first), visitor(second), "opposite visitors whose items spread along different axes")


def far_gram(capacity: int, dim: int) -> Neighbours:
    """Gram matrices sqrt(2) K apart: all items along one axis, or all along another (section 8)."""
    rows = [np.tile(axis(place, dim), (capacity, 1)) for place in (0, 1)]
    return Neighbours(visitor(rows[0]), visitor(rows[1]), "all items along one axis, or all along another")


def far_gradients(capacity: int, dim: int) -> Neighbours:
    """Long gradients in opposite directions: all items at one end, the one bought at the other (section 9)."""
    sides = np.tile(axis(0, dim), (capacity, 1))
    sides[0] *= -1
    return Neighbours(visitor(sides, 0), visitor(-sides, 0), "opposite visitors, each bought the odd item out")


def pair_cost(first: ObservedChoice, second: ObservedChoice, *, bound: float) -> FloatArray:
    """The cost of pairs of visitors to a batch at theta = 0 and L = I, relative to rho: half their squared distance."""
    dim = first.rows.shape[-1]
    one, two = (contribution(part, np.zeros(dim), np.eye(dim), bound) for part in (first, second))
    score = ((one.score - two.score) ** 2).sum(-1) / (2 * SCORE_BOUND**2)
    information = (svec(one.information - two.information) ** 2).sum(-1) / bound**2
    return np.asarray(0.5 * (score + information))


def gram_cost(first: ObservedChoice, second: ObservedChoice) -> FloatArray:
    """The squared distance between the Gram matrices of pairs of visitors."""
    return np.asarray((svec(gram(first.rows) - gram(second.rows)) ** 2).sum(-1))


def search(
    cost: Callable[[ObservedChoice, ObservedChoice], FloatArray],
    *,
    capacity: int,
    dim: int,
    tries: int,
    rng: np.random.Generator,
    longest: float | None = None,
) -> Neighbours:
    """The costliest pair that a search finds: random visitors, the best of whom are perturbed again and again.

    Args:
        cost: The cost of pairs side by side, (tries,).
        capacity: Items per visitor.
        dim: d.
        tries: Pairs per step.
        rng: Source of randomness.
        longest: Clip features to this length; None for no limit.
    """
    rows: FloatArray = rng.standard_normal((2, tries, capacity, dim)) * np.exp(rng.uniform(-1, 2, (2, tries, 1, 1)))
    picked = rng.integers(NOTHING, capacity, (2, tries))
    for step in range(STEPS):
        rows = _shortened(rows, longest)
        order = np.argsort(cost(*_both(rows, picked)))[::-1][:KEPT]
        best_rows, best_picked = rows[:, order], picked[:, order]
        parent = rng.integers(KEPT, size=tries)
        parent[:KEPT] = np.arange(KEPT)
        change = rng.standard_normal((2, tries, capacity, dim)) * 0.9**step * rng.choice([1.0, 0.1], (1, tries, 1, 1))
        change[:, :KEPT] = 0.0
        rows, picked = best_rows[:, parent] + change, best_picked[:, parent]
    rows = _shortened(rows, longest)
    first, second = _both(rows, picked)
    top = int(np.argmax(cost(first, second)))
    one, other = (ObservedChoice(*(part[top] for part in side)) for side in (first, second))
    return Neighbours(one, other, "the worst pair found by search")


def _both(rows: FloatArray, picked: IntArray) -> tuple[ObservedChoice, ObservedChoice]:
    offered = np.ones(rows.shape[1:-1], dtype=bool)
    return ObservedChoice(rows[0], offered, picked[0]), ObservedChoice(rows[1], offered, picked[1])


def _shortened(rows: FloatArray, longest: float | None) -> FloatArray:
    if longest is None:
        return rows
    return np.asarray(rows * np.minimum(1.0, longest / np.linalg.norm(rows, axis=-1, keepdims=True)))
