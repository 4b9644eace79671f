"""The private fit of the paper's (epsilon, delta) benchmark: its supplement, "Objective Perturbation for (eps, delta)".

For a loss with |gradient| <= L, Hessian eigenvalues <= eta and rank R, with Q = d + 2 sqrt(d log(2/delta)) +
2 log(2/delta) and a q in (0, 1):

    printed, theorem     Delta = (1-q) R eta / eps     sigma = L (sqrt(Q) + sqrt(Q + 2 q eps)) / (q eps)
    printed, algorithm   Delta = 2 R / eps             sigma = 4 L (sqrt(Q) + sqrt(Q + 2 q eps)) / eps
    repaired             Delta = h / ((1-q) eps)       sigma as in the theorem, with log(1/delta)

The theorem's Delta is too small by (1-q)²; the algorithm's suffices for the choice model, whose trace h <= 1, if K >=
2; its sigma is twice the theorem's at q = 1/2. With h = R eta the repaired Delta is R eta / ((1-q) eps).

All D fits together must be (epsilon, delta)-private. Printed: each gets (epsilon / sqrt(8 D log(1/delta)),
delta/(2D)). Repaired: the largest e with D e (exp(e) - 1) + e sqrt(2 D log(2/delta)) <= epsilon, at delta/(2D), or
(epsilon, delta)/D if that is more. Fair ("sound"): no split; D times the Rényi curve of one fit is converted once.

Reference: docs/proofs.md, sections 11 and 14.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np

from quietshelf.model.types import integer, one_of, positive, require
from quietshelf.privacy.accounting import epsilon_of_renyi, rho_of
from quietshelf.privacy.release.perturbation_cost import choice_loss, renyi_curve
from quietshelf.privacy.release.perturbation_curves import RIDGE_FLOOR, Loss, Perturbation
from quietshelf.privacy.release.perturbation_paper import LIPSCHITZ, positive_rank, printed_rank
from quietshelf.privacy.release.perturbation_search import least_error

Calibration = Literal["sound", "repaired", "paper"]
ORDERS = 1.0 + np.geomspace(1e-2, 1e7, 600)
"""The orders at which curves are converted; any are valid, these lose less than a thousandth."""
FLOOR_ROOM = 1.001


class Share(NamedTuple):
    """The share of one of several fits."""

    epsilon: float
    delta: float


def printed_theorem(
    epsilon: float, delta: float, *, lipschitz: float, smoothness: float, rank: int, dim: int, q: float = 0.5
) -> Perturbation:
    """The smallest sigma and Delta of the supplement's theorem, as printed; the Delta does not suffice for its proof.

    >>> printed_theorem(1.0, 1e-6, lipschitz=2.0, smoothness=4.0, rank=5, dim=5)
    Perturbation(sigma=57.43..., ridge=10.0)
    """
    _check(epsilon, delta, q)
    sigma = positive("lipschitz", lipschitz) * _roots(epsilon, math.log(2 / delta), dim, q) / (q * epsilon)
    return Perturbation(sigma, (1 - q) * positive_rank(rank) * positive("smoothness", smoothness) / epsilon)


def printed_algorithm(
    epsilon: float, delta: float, *, lipschitz: float, rank: int, dim: int, q: float = 0.5
) -> Perturbation:
    """The sigma and Delta of the supplement's algorithm `PrivateMLE`, as printed.

    >>> printed_algorithm(1.0, 1e-6, lipschitz=2.0, rank=5, dim=5)
    Perturbation(sigma=114.87..., ridge=10.0)
    """
    _check(epsilon, delta, q)
    sigma = 4 * positive("lipschitz", lipschitz) * _roots(epsilon, math.log(2 / delta), dim, q) / epsilon
    return Perturbation(sigma, 2 * positive_rank(rank) / epsilon)


def repaired_theorem(epsilon: float, delta: float, loss: Loss, *, dim: int, q: float = 0.5) -> Perturbation:
    """The smallest sigma and ridge of the repaired theorem: (epsilon, delta)-private for any loss as described.

    >>> repaired_theorem(1.0, 1e-6, Loss(difference=4.0, trace=20.0, rank=5, width=8.5108), dim=5)
    Perturbation(sigma=56.42..., ridge=40.0)
    """
    _check(epsilon, delta, q)
    sigma = loss.difference / 2 * _roots(epsilon, math.log(1 / delta), dim, q) / (q * epsilon)
    return Perturbation(sigma, loss.trace / ((1 - q) * epsilon))


def printed_share(epsilon: float, delta: float, fits: int) -> Share:
    """What each fit gets as printed; by the quoted lemma all fits together then cost 3/2 delta."""
    _check(epsilon, delta)
    return Share(epsilon / math.sqrt(8 * integer("fits", fits) * math.log(1 / delta)), delta / (2 * fits))


def repaired_share(epsilon: float, delta: float, fits: int) -> Share:
    """What each fit may spend: by advanced composition, with delta/(2D) each, or by simple addition if that gives more.

    >>> repaired_share(1.0, 1e-8, 1)
    Share(epsilon=1.0, delta=1e-08)
    """
    from scipy.optimize import brentq

    _check(epsilon, delta)
    highest = epsilon / math.sqrt(2 * integer("fits", fits) * math.log(2 / delta))
    each = brentq(lambda e: composed_epsilon(e, fits, delta / 2) - epsilon, 0.0, highest, xtol=1e-15 * highest)
    while composed_epsilon(each, fits, delta / 2) > epsilon:
        each *= 1 - 2.0**-50
    return Share(epsilon / fits, delta / fits) if each * fits <= epsilon else Share(each, delta / (2 * fits))


def composed_epsilon(epsilon: float, fits: int, slack: float) -> float:
    """Advanced composition in its general form: the epsilon of D fits of this epsilon each, at ``slack`` more delta."""
    return fits * epsilon * math.expm1(epsilon) + epsilon * math.sqrt(2 * fits * math.log(1 / slack))


def epsilon_cost(sigma: float, ridge: float, *, delta: float, fits: int, dim: int, capacity: int) -> float:
    """The proven epsilon of D fits with this sigma and ridge, for |x| <= 1, however they were calibrated."""
    divergences = integer("fits", fits) * renyi_curve(ORDERS, sigma, ridge, dim, capacity)
    return epsilon_of_renyi(ORDERS, divergences, delta)


def calibrate_epsilon(
    epsilon: float,
    delta: float,
    *,
    fits: int,
    dim: int,
    capacity: int,
    calibration: Calibration = "sound",
) -> Perturbation:
    """The sigma and ridge of each of D fits that together must be (epsilon, delta)-private.

    Args:
        epsilon: Epsilon of all fits together.
        delta: Delta of all fits together.
        fits: D, the most fits.
        dim: d.
        capacity: K.
        calibration: "sound" inverts ``epsilon_cost`` at the least d sigma² + ridge²; "repaired" and "paper" split
            first. The paper's q is 1/2.

    >>> calibrate_epsilon(1.0, 1e-8, fits=1, dim=5, capacity=10)
    Perturbation(sigma=23.3..., ridge=29.4...)
    """
    one_of("calibration", calibration, get_args(Calibration))
    if calibration == "paper":
        rank = printed_rank(dim, capacity)
        return printed_algorithm(*printed_share(epsilon, delta, fits), lipschitz=LIPSCHITZ, rank=rank, dim=dim)
    if calibration == "repaired":
        return repaired_theorem(*repaired_share(epsilon, delta, fits), choice_loss(dim, capacity), dim=dim)
    _check(epsilon, delta)
    loss = choice_loss(dim, capacity)
    # the curve is converted at finitely many orders, which asks for slightly more noise than the tight conversion
    floor = FLOOR_ROOM * loss.difference / math.sqrt(2 * rho_of(epsilon, delta) / integer("fits", fits))
    return least_error(
        lambda sigma, ridge: epsilon_cost(sigma, ridge, delta=delta, fits=fits, dim=dim, capacity=capacity),
        epsilon,
        dim=dim,
        sigma_floor=floor,
        ridge_floor=RIDGE_FLOOR * loss.trace,
    )


def _roots(epsilon: float, log_term: float, dim: int, q: float) -> float:
    """``sqrt(Q) + sqrt(Q + 2 q eps)``, Q = d + 2 sqrt(d log_term) + 2 log_term."""
    quantile = integer("dim", dim) + 2 * math.sqrt(dim * log_term) + 2 * log_term
    return math.sqrt(quantile) + math.sqrt(quantile + 2 * q * epsilon)


def _check(epsilon: float, delta: float, q: float = 0.5) -> None:
    positive("epsilon", epsilon)
    require(0 < delta < 1, "delta must be in (0, 1)", delta=delta)
    require(0 < q < 1, "q must be between 0 and 1", q=q)
