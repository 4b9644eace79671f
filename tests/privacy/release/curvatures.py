"""The curvature of a catalogue in closed form, to check samples and declared scales against."""

from __future__ import annotations

import numpy as np

from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.geometry import _selected, curvature_at_zero


def catalogue_curvature(
    items: FloatArray, feature_map: FeatureMap, *, visitor_scale: FloatArray, capacity: int
) -> FloatArray:
    """Γ0 of a catalogue (N, d2) under a feature map, visitor features declared independent, mean 0, of given scales.

    Every map's x is a selection of (1, u) ⊗ (1, v), and u is independent of the subset drawn, so the curvature is that
    selection of E[(1,u)(1,u)'] ⊗ (curvature of (1, v)).
    """
    item = np.concatenate([np.ones((len(items), 1)), items], axis=1)
    mean = item.mean(axis=0)
    inner = curvature_at_zero(item.T @ item / len(items), np.outer(mean, mean), items=len(items), capacity=capacity)
    return _selected(inner, feature_map, visitor_scale)
