"""A prior for the tests, as a fit of a log would write it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quietshelf.curation.prior_file import PriorFile


def prior(**changes: Any) -> PriorFile:
    """Tastes for age and price, map concat: the cheap, and the more so the more is known."""
    return PriorFile(
        **{
            "theta": np.array([-1.0, 0.2, -0.8]),
            "precision": np.array([[40.0, 1.0, 2.0], [1.0, 30.0, 0.0], [2.0, 0.0, 90.0]]),
            "feature_map": "concat",
            "visitor_names": ("visitor_age",),
            "item_names": ("price",),
            "scales": {"visitor_age": (40.0, 15.0), "price": (120.0, 40.0)},
            "rho": 0.75,
            "unit": "person",
            "statement": "rho = 0.75 to each person.",
            **changes,
        }
    )


def not_private(**changes: Any) -> PriorFile:
    """One whose log was prepared by its own data."""
    return prior(rho=math.inf, statement="No privacy is promised.", **changes)
