"""Find which of a million items can be among the best: scores, and single-precision bounds on them.

An item's score is ``s(v) = b . z + c sqrt(z' W z)`` with z = (1, v); `Catalogued.slope` and `Catalogued.form` give b
and W from tastes and covariance, for one visitor. `Scores.exact` computes it in double precision by scalar additions
and multiplications in a fixed order: its bits depend on the visitor and the item alone, not on which other items are
scored. This number decides; everything else here bounds it, and only saves time.

**Bounds.** Let |z| <= Z over the catalogue. For any matrix R, and n >= 0 such that ``R'R - W + n I`` is positive
semidefinite, ``z' W z <= |R z|² + n Z²``, hence

    s(v) <= b . z + c |R z| + c sqrt(n) Z.                                                                    (1)

*Coarse*: R = sqrt(m) R0, where R0'R0 is the mean of W over visitors ±e_a, which depends on the release alone. |R0 z| is
one number per item, computed once per release; each visitor then costs one product ``b . z`` over the catalogue. m is
the largest eigenvalue of W in the metric R0'R0. If the covariance is close to a product of a visitor part and an item
part, W is close to a multiple of that metric, and (1) is close to s. *Fine*: R'R = W, for the items that the coarse
bound leaves. In both, n is minus the smallest eigenvalue of ``R'R - W`` if that is negative, plus `SLACK` times |R'R| +
|W| for the error of computing it, which is backward stable: some 1e-14 of these sizes. Norms of matrices are Frobenius
norms.

**Rounding**, with u = 2^-24. Rounding numbers to single precision and adding up 1 + d2 products, in any order, changes
the first term of (1) by at most (d2 + 4) u |b| Z. A Euclidean length moves by no more than the vector does, so |R z|
moves by (d2 + 4) u |R| Z, and by (d2 + 4) u of itself for the squares, their sum and the root. Products with c and the
last sum cost 4 u of both terms. All of this is below 3 (d2 + 8) u S', with

    S' = (|b| + c |R|) Z,      S" = (|b| + c sqrt(|W|)) Z.

Underflow adds less than 2^-60 S': rows are divided by S' first, and Z <= 2^60 (`LARGEST_REACH`). `Scores.exact`
is within 4 (d2 + 2) 2^-52 |W| Z² of the square before the root is taken, and so differs from s by the square root of
that at most, and by 4 (d2 + 2) 2^-52 S" for the rest. With

    E = 4 (d2 + 16) u S' + 2 sqrt(4 (d2 + 16) 2^-52) S" + c sqrt(n) Z                                         (2)

no exact score therefore exceeds its bound by more than E. Every term of E is a multiple of Z, which may be any number
no smaller than the |z| of the items considered: E is computed per block, or per item, and added to the bounds. If such
a bound is below T, so is the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quietshelf.model.choice.catalogue import Block, Catalogue, Single, kept
from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.screen import Screen
from quietshelf.model.types import FloatArray, IntArray

LARGEST_REACH = 2.0**60
"""Longer items are not screened: products with them would overflow single precision."""
LARGEST_SQUARE = 2.0**1000
"""The largest ``z' W z``; beyond it, intermediate sums might overflow double precision."""
UNIT, PRECISE = 2.0**-24, 2.0**-52
SLACK = 1e-12
LEAST_SCALE = 1e-6
"""The least S'; smaller scores are practically tied anyway."""
UNDERFLOW = 2.0**-50
"""In units of S': more than all underflow adds up to."""
RIDGE = 1e-6
"""The least eigenvalue of the common metric, relative to their mean; keeps it positive definite."""
TILE = 4096
"""Items scored together in double precision, so that the scratch memory stays in the cache."""


@dataclass(frozen=True, eq=False)
class Common:
    """What visitors of one release share: a metric in the coordinates of (1, v), as a factor and its inverse."""

    root: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, features: Catalogued, covariance: FloatArray) -> Common:
        """The mean of a release's covariance (..., d, d) over visitors ±e_a, for items as these visitors see them."""
        count = features.visitor.shape[-1]
        units = np.concatenate([np.eye(count), -np.eye(count)]) if count else np.zeros((1, 0))
        seen = Catalogued(units, features.stored, features.feature_map)
        mean = covariance.reshape(-1, *covariance.shape[-2:]).mean(axis=0)
        form = seen.form(mean).mean(axis=0)
        form = 0.5 * (form + form.T)
        total = np.trace(form)
        usable = np.isfinite(form).all() and total > 0  # any metric is valid; this one is tight
        form = form / total if usable else np.eye(len(form)) / len(form)
        values, vectors = np.linalg.eigh(form)
        size = np.sqrt(np.maximum(values, RIDGE / len(form)))
        return cls(size[:, None] * vectors.T, vectors / size)

    def widths(self, block: Block) -> Single:
        """``|R0 z|`` of a block's items, cached on the block until another release asks."""
        return kept(block, self, lambda: lengths(self.root.astype(np.float32), block.single))


