"""How long the paper's theory explores: nothing in the product rests on it, because it exceeds every horizon."""

from __future__ import annotations

import math
from dataclasses import replace

from quietshelf.privacy.release import theory


def error_constant(*, dim: int, capacity: int, horizon: int, rho: float, fits: int) -> float:
    """C_(rho1,T) of the lemma "mle bound l2 norm": the information after which |theta_t - theta*| <= 1.

    Read differently: the equation "mle estimation error" bounds a norm by this square; the norm's bound is its root, as
    the lemma uses it. The root is alpha_T without what lambda adds.
    """
    alpha = theory.radius(dim=dim, capacity=capacity, horizon=horizon, rho=rho, fits=fits, shift=1.0)
    return replace(alpha, shifted=0.0)(horizon) ** 2


def exploration(
    constant: float, *, dim: int, capacity: int, horizon: int, eigenvalue: float, c1: float, c2: float
) -> int:
    """T0 of the regret theorem, rounded upwards.

    Read differently: the theorem asks for information C, its lemma for max(C, K); the maximum is taken. The text calls
    T0 of order log T / rho1; by C it is of order log T / rho1².

    Args:
        constant: C_(rho1,T), as ``error_constant`` gives it.
        dim: d.
        capacity: K.
        horizon: T.
        eigenvalue: sigma0, the least eigenvalue of E[x x'] (Assumption 1).
        c1: The universal constant C1, which the paper does not give.
        c2: The universal constant C2, which it does not give either.
    """
    reach = c1 * math.sqrt(dim) + c2 * math.sqrt(2 * math.log(horizon))
    return math.ceil((reach / eigenvalue) ** 2 / capacity + 2 * max(constant, capacity) / (capacity * eigenvalue))
