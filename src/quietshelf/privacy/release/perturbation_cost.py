"""The cost of a private fit of the choice model, and the noise and ridge for a given cost.

Three calibrations, each a pair of inverses ``calibrate`` and ``cost``:

    "sound"       the envelope of Theorem A and bound (B); sigma grows as 1/sqrt(rho)
    "mean-width"  bound (B) alone: the paper's argument with its constants repaired; sigma grows as 1/rho
    "paper"       Theorem 1 with the constants as printed (L = 2, eta = 4, R = min(d, K-1), q = 1/2): the claim

``cost`` under "sound" is the proven cost of any sigma and ridge, however they were calibrated. Features must have
|x| <= 1 (up to rounding in clipping), else nothing is proven. d = 5, K = 10, rho = 1: sigma 3.4 and ridge 3.2
against the paper's 18.7 and 38.

Reference: docs/proofs.md, sections 9 to 11.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal, get_args

from numpy.typing import ArrayLike

from quietshelf.model.types import FloatArray, integer, one_of, positive
from quietshelf.privacy.release.perturbation_curves import (
    RIDGE_FLOOR,
    Loss,
    Perturbation,
    mean_length,
    proven_rho,
    renyi_bound,
    repaired_rho,
)
from quietshelf.privacy.release.perturbation_paper import printed_perturbation, printed_rho, theorem_one_repaired
from quietshelf.privacy.release.perturbation_search import SHARES, least_error, log_error, not_above

Calibration = Literal["sound", "mean-width", "paper"]
RADIUS = 1 + 2e-12
"""The largest norm of a feature after clipping to 1 in float64; every constant allows for it."""


def choice_loss(dim: int, capacity: int) -> Loss:
    """The constants of one visitor's loss, |x| <= 1: G = 4, h = 1, R = min(d, K) and W; smaller for K = 1.

    >>> choice_loss(5, 10).rank, round(choice_loss(5, 10).width, 3), round(choice_loss(5, 1).width, 3)
    (5, 4.255, 0.798)
    """
    rank = min(integer("dim", dim), integer("capacity", capacity))
    if capacity == 1:
        width = math.sqrt(2 / math.pi)
        return Loss(difference=2 * RADIUS, trace=RADIUS**2 / 4, rank=1, width=width * RADIUS)
    width = 2 * min(mean_length(rank), math.sqrt(2 * math.log(capacity + 1)))
    return Loss(difference=4 * RADIUS, trace=RADIUS**2, rank=rank, width=width * RADIUS)


@lru_cache(maxsize=256)  # every fit of a run asks for the same cost
def cost(sigma: float, ridge: float, dim: int, capacity: int, calibration: Calibration = "sound") -> float:
    """The rho of one fit; infinite without noise or ridge.

    >>> sigma, ridge = calibrate(0.9 / 57, 5, 10, "paper")
    >>> round(cost(sigma, ridge, 5, 10, "paper"), 4), f"{cost(sigma, ridge, 5, 10):.2e}"
    (0.0158, '7.45e-06')
    """
    one_of("calibration", calibration, get_args(Calibration))
    if calibration == "paper":
        return printed_rho(sigma, ridge, dim, capacity) if sigma > 0 and ridge > 0 else math.inf
    price = proven_rho if calibration == "sound" else repaired_rho
    return price(sigma, ridge, choice_loss(dim, capacity))


def calibrate(rho: float, dim: int, capacity: int, calibration: Calibration = "sound") -> Perturbation:
    """The sigma and ridge of a fit that costs rho: never more, and less only by rounding.

    Except for "paper", they minimise ``d sigma² + ridge²``, the squared error they add to the first-order condition
    if theta is at distance 1 from the centre.

    Args:
        rho: Budget of this fit.
        dim: d.
        capacity: K.
        calibration: The theorem to use.

    >>> calibrate(1.0, 5, 10)
    Perturbation(sigma=3.3..., ridge=3.1...)
    """
    one_of("calibration", calibration, get_args(Calibration))
    positive("rho", rho)

    def price(sigma: float, ridge: float) -> float:
        return cost(sigma, ridge, dim, capacity, calibration)

    if calibration == "paper":
        return not_above(price, rho, printed_perturbation(rho, dim, capacity))
    loss = choice_loss(dim, capacity)
    if calibration == "mean-width":
        return not_above(price, rho, _by_mean_width(rho, loss, dim=dim))
    floors = {"sigma_floor": loss.difference / math.sqrt(2 * rho), "ridge_floor": RIDGE_FLOOR * loss.trace}
    return least_error(price, rho, dim=dim, **floors)


def renyi_curve(orders: ArrayLike, sigma: float, ridge: float, dim: int, capacity: int) -> FloatArray:
    """The proven Rényi divergence of one fit at each order: sum over fits, then convert once.

    >>> from quietshelf.privacy.accounting import epsilon_of_renyi
    >>> orders = [5.0, 10.0, 20.0, 40.0]
    >>> round(epsilon_of_renyi(orders, 57 * renyi_curve(orders, 500.0, 500.0, 5, 10), 1e-8), 2)
    0.43
    """
    return renyi_bound(orders, sigma, ridge, choice_loss(dim, capacity))


def _by_mean_width(rho: float, loss: Loss, *, dim: int) -> Perturbation:
    from scipy.optimize import minimize_scalar

    def weight(q: float) -> float:
        return log_error(theorem_one_repaired(rho, loss, q=q), dim=dim)

    best = minimize_scalar(weight, bounds=SHARES, method="bounded", options={"xatol": 1e-6})
    return theorem_one_repaired(rho, loss, q=float(best.x))
