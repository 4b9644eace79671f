"""Find the noise and ridge of least error among all that cost the same.

The price falls in sigma and in the ridge, so one can be traded for the other. Both add an error to the first-order
condition of the fit: d sigma² on average from the noise, ridge² from the pull towards a centre at distance 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from quietshelf.model.types import require
from quietshelf.privacy.release.perturbation_curves import Perturbation

Price = Callable[[float, float], float]
"""The price of a sigma and a ridge."""
SHARES = (1e-6, 1 - 1e-6)
"""The least possible variance of b relative to the one chosen: from only noise to only ridge."""
LARGEST = 1e30


def least_error(price: Price, budget: float, *, dim: int, sigma_floor: float, ridge_floor: float) -> Perturbation:
    """The pair of least ``d sigma² + ridge²`` among those that cost the budget.

    Args:
        price: Falls in both arguments.
        budget: What may be spent.
        dim: d.
        sigma_floor: The sigma that an infinite ridge would need; every larger one must be allowed with some ridge.
        ridge_floor: The smallest ridge to consider.
    """
    from scipy.optimize import minimize_scalar  # importing takes a third of a second: only when calibrating

    def at(share: float) -> Perturbation:
        sigma = sigma_floor / math.sqrt(share)
        return Perturbation(sigma, _least_ridge(lambda ridge: price(sigma, ridge), budget, ridge_floor))

    def weight(share: float) -> float:
        return log_error(at(share), dim=dim)

    best = minimize_scalar(weight, bounds=SHARES, method="bounded", options={"xatol": 1e-5})
    sigma, ridge = at(float(best.x))
    # spend what is left on less noise; if the ridge is at its floor that can be much
    exact = _root(lambda s: price(s, ridge), budget, sigma_floor / 2, 2 * sigma)
    return not_above(price, budget, Perturbation(exact, ridge))


def log_error(found: Perturbation, *, dim: int) -> float:
    """``log(d sigma² + ridge²)``."""
    return math.log(dim * found.sigma**2 + found.ridge**2)


def not_above(price: Price, budget: float, found: Perturbation) -> Perturbation:
    """Raise sigma by the little it takes to stay within the budget."""
    sigma, step = found.sigma, 2.0**-52
    while price(sigma, found.ridge) > budget:
        sigma, step = sigma * (1 + step), 2 * step
    return Perturbation(sigma, found.ridge)


def _least_ridge(price: Callable[[float], float], budget: float, lowest: float) -> float:
    if price(lowest) <= budget:
        return lowest
    enough = 4 * lowest
    while price(enough) > budget:
        require(enough < LARGEST * lowest, "no ridge brings the price down to the budget", budget=budget)
        enough *= 4
    return _root(price, budget, enough / 4, enough)


def _root(price: Callable[[float], float], budget: float, low: float, high: float) -> float:
    """Where a falling price meets the budget, to a relative 1e-13."""
    from scipy.optimize import brentq

    def excess(log_value: float) -> float:
        return math.log(price(math.exp(log_value)) / budget)

    return math.exp(brentq(excess, math.log(low), math.log(high), xtol=1e-13))
