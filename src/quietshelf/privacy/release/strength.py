"""The strength of tastes: the variance of utilities over items that makes the releases most likely.

The precision under strength s is ``T/s + R``, T of tastes in the prior and R of everything else. One basis makes both
diagonal, so comparing all strengths costs no more than one. Post-processing of what is public (docs/proofs.md,
section 2). Everything has leading batch axes ``...`` (parallel worlds).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.prior import Prior

STRENGTHS = np.exp(np.linspace(-6.0, 6.0, 25))
"""The variances of utilities over items considered, and..."""
STRENGTH_DOUBT = 2.0
"""... the standard deviation of their logarithm."""
SMALLEST = 1e-14
"""Eigenvalues are floored at this share of the largest: below, rounding alone decides what they are."""


class Basis(NamedTuple):
    """A basis in which ``V' (T + R) V = I`` and ``V' T V = diag(t)``: V (..., d, d) and t (..., d)."""

    vectors: FloatArray
    tastes: FloatArray

    @classmethod
    def of(cls, tastes: FloatArray, rest: FloatArray) -> Basis:
        """Find the basis for two positive semidefinite matrices whose sum is positive definite."""
        values, vectors = np.linalg.eigh(tastes + rest)
        root = vectors / np.sqrt(np.maximum(values, SMALLEST * values[..., -1:]))[..., None, :]
        share, turn = np.linalg.eigh(_along(root, tastes @ root))
        return cls(root @ turn, np.clip(share, 0.0, 1.0))

    def precisions(self, strengths: FloatArray) -> FloatArray:
        """``V' (T/s + R) V``, the diagonal, for strengths (S, ..., 1): (S, ..., d)."""
        return np.asarray(self.tastes / strengths + (1.0 - self.tastes))


class Strengths(NamedTuple):
    """The strengths to choose from, with a prior.

    Attributes:
        prior: The prior.
        tried: Variances of utilities, (S,).
        wide: Precisions of the prior under each strength, in its own basis, (S, ..., d); ones if there is no choice.
    """

    prior: Prior
    tried: FloatArray
    wide: FloatArray

    @classmethod
    def of(cls, prior: Prior, tried: FloatArray = STRENGTHS) -> Strengths:
        """Prepare what does not depend on evidence, once for several passes."""
        if len(tried) == 1:
            return cls(prior, tried, np.ones((1, *prior.theta.shape)))
        return cls(prior, tried, Basis.of(prior.tastes, prior.level).precisions(_each(tried, prior)))

    def strongest(self, told: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta and its precision under the strength of tastes that makes the evidence most likely, per world.

        The evidence is a precision (..., d, d) and that precision times theta, (..., d).
        """
        prior, each = self.prior, _each(self.tried, self.prior)
        gain = self._gains(told, shift) if len(self.tried) > 1 else np.zeros(self.wide.shape[:-1])
        best = (0.5 * gain - 0.5 * (np.log(each[..., 0]) / STRENGTH_DOUBT) ** 2).argmax(axis=0)
        before = prior.tastes / np.asarray(self.tried[best])[..., None, None] + prior.level
        precision, pulled = told + before, shift[..., None] + before @ prior.theta[..., None]
        return np.linalg.solve(precision, pulled)[..., 0], precision

    def _gains(self, told: FloatArray, shift: FloatArray) -> FloatArray:
        """Twice the log-likelihood gain of each strength, up to a constant, (S, ...)."""
        prior, strengths = self.prior, _each(self.tried, self.prior)
        basis = Basis.of(prior.tastes, prior.level + told)
        pulled = prior.tastes @ prior.theta[..., None]
        rest = _along(basis.vectors, shift[..., None] + prior.level @ prior.theta[..., None])[..., 0]
        tastes = _along(basis.vectors, pulled)[..., 0]
        narrow = basis.precisions(strengths)
        fit = ((rest + tastes / strengths) ** 2 / narrow).sum(-1)
        before = (prior.theta * pulled[..., 0]).sum(-1) / strengths[..., 0]
        return np.asarray((np.log(self.wide) - np.log(narrow)).sum(-1) + fit - before)


def _each(tried: FloatArray, prior: Prior) -> FloatArray:
    """(S, ..., 1)."""
    return tried.reshape(-1, *(1,) * prior.theta.ndim)


def _along(vectors: FloatArray, columns: FloatArray) -> FloatArray:
    return vectors.mT @ columns
