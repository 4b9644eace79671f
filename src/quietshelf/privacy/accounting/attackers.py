"""What a promise means for an attacker: how often an attack can succeed at a given false-alarm rate.

A test answers "first" or "second" world. Its ``power`` is how often it answers "first" in the first world, its
``level`` how often in the second. Post-processing cannot increase a divergence, so rates alone prove a loss, and rho
limits them (docs/proofs.md, sections 1, 3 and 11).
"""

from __future__ import annotations

import math

import numpy as np

from quietshelf.model.types import FloatArray

ORDERS = 1.0 + np.geomspace(1e-3, 1e3, 121)
"""Rényi orders tried besides 1; each gives a valid bound."""
HALVINGS = 60


def rho_of_rates(level: FloatArray, power: FloatArray) -> FloatArray:
    """The least rho under which zCDP allows a test of this level and power: ``max over alpha of D_alpha / alpha``.

    The larger of both directions. It increases in power and decreases in level, so bounds on the rates can replace
    them.
    """
    a, b = np.broadcast_arrays(np.asarray(level, dtype=np.float64), np.asarray(power, dtype=np.float64))
    a, b = np.clip(a, 1e-300, 1.0)[..., None], np.clip(b, 0.0, 1.0 - 2.0**-53)[..., None]
    found = np.maximum(_ratio(b, a), _ratio(a, b))
    return np.where(b[..., 0] > a[..., 0], np.maximum(found, 0.0), 0.0)


def _ratio(p: FloatArray, q: FloatArray) -> FloatArray:
    """The largest D_alpha/alpha of two coins, over all orders, alpha = 1 (Kullback-Leibler) included."""
    with np.errstate(divide="ignore", invalid="ignore"):
        yes, no = np.log(p) - np.log(q), np.log1p(-p) - np.log1p(-q)
        divergence = np.where(p > 0, p * yes, 0.0) + np.where(p < 1, (1 - p) * no, 0.0)
        terms = np.log(p) + (ORDERS - 1) * yes, np.log1p(-p) + (ORDERS - 1) * no
        renyi = np.logaddexp(*(np.where(np.isnan(term), -np.inf, term) for term in terms)) / (ORDERS - 1) / ORDERS
    return np.asarray(np.fmax(divergence[..., 0], renyi.max(axis=-1)))


def power_under_zcdp(level: FloatArray, rho: float) -> FloatArray:
    """The largest power of any test of this level against any rho-zCDP mechanism.

    >>> [round(float(power_under_zcdp(np.array(0.01), rho)), 3) for rho in (0.1, 1.0, 5.0)]
    [0.035, 0.261, 0.994]
    """
    low = np.array(level, dtype=np.float64)
    high = np.ones_like(low)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        allowed = rho_of_rates(np.asarray(level), middle) <= rho
        low, high = np.where(allowed, middle, low), np.where(allowed, high, middle)
    return high


def power_under_gaussian(level: FloatArray, rho: float) -> FloatArray:
    """The largest power against one Gaussian release, or a run of `quiet`: ``Phi(Phi^-1(level) + sqrt(2 rho))``."""
    from scipy.special import ndtr, ndtri

    return np.asarray(ndtr(ndtri(np.asarray(level)) + math.sqrt(2 * rho)))
