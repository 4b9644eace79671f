"""Weights, revenues and constraints -> the assortment with the largest expected revenue, exactly.

`best` checks its arguments; `items_for` does not, for loops that run ten thousand times a second.
"""

from quietshelf.model.assortment.choose import best
from quietshelf.model.assortment.solver import Assortment, items_for
from quietshelf.model.assortment.top_k import top_k
from quietshelf.model.assortment.uniform import equal_revenue

__all__ = ["Assortment", "best", "equal_revenue", "items_for", "top_k"]
