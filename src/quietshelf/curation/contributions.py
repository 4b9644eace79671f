"""R6: a slot's contribution is a function of its own data and of what its batch froze (docs/proofs.md, section 6).

It has the same bits whether computed alone or with others, and wherever it is stored. A contribution is kept as a score
and K + 1 rows; the d (d + 1) / 2 numbers of an information matrix exist only as a sum. `privacy.statistics` bounds
contributions (`pair`, `factors`); they are summed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray
from quietshelf.privacy.release import batch_pair
from quietshelf.privacy.release.quiet import OpenBatch
from quietshelf.privacy.statistics import (
    OUTCOME_NUMBERS,
    Factors,
    Grids,
    ObservedChoice,
    Total,
    contribution,
    factors,
    on_grid,
    outcome,
    svec_dim,
    totalled,
    upper,
)

_FRAME = ("theta", "coordinates")
NUMBERS = 2**20
"""Numbers per step, at most: many visitors in many dimensions are processed in steps."""


def width(dim: int, *, compares: bool = False) -> int:
    """Numbers in a sum: a score of length d, the upper triangle of an information matrix, and outcomes if compared."""
    return dim + svec_dim(dim) + OUTCOME_NUMBERS * compares


def row_width(frozen: OpenBatch) -> int:
    """Numbers kept per item shown: its features, and what it adds to a comparison if chosen."""
    return int(frozen.theta.shape[-1]) + OUTCOME_NUMBERS * frozen.compares


def at_once(dim: int, places: int) -> int:
    """How many contributions one step may hold, for visitors who were shown ``places`` items."""
    return max(2, NUMBERS // (dim * (places + 2)))


def total(sums: FloatArray, dim: int) -> Total:
    """Split a sum of contributions, (..., width), into the parts of a release."""
    end = width(dim)
    return Total(sums[..., :dim], sums[..., dim:end], sums[..., end:])


@np.errstate(all="ignore")  # what overflows contributes zero, and nobody is told of it
def added(
    sums: FloatArray,
    seen: ObservedChoice,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: FloatArray | float,
    grids: Grids,
    counts: BoolArray | None = None,
) -> FloatArray:
    """R6: add the contributions of visitors (n, ...) to sums (..., width); visitors who do not count add zero.

    On a grid sums are exact. Without a grid visitors are added in order, so the number per call changes no bit.
    """
    if grids.score:
        found = totalled(factors(seen, theta, coordinates, bound, grids, counts))
        return np.asarray(sums + np.concatenate([found.score, found.information], axis=-1))
    pair = contribution(seen, theta, coordinates, bound, counts)
    return np.asarray(reduce(np.add, np.concatenate([pair.score, upper(pair.information)], axis=-1), sums))


def contributions(
    rows: Sequence[FloatArray], chosen: Sequence[int], frozen: OpenBatch | Sequence[OpenBatch], grid: float
) -> list[FloatArray]:
    """R6: the contribution of each visitor; visitors may have seen different numbers of items.

    Each is flat: a score (d,), outcomes if they are compared, and the rows of the information, (items shown + 1, d).

    Args:
        rows: What is kept about the items shown to each visitor, (items shown, row_width).
        chosen: The place that each chose, -1 for none.
        frozen: What the batch froze when it opened; or one per visitor, all with the same `row_width` and d.
        grid: The grid to which scores are rounded; 0 for no rounding.
    """
    batches = [frozen] * len(rows) if isinstance(frozen, OpenBatch) else frozen
    found: list[FloatArray] = []
    for some in _steps(rows, batches):
        each, sold = _together(rows[some], chosen[some], batches[some], grid)
        last = each.rows[:, -1]  # the row of no choice
        found += [
            np.concatenate([each.score[place], sold[place], each.rows[place, : len(own)].ravel(), last[place]])
            for place, own in enumerate(rows[some])
        ]
    return found


def sum_of(rows: Sequence[FloatArray], chosen: Sequence[int], frozen: OpenBatch, grid: float) -> FloatArray:
    """R6: the sum of `contributions`, (width,), without a list of them."""
    dim, batches = frozen.theta.shape[-1], [frozen] * len(rows)
    found = np.zeros(width(dim, compares=frozen.compares))
    for some in _steps(rows, batches):
        each, sold = _together(rows[some], chosen[some], batches[some], grid)
        found += np.concatenate([*totalled(each)[:2], sold.sum(axis=0)])
    return found


def _steps(rows: Sequence[FloatArray], batches: Sequence[OpenBatch]) -> Iterator[slice]:
    """Slices of visitors to process together."""
    mixed = any(each is not batches[0] for each in batches)
    dim = batches[0].theta.shape[-1] if batches else 0
    step = at_once(dim, max(map(len, rows), default=0) + dim * mixed) if rows else 1  # if mixed, each brings a matrix
    return (slice(begin, begin + step) for begin in range(0, len(rows), step))


@np.errstate(all="ignore")  # what overflows contributes zero, and nobody is told of it
def _together(
    rows: Sequence[FloatArray], chosen: Sequence[int], batches: Sequence[OpenBatch], grid: float
) -> tuple[Factors, FloatArray]:
    """Scores and rows, padded with zeros, and outcomes of the visitors of one step."""
    frozen = batches[0]
    dim, answers = frozen.theta.shape[-1], np.asarray(chosen, dtype=np.int64)
    shown = np.array([len(each) for each in rows], dtype=np.int64)
    places = int(shown.max(initial=0))
    offered = np.arange(places) < shown[:, None]
    padded = np.zeros((*offered.shape, row_width(frozen)))
    padded[offered] = np.concatenate(rows)
    seen = ObservedChoice(np.ascontiguousarray(padded[..., :dim]), offered, answers)
    found = factors(seen, *_public(batches, grid))
    sold: FloatArray = np.zeros((len(rows), OUTCOME_NUMBERS * frozen.compares))
    if frozen.compares and places:
        sold = outcome(padded[..., dim:], answers)
        sold = on_grid(sold, grid) if grid else sold
    return found, sold


def _public(batches: Sequence[OpenBatch], grid: float) -> tuple[FloatArray, FloatArray, FloatArray | float, Grids]:
    """Theta, coordinates, bound and grids: once if all visitors share a batch, else per visitor."""
    different = list({id(each): each for each in batches}.values())
    grids = [batch_pair.grids(each.scales, each.size, grid) for each in different]
    if len(different) == 1:
        (one,) = different
        return one.theta, one.coordinates, one.scales.bound, grids[0]
    place = {id(each): number for number, each in enumerate(different)}
    own = [place[id(each)] for each in batches]
    theta, coordinates = (np.stack([getattr(each, name) for each in different])[own] for name in _FRAME)
    bound = np.array([each.scales.bound for each in different])[own]
    return theta, coordinates, bound, Grids(grids[0].score, np.array([each.rows for each in grids])[own])


def summed(parts: Sequence[FloatArray], dim: int, *, compares: bool = False) -> FloatArray:
    """Sum some contributions, (width,), with one matrix product per length for the informations."""
    head, found = dim + OUTCOME_NUMBERS * compares, np.zeros(width(dim, compares=compares))
    alike: dict[int, list[FloatArray]] = {}
    for part in parts:
        alike.setdefault(part.size, []).append(part)
    for some in alike.values():  # as one array: many small ones would cost more than the sum itself
        each = np.concatenate(some).reshape(len(some), -1)
        heads, rows = each[:, :head].sum(axis=0), each[:, head:].reshape(-1, dim)
        found += np.concatenate([heads[:dim], upper(rows.T @ rows), heads[dim:]])
    return found
