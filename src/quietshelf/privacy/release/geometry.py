"""Public geometry: a guess of one visitor's curvature from public data, and the coordinates it gives.

Noise is isotropic in the coordinates x' = L x with L Γ L' = I/d, so Γ decides where it falls: features of real items
differ far less than they are long, and noise that is isotropic in raw coordinates drowns what matters. Γ is never
computed from raw rounds: the first one comes from the catalogue and declared scales of visitor features, later ones
from releases. Reference: docs/proofs.md, section 4.
"""

from __future__ import annotations

import numpy as np

from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import FloatArray, finite, integer, require

FLOOR = 0.01
"""Eigenvalues of a curvature are floored at this share of the largest before any use."""
MANY = 10**6
"""Items of a shop whose catalogue is not declared: so many that subsets hardly overlap."""


def curvature_at_zero(second: FloatArray, mean_outer: FloatArray, *, items: int, capacity: int) -> FloatArray:
    """Average curvature of uniformly drawn K-subsets at theta = 0, one visitor per subset, in closed form, (d, d).

    ``K/(K+1) M2 - [K M2 + K(K-1)(N m m' - M2)/(N-1)]/(K+1)²``: the second moment M2 of x over the items minus the outer
    product of the subset's mean; both may be averages over the declared law of visitors.

    Args:
        second: M2, mean of x x' over items.
        mean_outer: m m', outer product of the mean of x over items.
        items: N.
        capacity: K; more than N counts as N.
    """
    k = min(integer("capacity", capacity), integer("items", items))
    pairs = k * (k - 1) * (items * mean_outer - second) / (items - 1) if items > 1 else np.zeros_like(second)
    return k / (k + 1) * second - (k * second + pairs) / (k + 1) ** 2


def scaled_curvature(
    feature_map: FeatureMap, *, visitor_scale: FloatArray, item_scale: FloatArray, capacity: int
) -> FloatArray:
    """Γ0 for features declared independent, of mean zero, with these standard deviations, (d, d)."""
    u, v = finite("visitor_scale", visitor_scale), finite("item_scale", item_scale)
    second, mean_outer = np.diag(np.append(1.0, v**2)), np.diag(np.append(1.0, np.zeros_like(v)))
    return _selected(curvature_at_zero(second, mean_outer, items=MANY, capacity=capacity), feature_map, u)


def unknown_curvature(dim: int) -> FloatArray:
    """Γ0 if nothing is declared: I/d."""
    return np.eye(dim) / dim


def floored(curvature: FloatArray) -> FloatArray:
    """The same matrix with eigenvalues raised to at least 1 % of the largest, (..., d, d)."""
    values, vectors = _eigen(curvature)
    return (vectors * values[..., None, :]) @ vectors.mT


def coordinates(curvature: FloatArray) -> FloatArray:
    """L with L Γ L' = I/d for the floored Γ, (..., d, d)."""
    values, vectors = _eigen(curvature)
    scale = 1.0 / np.sqrt(curvature.shape[-1] * values)
    result: FloatArray = scale[..., :, None] * vectors.mT
    return result


def _selected(inner: FloatArray, feature_map: FeatureMap, visitor_scale: FloatArray) -> FloatArray:
    """The part of E[(1,u)(1,u)'] ⊗ (curvature of (1, v)) that a map selects, (d, d)."""
    outer = np.kron(np.diag(np.append(1.0, visitor_scale**2)), inner)
    index = feature_map.in_product(visitor_scale.size, len(inner) - 1)
    return np.asarray(outer[np.ix_(index, index)])


def _eigen(curvature: FloatArray) -> tuple[FloatArray, FloatArray]:
    values, vectors = np.linalg.eigh(curvature)
    top = values[..., -1:]
    require(bool((top > 0).all()), "a curvature must have a positive eigenvalue", largest=float(top.min()))
    return np.maximum(values, FLOOR * top), vectors