@dataclass(frozen=True, eq=False)
class Bounds:
    """The bounds (1) for B visitors in single precision, E added, all in units of ``scale``.

    Attributes:
        rows: b, (B, 1 + d2).
        roots: c R of fine bounds, (B, 1 + d2, 1 + d2); None for coarse bounds, and without a second term.
        multiple: c sqrt(m) of coarse bounds, (B,).
        scale: S', (B,).
        error: E for |z| = 1, (B,).
    """

    rows: Single
    roots: Single | None
    multiple: Single
    scale: FloatArray
    error: FloatArray

    def floors(self, least: FloatArray) -> Single:
        """Floors, (B,), such that items with a smaller bound score below ``least``, (B,)."""
        exact = (least / self.scale - UNDERFLOW).astype(np.float32)
        return np.asarray(np.nextafter(exact, np.float32(-np.inf)))

    def everywhere(self, catalogue: Catalogue, common: Common) -> Screen:
        """The coarse bounds of all items, (B, N): one product per block for all visitors, or one on a device."""
        if catalogue.resident is not None:
            offset = self._offset(catalogue.reach)
            upper = catalogue.resident.bounds(self.rows, offset, self.multiple, common, common.root)
            return Screen(upper, catalogue.device)
        upper = np.empty((len(self.rows), len(catalogue)), dtype=np.float32)
        wide = self.multiple.any()
        for start, block in catalogue.starts():
            part = upper[:, start : start + block.columns.shape[1]]
            np.matmul(self.rows[:, 1:], block.single, out=part)
            part += self._offset(block.reach)
            if wide:
                part += self.multiple[:, None] * common.widths(block)
        return Screen(upper, None)

    def of(self, visitor: int, columns: Single) -> Single:
        """Compute the fine bounds of some items, given as (d2, n), for one visitor."""
        row = self.rows[visitor]
        upper: Single = row[1:] @ columns + row[0]
        upper += np.float32(self.error[visitor]) * np.sqrt(1.0 + np.einsum("dn,dn->n", columns, columns))
        return upper if self.roots is None else upper + lengths(self.roots[visitor], columns)

    def _offset(self, reach: float) -> Single:
        """The terms common to all items with |z| within reach: the intercept and E, (B, 1)."""
        return self.rows[:, :1] + (self.error * reach).astype(np.float32)[:, None]


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a catalogue's items for B visitors.

    Attributes:
        catalogue: The items.
        slope: b, (B, 1 + d2).
        form: W, (B, 1 + d2, 1 + d2); None if every radius is zero.
        radius: c, (B,), at least zero.
    """

    catalogue: Catalogue
    slope: FloatArray
    form: FloatArray | None
    radius: FloatArray

    @property
    def reach(self) -> float:
        """Z."""
        return self.catalogue.reach

    @cached_property
    def size(self) -> FloatArray:
        """``S = (|b| + c sqrt(trace W)) Z``, (B,), which no score exceeds; not finite where scores may overflow.

        Scores below 1e-60 may exceed it, because their squares underflow; decisions use max(S, 1). Its bits, too,
        depend on one visitor alone.
        """
        size = np.sqrt(_added(self.slope.T**2)) * self.reach
        if self.form is None:
            return size
        trace = _added(np.abs(np.diagonal(self.form, axis1=-2, axis2=-1).T))
        square = trace * self.reach**2
        square[~(np.isfinite(self.form).all(axis=(-2, -1)) & (square <= LARGEST_SQUARE))] = np.inf
        return np.asarray(size + np.where(self.radius > 0, self.radius * np.sqrt(square), 0.0))

    def only(self, visitors: IntArray | slice) -> Scores:
        """The scores for some of the visitors."""
        form = None if self.form is None else self.form[visitors]
        return Scores(self.catalogue, self.slope[visitors], form, self.radius[visitors])

    def exact(self, visitors: IntArray, items: IntArray) -> FloatArray:
        """Compute the deciding scores, (b, n), of items (b, n) for some visitors, (b,).

        Multiplies and adds scalars in a fixed order: a score has the same bits whichever others are computed with it.
        """
        found = np.empty(items.shape)
        width = max(1, TILE // len(visitors))
        for start in range(0, items.shape[1], width):
            part = items[:, start : start + width]
            columns = self.catalogue.columns(part.ravel()).reshape(-1, *part.shape)
            found[:, start : start + width] = self._exact(visitors, columns)
        return found

    def _exact(self, visitors: IntArray, columns: FloatArray) -> FloatArray:
        slope, radius = self.slope[visitors].T[..., None], self.radius[visitors, None]
        score: FloatArray = np.zeros(columns.shape[1:]) + slope[0]
        for weight, column in zip(slope[1:], columns, strict=True):
            score += weight * column
        if self.form is None or not radius.any():
            return score
        form = np.moveaxis(self.form[visitors], -1, 0)[..., None]
        image = np.zeros((*form.shape[1:3], columns.shape[-1])) + form[0]
        for weights, column in zip(form[1:], columns, strict=True):
            image += weights * column[:, None]
        square = image[:, 0]
        for place, column in enumerate(columns, 1):
            square += image[:, place] * column
        width = radius * np.sqrt(np.maximum(square, 0.0))
        return np.asarray(np.where(radius > 0, score + width, score))

    def coarse(self, common: Common) -> Bounds:
        """Bounds from the metric that all visitors share."""
        if self.form is None:
            return self.fine()
        metric = common.root.T @ common.root
        most = np.linalg.eigvalsh(common.inverse.T @ self._form @ common.inverse)[..., -1]
        square = np.maximum(most, 0.0) * (1.0 + 1e-9)
        width = self._width * np.sqrt(square)
        return self._bounds(width * np.sqrt(np.trace(metric)), square[:, None, None] * metric, None, width)

    def fine(self) -> Bounds:
        """Bounds from each visitor's own W."""
        if self.form is None:
            none = np.zeros_like(self.radius)
            return self._bounds(none, None, None, none)
        values, vectors = np.linalg.eigh(self._form)
        roots = np.sqrt(np.maximum(values, 0.0))[..., None] * vectors.mT
        covered = roots.mT @ roots
        return self._bounds(self._width * _size(roots), covered, self._width[:, None, None] * roots, self._width)

    @cached_property
    def _form(self) -> FloatArray:
        """The symmetric part of W, which gives the same ``z' W z``, divided by |W| so that nothing overflows."""
        size = _size(self._used)[..., None, None]
        unit = self._used / np.where(size > 0, size, 1.0)
        return np.asarray(0.5 * (unit + unit.mT))

    @cached_property
    def _width(self) -> FloatArray:
        """The radius times sqrt(|W|), (B,)."""
        return np.asarray(self.radius * np.sqrt(_size(self._used)))

    @cached_property
    def _used(self) -> FloatArray:
        """W where the radius is positive, and zero elsewhere."""
        assert self.form is not None  # noqa: S101 - for the type checker
        return np.where((self.radius > 0)[:, None, None], self.form, 0.0)

    def _bounds(
        self, width: FloatArray, covered: FloatArray | None, roots: FloatArray | None, multiple: FloatArray
    ) -> Bounds:
        """Make bounds with c |R| = ``width``, R'R = ``covered`` |W|, c R = ``roots`` and c sqrt(m) = ``multiple``."""
        length = np.sqrt((self.slope**2).sum(axis=-1))
        scale = np.maximum((length + width) * self.reach, LEAST_SCALE)
        own = (length if self.form is None else length + self._width) * self.reach
        terms = 4.0 * (self.slope.shape[-1] + 15)
        error = terms * UNIT * scale + 2.0 * np.sqrt(terms * PRECISE) * own
        if covered is not None and self.form is not None:
            least = np.linalg.eigvalsh(covered - self._form)[..., 0]
            lacking = np.maximum(-least, 0.0) + SLACK * (_size(covered) + 1.0)
            error = error + self._width * np.sqrt(lacking) * self.reach
        return Bounds(
            (self.slope / scale[:, None]).astype(np.float32),
            None if roots is None else (roots / scale[:, None, None]).astype(np.float32),
            (multiple / scale).astype(np.float32),
            scale,
            error / (scale * self.reach),
        )


def lengths(root: Single, columns: Single) -> Single:
    """``|R z|`` of the items, (n,), for items (d2, n)."""
    found = np.empty(columns.shape[1], dtype=np.float32)
    for start in range(0, found.size, TILE):
        image = root[:, 1:] @ columns[:, start : start + TILE]
        image += root[:, :1]
        np.einsum("dn,dn->n", image, image, out=found[start : start + TILE])
    return np.sqrt(found, out=found)


def _added(rows: FloatArray) -> FloatArray:
    """Sum over the first axis, in order."""
    total = np.zeros(rows.shape[1:])
    for row in rows:
        total += row
    return total


def _size(matrix: FloatArray) -> FloatArray:
    """The Frobenius norm, (...), computed so that squares neither overflow nor underflow."""
    most = np.abs(matrix).max(axis=(-2, -1), keepdims=True)
    part = matrix / np.where(most > 0, most, 1.0)
    return np.asarray(most[..., 0, 0] * np.sqrt((part**2).sum(axis=(-2, -1))))
