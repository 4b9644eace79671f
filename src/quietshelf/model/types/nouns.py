"""The nouns on the arrow, as frozen data.

context -> utility -> assortment -> choice -> statistics -> release -> next utility

Arrays carry leading batch axes ``...``: none for one visitor, one for many parallel worlds. An assortment is an integer
array (..., K) of item indices in which -1 marks an empty place; a choice is an item index, or -1 for none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from quietshelf.model.types.inverse import symmetric_inverse
from quietshelf.model.types.validation import BoolArray, FloatArray, IntArray

Id = str | int
"""What a shop calls an item; its index where it gave no ids."""
NOTHING = -1
"""An empty place in an assortment, and the choice of no item."""


@runtime_checkable
class Features(Protocol):
    """What a visitor makes of the items: one vector x of length ``dim`` for each of ``items``, dense or structured."""

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
        ranks: Place of each item in the shop's present ranking, lowest first, (..., N), infinite for items not in it;
            None where there is none.
        fill: Whether as many items are shown as may be, also those that lower expected revenue.
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
    """What happened with one visitor: raw, private data that only a curator may read.

    Attributes:
        context: The visitor.
        assortment: Item indices shown, (..., K), -1 where a place is empty.
        choice: Item index chosen, (...), or -1 for none.
        counts: Whether this visitor may contribute, (...): False for visits beyond a person's cap, which take their
            slot and contribute zero. None means all do.
    """

    context: Context
    assortment: IntArray
    choice: IntArray
    counts: BoolArray | None = None


@dataclass(frozen=True)
class Release:
    """All a policy knows of earlier visitors. Public: whoever sees it learns no more than the ledger says.

    Attributes:
        theta: Estimated tastes, (..., d).
        precision: How well they are known, (..., d, d), positive definite: the information matrix of theta.
        radius: How many standard deviations of optimism an offer adds, (...).
        explore: Whether the curator asks for random assortments for now, (...).
        count: How many releases came before this one, (...).
        draws: How many standard deviations tastes drawn for one visitor differ from theta, (...); none by default.
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
        """The fields that have batch axes, by name."""
        return {name: getattr(self, name) for name in self.arrays}

    @cached_property
    def covariance(self) -> FloatArray:
        """The inverse of ``precision``, computed once a release and shared by all offers made from it."""
        return symmetric_inverse(self.precision)

    @cached_property
    def largest_variance(self) -> FloatArray:
        """The largest eigenvalue of the covariance, computed once a release, (...)."""
        return np.asarray(np.linalg.eigvalsh(self.covariance)[..., -1])

    @cached_property
    def root(self) -> FloatArray:
        """A factor of the covariance, ``root root' = covariance``, computed once a release, (..., d, d)."""
        lower = np.linalg.cholesky(self.precision)
        return np.ascontiguousarray(np.swapaxes(np.linalg.inv(lower), -1, -2))


@dataclass(frozen=True)
class Offer:
    """What one visitor was shown, as an outsider sees it.

    Attributes:
        id: Names the offer when the answer comes.
        items: Ids of the items shown, or their indices where the shop gave none, without empty places.
        release: The number of the release it was made from.
    """

    id: str
    items: tuple[Any, ...]
    release: int
