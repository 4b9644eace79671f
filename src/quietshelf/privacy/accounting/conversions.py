"""Convert rho to (epsilon, delta) and back.

``epsilon_of`` and ``rho_of`` are the tight pair; the others are the paper's own conversions, kept to reproduce it, and
the exact epsilon of one Gaussian release. With r = alpha - 1 > 0 every order gives a valid

    epsilon(r) = rho (1 + r) + log(r / (1 + r)) + (log(1/delta) - log(1 + r)) / r

(Canonne, Kamath and Steinke 2020, Proposition 12), and its derivative is rho - (log(1/delta) - log(1 + r)) / r²: the
least is where rho r² + log(1 + r) = log(1/delta), whose left side increases. Rounding errors are bounded and added.

Reference: docs/proofs.md, sections 11 and 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.types import as_float, check_shape, positive, require
from quietshelf.privacy.accounting.figures import added_up, at_least_zero, rounded_up

DELTA = 1e-6
"""The delta at which epsilon is stated by default; the promise itself is rho."""
_HALVINGS = 80
_ROUNDING = 2.0**-50
"""Relative error, generously, of a sum of three terms of a few float operations each."""
_SPECIAL = 1e-13
"""Relative error that SciPy's erfcx and ndtr stay within."""


def epsilon_of(rho: float, delta: float) -> float:
    """The least epsilon such that every rho-zCDP mechanism is known to be (epsilon, delta)-private.

    >>> round(epsilon_of(1.0, 1e-8), 2)
    8.98
    """
    rho, log_inverse = at_least_zero("rho", rho), _log_inverse(delta)
    if rho == 0 or math.isinf(rho):
        return rho
    order = _root(
        lambda r: rho * r * r + math.log1p(r) > log_inverse,
        low=min(math.sqrt(log_inverse / 2 / rho), math.expm1(log_inverse / 2)),
        high=min(math.sqrt(log_inverse / rho), math.expm1(min(log_inverse, 700.0))),
    )
    return _epsilon_at(order, rho * (1 + order), log_inverse)


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho whose ``epsilon_of`` is at most epsilon: what may be spent, never overstated.

    >>> round(rho_of(8.98, 1e-8), 2), epsilon_of(rho_of(2.0, 1e-6), 1e-6) <= 2.0
    (1.0, True)
    """
    epsilon, log_inverse = at_least_zero("epsilon", epsilon), _log_inverse(delta)
    if math.isinf(epsilon):
        return epsilon

    def below(r: float) -> bool:  # at the best order rho r² = log(1/delta) - log(1 + r); then epsilon decreases in r
        return (log_inverse - math.log1p(r)) / r / r * (1 + 2 * r) - math.log1p(1 / r) < epsilon

    r = _root(below, low=1e-150, high=math.expm1(min(log_inverse, 700.0)))
    rho = max(0.0, (log_inverse - math.log1p(r)) / r / r)
    return _step_down(rho, lambda smaller: epsilon_of(smaller, delta) <= epsilon)


def rho_from(rho: float | None, epsilon: float | None, delta: float | None, *, log: float = 0.0) -> float:
    """A budget in zCDP, given as rho or as epsilon and delta.

    An epsilon also holds for people in the log behind the prior: the cost of that log is subtracted. A rho is used as
    given.

    >>> rho_from(0.5, None, None), rho_from(None, 2.0, 1e-6) == rho_of(2.0, 1e-6)
    (0.5, True)
    >>> rho_from(0.5, 2.0, None)
    Traceback (most recent call last):
    ...
    ValueError: give rho, or epsilon and delta together, got rho=0.5, epsilon=2.0, delta=None
    >>> epsilon_of(rho_from(None, 2.0, 1e-6, log=0.05) + 0.05, 1e-6) <= 2.0
    True
    >>> rho_from(None, 2.0, 1e-6, log=0.1)
    Traceback (most recent call last):
    ...
    ValueError: epsilon must be above 2.142, what the log behind the prior costs at delta=1e-06, got epsilon=2.0
    """
    if rho is not None and epsilon is None and delta is None:
        return rho
    if rho is None and epsilon is not None and delta is not None:
        total = rho_of(epsilon, delta)
        rest = _step_down(max(total - log, 0.0), lambda smaller: added_up([smaller, log]) <= total)
        least = rounded_up(epsilon_of(log, delta))
        rule = f"epsilon must be above {least}, what the log behind the prior costs at {delta=}"
        require(log == 0 or rest > 0, rule, epsilon=epsilon)
        return rest
    raise ValueError(f"give rho, or epsilon and delta together, got {rho=}, {epsilon=}, {delta=}")


def epsilon_classic(rho: float, delta: float) -> float:
    """The conversion of the paper's lemma, rho + 2 sqrt(rho log(1/delta)): valid, but not tight."""
    rho = at_least_zero("rho", rho)
    return rho + 2 * math.sqrt(rho * _log_inverse(delta))


