"""Theorem 1 of the paper, "Bounded rho-zCDP guarantee of objective perturbation", for any convex loss.

As printed: a loss with |gradient| <= L, Hessian eigenvalues <= eta and Hessian rank R is rho-zCDP if, for a q in (0, 1)

    Delta >= eta / (exp((1-q) rho / R) - 1)        sigma² >= (L (sqrt(d + 2 q rho) + sqrt(d)) / (q rho))²

Its proof reverses Jensen's inequality; the statement still holds for the true L, eta and R. The constants that the
paper then uses for the choice model (L = 2, eta = 4, R = min(d, K-1), in Algorithm `PrivateMLE`) are wrong: R should be
min(d, K), and for K = 1 the printed Delta is zero.

Repaired: E|b| instead of sqrt(d) sigma, and the trace h of the Hessian instead of R eta,

    Delta >= h / (R (exp((1-q) rho / R) - 1))      sigma  >= (W + sqrt(W² + 2 q rho G²)) / (2 q rho)

which is bound (B) of `perturbation_curves`, inverted.

Reference: docs/proofs.md, section 9.
"""

from __future__ import annotations

import math

from quietshelf.model.types import integer, positive, require
from quietshelf.privacy.release.perturbation_curves import Loss, Perturbation

LIPSCHITZ = 2.0
SMOOTHNESS = 4.0
LARGEST_EXPONENT = 700.0


def theorem_one(
    rho: float, *, lipschitz: float, smoothness: float, rank: int, dim: int, q: float = 0.5
) -> Perturbation:
    """The smallest sigma and Delta of Theorem 1, as printed.

    >>> theorem_one(1.0, lipschitz=2.0, smoothness=4.0, rank=5, dim=5)
    Perturbation(sigma=18.742..., ridge=38.033...)
    """
    share = _share(rho, q)
    ridge = positive("smoothness", smoothness) / _growth(rho - share, positive_rank(rank))
    root = math.sqrt(integer("dim", dim))
    sigma = positive("lipschitz", lipschitz) * (math.sqrt(dim + 2 * share) + root) / share
    return Perturbation(sigma, ridge)


def theorem_one_rho(sigma: float, ridge: float, *, lipschitz: float, smoothness: float, rank: int, dim: int) -> float:
    """The cost that Theorem 1 states, ``R log(1 + eta/Delta) + 2 L sqrt(d)/sigma + 2 L²/sigma²``: its inverse."""
    determinant = positive_rank(rank) * math.log1p(positive("smoothness", smoothness) / positive("ridge", ridge))
    step = positive("lipschitz", lipschitz) / positive("sigma", sigma)
    return determinant + 2 * step * math.sqrt(integer("dim", dim)) + 2 * step * step


def theorem_one_repaired(rho: float, loss: Loss, *, q: float = 0.5) -> Perturbation:
    """The smallest sigma and ridge of the repaired theorem; their ``repaired_rho`` is rho.

    >>> from quietshelf.privacy.release.perturbation_curves import mean_length
    >>> theorem_one_repaired(1.0, Loss(difference=4.0, trace=20.0, rank=5, width=4.0 * mean_length(5)))
    Perturbation(sigma=17.914..., ridge=38.033...)
    """
    share = _share(rho, q)
    ridge = loss.trace / (loss.rank * _growth(rho - share, loss.rank))
    sigma = (loss.width + math.sqrt(loss.width**2 + 2 * share * loss.difference**2)) / (2 * share)
    return Perturbation(sigma, ridge)


def printed_rank(dim: int, capacity: int) -> int:
    """R = min(d, K-1), as printed for the choice model; refused for K = 1, where Delta would be zero."""
    integer("dim", dim)
    rule = "the paper's constants need capacity >= 2 (at 1 the printed rank, and with it the ridge, is zero)"
    require(integer("capacity", capacity) >= 2, rule, capacity=capacity)
    return min(dim, capacity - 1)


def printed_perturbation(rho: float, dim: int, capacity: int) -> Perturbation:
    """Algorithm `PrivateMLE` with budget rho for this fit and q = 1/2, constants as printed."""
    rank = printed_rank(dim, capacity)
    return theorem_one(rho, lipschitz=LIPSCHITZ, smoothness=SMOOTHNESS, rank=rank, dim=dim)


def printed_rho(sigma: float, ridge: float, dim: int, capacity: int) -> float:
    """The cost of a fit that the paper claims (its Corollary on `PrivateMLE`)."""
    rank = printed_rank(dim, capacity)
    return theorem_one_rho(sigma, ridge, lipschitz=LIPSCHITZ, smoothness=SMOOTHNESS, rank=rank, dim=dim)


def _share(rho: float, q: float) -> float:
    require(0 < q < 1, "q must be between 0 and 1", q=q)
    return q * positive("rho", rho)


def _growth(part: float, rank: int) -> float:
    """``exp(part / R) - 1``."""
    exponent = part / rank
    require(exponent <= LARGEST_EXPONENT, "rho must be smaller: its ridge vanishes", rho_over_rank=exponent)
    return math.expm1(exponent)


def positive_rank(rank: int) -> int:
    """Check that a rank is at least 1."""
    require(integer("rank", rank, low=0) > 0, "rank must be positive: without it the ridge is zero", rank=rank)
    return rank
