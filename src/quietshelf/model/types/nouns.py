"""The types that flow round the loop, as frozen data.

context -> utility -> assortment -> choice -> statistics -> release -> next utility

Arrays carry leading batch axes ``...``: none for one visitor, one axis for many parallel worlds. An assortment is an
integer array (..., K) of item indices, with -1 in empty places; a choice is an item index, or -1 for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from quietshelf.model.types.inverse import symmetric_inverse
from quietshelf.model.types.validation import BoolArray, FloatArray, IntArray

Id = str | int
"""What a shop calls an item: its id, or its index if the shop gave no ids."""
NOTHING = -1
"""An empty place in an assortment, and the choice of no item."""


@runtime_checkable
class Features(Protocol):
    """The items as one visitor sees them: a vector x of length ``dim`` for each of ``items``, dense or structured."""

    @property
    def items(self) -> int:
        """N, the number of items."""

    @property
    def dim(self) -> int:
        """d, the length of x."""

    def utility(self, theta: FloatArray) -> FloatArray:
        """``x . theta`` of every item, (..., N), for theta (..., d)."""

    def norm(self, metric: FloatArray) -> FloatArray:
        """``sqrt(x' metric x)`` of every item, (..., N), for a positive semidefinite metric (..., d, d)."""

    def rows(self, items: IntArray) -> FloatArray:
        """The vectors x of the given items (..., K) as (..., K, d); zero where the place is empty."""


@dataclass(frozen=True)
class Context:
    """One visitor: features, what each item earns, and what may be shown.

    Attributes:
        features: The items as this visitor sees them.
        revenue: Earned when an item is chosen, (..., N).
        capacity: K, the most items shown at once.
        available: Items that may be shown, (..., N); None means all.
        required: Items that must be shown, (..., N); None means none.
        groups: Group number of each item, (N,), -1 for items in no group; None means no groups.
        limits: The most items shown of each group, (G,).
        ranks: Position of each item in the shop's present ranking, lowest first, (..., N), infinite for items not in
            it; None without a ranking.
        fill: Whether to show as many items as allowed, even those that lower expected revenue.
    """

    features: Features
    revenue: FloatArray
    capacity: int
    available: BoolArray | None = None
    required: BoolArray | None = None
    groups: IntArray | None = None
    limits: IntArray | None = None
    ranks: FloatArray | None = None
    fill: bool = False


@dataclass(frozen=True)
class Round:
    """One visitor, what they were shown and what they chose: raw, private data that only a curator may read.

    Attributes:
        context: The visitor.
        assortment: Item indices shown, (..., K), -1 where a place is empty.
        choice: Item index chosen, (...), or -1 for none.
        counts: Whether this visitor contributes, (...): False for visits beyond a person's cap, which take a slot but
            contribute zero. None means all contribute.
    """

    context: Context
    assortment: IntArray
    choice: IntArray
    counts: BoolArray | None = None


@dataclass(frozen=True)
class Release:
    """Everything a policy knows about earlier visitors. It is public: it reveals no more than the ledger says.

    Attributes:
        theta: Estimated tastes, (..., d).
        precision: How well they are known, (..., d, d), positive definite: the inverse covariance of theta.
        radius: Standard deviations of optimism added to each utility, (...).
        explore: Whether the curator asks for random assortments for now, (...).
        count: How many releases came before this one, (...).
        draws: Standard deviations by which tastes drawn for each visitor differ from theta, (...); 0 by default.
        version: Schema version of this record.
    """

    arrays: ClassVar[tuple[str, ...]] = ("theta", "precision", "radius", "explore", "count", "draws")
    """The fields that have batch axes."""

    theta: FloatArray
    precision: FloatArray
    radius: FloatArray
    explore: BoolArray
    count: IntArray
    draws: FloatArray = None  # type: ignore[assignment]  # zeros, see below
    version: int = 1

    def __post_init__(self) -> None:
        if self.draws is None:
            object.__setattr__(self, "draws", np.zeros_like(self.radius))

    def each(self) -> dict[str, Any]:
        """The fields in `arrays`, by name."""
        return {name: getattr(self, name) for name in self.arrays}

    @cached_property
    def covariance(self) -> FloatArray:
        """The inverse of ``precision``, computed once per release and shared by all offers made from it."""
        return symmetric_inverse(self.precision)

    @cached_property
    def largest_variance(self) -> FloatArray:
        """The largest eigenvalue of the covariance, (...), computed once per release."""
        return np.asarray(np.linalg.eigvalsh(self.covariance)[..., -1])

    @cached_property
    def root(self) -> FloatArray:
        """A factor of the covariance, ``root root' = covariance``, (..., d, d), computed once per release."""
        lower = np.linalg.cholesky(self.precision)
        return np.ascontiguousarray(np.linalg.inv(lower).mT)


@dataclass(frozen=True)
class Offer:
    """What one visitor was shown.

    Attributes:
        id: Identifies the offer when the answer comes.
        items: Ids of the items shown, or their indices if the shop gave no ids; no empty places.
        release: The number of the release it was made from.
    """

    id: str
    items: tuple[Any, ...]
    release: int
