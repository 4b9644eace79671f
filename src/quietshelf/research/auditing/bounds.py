"""From error rates of an attack to lower bounds on the privacy lost; every figure errs in the mechanism's favour.

An attack guesses "first" or "second" world. Clopper-Pearson bounds limit its rates: at least ``power`` of the first
worlds are called first, at most ``level`` of the second. Post-processing cannot increase a divergence, whatever the
mechanism is, so the rates alone prove a loss (docs/proofs.md, sections 1 and 11). `accounting.attackers` turns them
into rho.
"""

from __future__ import annotations

import math

import numpy as np

from quietshelf.model.types import FloatArray, IntArray


def at_least(hits: IntArray | int, runs: int, error: float) -> FloatArray:
    """Clopper-Pearson lower bound on a probability that gave ``hits`` of ``runs``; fails with chance ``error``."""
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1.0), runs - k + 1.0, error), 0.0)


def at_most(hits: IntArray | int, runs: int, error: float) -> FloatArray:
    """Clopper-Pearson upper bound.

    >>> round(float(at_most(0, 1000, 0.05)), 4)  # the rule of three
    0.003
    """
    return np.asarray(1.0 - at_least(runs - np.asarray(hits), runs, error))


def epsilon_of_rates(level: FloatArray, power: FloatArray, delta: float) -> FloatArray:
    """The smallest epsilon at which (epsilon, delta)-privacy allows a test of this level and power."""
    a, b = np.asarray(level, dtype=np.float64), np.asarray(power, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        forth = np.log(b - delta) - np.log(a)
        back = np.log1p(-a - delta) - np.log1p(-b)
    return np.asarray(np.fmax(np.fmax(forth, back), 0.0))


def mu_of_rates(level: FloatArray, power: FloatArray) -> FloatArray:
    """The smallest shift of a unit Gaussian that allows a test of this level and power."""
    from scipy.special import ndtri

    return np.maximum(ndtri(np.asarray(power)) - ndtri(np.asarray(level)), 0.0)


def divergence_at_least(first: FloatArray, second: FloatArray, error: float, *, low: float, high: float) -> float:
    """Donsker and Varadhan's bound ``E_P[g] - log E_Q[exp g] <= D_1(P||Q) <= rho`` from draws of any bounded g.

    Args:
        first: g of draws from P, in [low, high].
        second: g of draws from Q, in [low, high].
        error: The chance that the answer is too large.
        low: Lower bound of g.
        high: Upper bound of g.
    """
    mean = first.mean() - _slack(first, high - low, error / 2)
    tilted = np.exp(second)
    top = tilted.mean() + _slack(tilted, math.exp(high) - math.exp(low), error / 2)
    return max(0.0, float(mean - math.log(top)))


def _slack(values: FloatArray, width: float, error: float) -> float:
    """Maurer and Pontil's empirical Bernstein bound on the error of a mean of bounded draws."""
    count, weight = values.size, math.log(2 / error)
    return math.sqrt(2 * float(values.var(ddof=1)) * weight / count) + 7 * width * weight / (3 * (count - 1))
