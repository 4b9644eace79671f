"""`best`: the solver with its arguments checked."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from quietshelf.model.assortment import checks
from quietshelf.model.assortment.solver import Assortment, answer, make_rules
from quietshelf.model.types import BoolArray, IntArray, integer, require


def best(
    weight: ArrayLike | None = None,
    revenue: ArrayLike | None = None,
    *,
    capacity: int,
    utility: ArrayLike | None = None,
    available: BoolArray | IntArray | Sequence[int] | Sequence[bool] | None = None,
    required: BoolArray | IntArray | Sequence[int] | Sequence[bool] | None = None,
    exactly: bool = False,
    groups: ArrayLike | None = None,
    limits: ArrayLike | None = None,
) -> Assortment:
    """Find the assortment S that maximises ``sum_S r w / (1 + sum_S w)``, exactly, for every problem of the batch.

    Ties: unless it must be shown, an item is left out if its score ``w (r - z)`` at the best expected revenue z is not
    above zero; of equal scores the lower index wins. Items of zero weight, or with revenue zero or less, are thus never
    shown unless required or needed by ``exactly``. Scores are equal if they are equal in double precision.

    Infinite weights are the limit of equal weights that grow without bound: if one is shown, the visitor chooses among
    the shown items of infinite weight, each equally likely, and nothing else.

    Args:
        weight: ``exp(utility)``, (..., N), at least zero, possibly infinite.
        revenue: Revenue of each item if chosen: a number, (N,) or (..., N), within ±1e150.
        capacity: K, the most items shown, from 1 to N.
        utility: An alternative to ``weight``, (..., N), within ±1e300; nothing overflows or underflows.
        available: Items that may be shown: a boolean mask (..., N) or a list of item indices. None means all.
        required: Items that must be shown, in the same form. None means none.
        exactly: Show exactly K items.
        groups: Group number of each item, (N,), -1 for items in no group.
        limits: The most items shown per group, (G,).

    Returns:
        Items (..., K), ascending, -1 for empty places at the end, and their expected revenue (...).

    Raises:
        ValueError: If an argument breaks its rule, or no assortment meets the constraints.

    >>> answer = best([1.0, 2.0, 0.5], [10.0, 6.0, 12.0], capacity=2)
    >>> answer.chosen, float(answer.expected_revenue)
    ((0, 2), 6.4)
    >>> best(utility=[[0.0, 1.0], [0.0, 1e4]], revenue=[3.0, 1.0], capacity=2).items
    array([[ 0, -1], [ 0, -1]])
    """
    require((weight is None) != (utility is None), "exactly one of weight and utility must be given")
    require(revenue is not None, "revenue must be given", revenue=revenue)
    attraction = checks.weight(weight) if utility is None else checks.utility(utility)
    items = attraction.shape[-1]
    earned = checks.revenue(revenue, items)
    integer("capacity", capacity, high=items, high_name="items")
    require(isinstance(exactly, checks.BOOLEAN), "exactly must be True or False", exactly=exactly)
    allowed, needed = checks.mask("available", available, items), checks.mask("required", required, items)
    group, limit = checks.groups(groups, limits, items)
    shape = checks.common_shape(weight=attraction, revenue=earned, available=allowed, required=needed)
    rules = make_rules(shape, int(capacity), allowed, needed, bool(exactly), group, limit)
    checks.feasible(rules, limit, shape)
    return answer(attraction, earned, rules, shape, logarithmic=utility is not None)