def epsilon_text(rho: float, horizon: float) -> float:
    """The conversion in the paper's text, rho + 4 rho log T: not the lemma at any delta; for reproduction only."""
    require(positive("horizon", horizon) >= 1, "horizon must be at least 1", horizon=horizon)
    return at_least_zero("rho", rho) * (1 + 4 * math.log(horizon))


def epsilon_of_renyi(orders: ArrayLike, divergences: ArrayLike, delta: float) -> float:
    """Epsilon from bounds on the Rényi divergence at finitely many orders above 1; NaN is unknown, hence infinite.

    >>> round(epsilon_of_renyi([4.0, 5.0, 6.0], [4.0, 5.0, 6.0], 1e-8), 2)
    8.98
    """
    alpha, bounds, log_inverse = as_float("orders", orders), as_float("divergences", divergences), _log_inverse(delta)
    require(alpha.ndim == 1 and alpha.size > 0, "orders must be a list of one or more", shape=alpha.shape)
    check_shape("divergences", bounds, alpha.shape)
    require(bounds.ndim == 1, "divergences must be one for each order", shape=bounds.shape)
    require(bool(np.all((alpha > 1) & np.isfinite(alpha))), "orders must be finite and above 1", orders=orders)
    bounds = np.where(np.isnan(bounds), np.inf, bounds)
    require(bool(np.all(bounds >= 0)), "divergences must be at least zero", divergences=divergences)
    return min(_epsilon_at(a - 1, bound, log_inverse) for a, bound in zip(alpha.tolist(), bounds.tolist(), strict=True))


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """The exact epsilon of one Gaussian release, mu = sensitivity / noise (Balle and Wang 2018), from above.

    >>> round(epsilon_of_gaussian(2**0.5, 1e-8), 2)
    8.53
    """
    mu, log_inverse = at_least_zero("mu", mu), _log_inverse(delta)
    high = epsilon_of(math.nextafter(mu * mu / 2, math.inf) if mu > 0 else 0.0, delta)
    if high == 0 or math.isinf(high) or _log_gaussian_delta(mu, 0.0) <= -log_inverse:
        return high if math.isinf(high) else 0.0
    low = 0.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _log_gaussian_delta(mu, middle) <= -log_inverse else (middle, high)
    return high


def _log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Log of Phi(a) - e^epsilon Phi(b), a = mu/2 - epsilon/mu, b = a - mu, from above.

    Free of overflow because e^epsilon phi(b) = phi(a) and Phi(-x) = phi(x) sqrt(pi/2) erfcx(x / sqrt 2).
    """
    from scipy.special import erfcx, ndtr

    a = mu / 2 - epsilon / mu
    tail = math.sqrt(math.pi / 2) * float(erfcx((mu - a) / math.sqrt(2)))
    log_density = -a * a / 2 - math.log(2 * math.pi) / 2
    if a > 0:
        return math.log(float(ndtr(a)) - math.exp(log_density) * tail + _SPECIAL)
    head = math.sqrt(math.pi / 2) * float(erfcx(-a / math.sqrt(2)))
    return log_density + math.log(head - tail + _SPECIAL * head) + _ROUNDING * -a * (mu / 2 + epsilon / mu)


def _log_inverse(delta: float) -> float:
    ok = isinstance(delta, (int, float, np.floating)) and 0 < delta < 1
    require(ok, "delta must be in (0, 1)", delta=delta)
    return -math.log(delta)


def _epsilon_at(r: float, divergence: float, log_inverse: float) -> float:
    """Epsilon from the divergence at order 1 + r, with its rounding error added."""
    terms = (divergence, -math.log1p(1 / r), log_inverse / r, -math.log1p(r) / r)
    return max(0.0, math.fsum(terms) + _ROUNDING * math.fsum(map(abs, terms)))


def _root(above: Callable[[float], bool], *, low: float, high: float) -> float:
    """Where an increasing condition turns true, between two positive numbers, by halving their ratio."""
    low, high = math.log(low), math.log(high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if above(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _step_down(value: float, allowed: Callable[[float], bool]) -> float:
    """The value, or the first allowed one a few roundings below it; zero is always allowed."""
    step = 2.0**-53
    while value > 0 and not allowed(value):
        step *= 2
        value *= 1 - step
    return value
