"""The slow and certain way: every allowed set, one by one, in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quietshelf.model.types import BoolArray

AllowedSets = Callable[..., BoolArray]
ExactValue = Callable[[Sequence[Any], Sequence[Any], BoolArray], Any]


@pytest.fixture(scope="session")
def allowed_sets() -> AllowedSets:
    """Every subset that the constraints of `best` allow, as masks (M, N)."""

    def enumerate_all(
        items: int,
        *,
        capacity: int,
        available: BoolArray | None = None,
        required: BoolArray | None = None,
        exactly: bool = False,
        groups: Any = None,
        limits: Any = None,
    ) -> BoolArray:
        sets: BoolArray = (np.arange(2**items)[:, None] >> np.arange(items)) & 1 == 1
        size = sets.sum(axis=1)
        fits = size == capacity if exactly else size <= capacity
        if available is not None:
            fits &= ~(sets & ~available).any(axis=1)
        if required is not None:
            fits &= (sets | ~required).all(axis=1)
        for group, limit in enumerate([] if limits is None else limits):
            fits &= sets[:, np.asarray(groups) == group].sum(axis=1) <= limit
        allowed: BoolArray = sets[fits]
        return allowed

    return enumerate_all


@pytest.fixture(scope="session")
def exact_value() -> ExactValue:
    """Expected revenue of one set from exact weights and revenues (Fraction or Decimal)."""

    def value(weight: Sequence[Any], revenue: Sequence[Any], shown: BoolArray) -> Any:
        places: list[int] = np.flatnonzero(shown).tolist()
        none = type(weight[0])(0)
        earned = sum((weight[i] * revenue[i] for i in places), none)
        return earned / (1 + sum((weight[i] for i in places), none))

    return value


@pytest.fixture(scope="session")
def fractions() -> Callable[[Any], list[Fraction]]:
    """Doubles as fractions; an infinite weight as 2^8192, beyond which nothing changes."""
    return lambda values: [Fraction(2) ** 8192 if np.isinf(x) else Fraction(float(x)) for x in values]
