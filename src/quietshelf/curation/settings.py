"""The settings of a shelf and its public declarations."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.curation.prior_file import PriorFile
from quietshelf.curation.stock import Stock
from quietshelf.data.tables import Schema
from quietshelf.model.choice.maps import FeatureMap, feature_map
from quietshelf.model.types import FloatArray, finite, integer, one_of, positive, require
from quietshelf.policies import PRESENT
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics.pair import ROUNDING_ROOM

SERVED = ("quiet", "uniform")
"""Policies a shelf can serve. Both make the releases of `quiet`; `uniform` still shows items at random."""
OnNoAnswer = Literal["no-choice", "zero"]


@dataclass(frozen=True, kw_only=True)
class ShelfSettings:
    """Settings of a shelf.

    Attributes:
        rho: The promise to one person for the shelf's lifetime, in zCDP.
        visits: How many visits of one person count, at most one per batch; above 1 every offer needs a person.
        window: Time from a batch's last arrival to its release, on the clock in use: seconds, or arrivals.
        on_no_answer: Whether an unanswered offer counts as choosing nothing, or contributes zero.
        capacity: K, the most items shown.
        fill: Whether to show as many items as allowed, even those that lower expected revenue.
        policy: How offers are made.
        feature_map: Name of the map from visitor and item features to x; None if each offer brings x for every item.
        intercept: Whether the map keeps its 1.
        dim: d, if each offer brings x for every item.
        item_effects: Number of item effects of the map; the item of index i has the i-th, if there is one.
        visitor_dim: Length of visitor features. It is declared because the first visitor must not decide which
            requests are valid (R1).
        max_batch: The most visitors in a batch.
        forgetting: How much each release makes older ones count less.
        conversion: Declared share of visitors who choose something; None if unknown.
        comparison: Share of rho spent on comparing two arms, learned and present; 0 for no comparison.
        most_revenue: Declared most that one choice earns, required for a comparison: the comparison, and nothing else,
            clips revenue there.
        present: What the present arm shows: the shop's ranking, or random items.
        learned_share: Share of visitors that the learned policy serves; the others see the present arm.
        guard: Whether offers fall back to the present arm once it earns more, with 99 % confidence.
    """

    rho: float
    visits: int = 1
    window: float = 1.0
    on_no_answer: OnNoAnswer = "no-choice"
    capacity: int
    fill: bool = False
    policy: str = "quiet"
    feature_map: str | None = None
    intercept: bool = True
    dim: int | None = None
    item_effects: int = 0
    visitor_dim: int = 0
    max_batch: int | None = None
    forgetting: float = 1.0
    conversion: float | None = None
    comparison: float = 0.0
    most_revenue: float | None = None
    present: Literal["ranking", "random"] = "ranking"
    learned_share: float = 1.0
    guard: bool = True

    def __post_init__(self) -> None:
        integer("visits", self.visits)
        self.learning()  # checks rho
        positive("window", self.window)
        integer("capacity", self.capacity)
        require(isinstance(self.fill, bool), "fill must be True or False", fill=self.fill)
        if self.dim is not None:
            integer("dim", self.dim)
        integer("visitor_dim", self.visitor_dim, low=0)
        known = self.feature_map is not None or not self.item_effects
        require(known, "item_effects need a catalogue", item_effects=self.item_effects)
        self.map  # noqa: B018 - refuses an unknown name
        one_of("policy", self.policy, SERVED)
        one_of("on_no_answer", self.on_no_answer, ("no-choice", "zero"))
        one_of("present", self.present, tuple(PRESENT))
        if self.most_revenue is not None:
            positive("most_revenue", self.most_revenue)
        elif self.comparison:
            advice = "write most_revenue=40 if nobody buys for more than 40, or 1 if every choice counts alike"
            raise ValueError(f"most_revenue must be given with a comparison: {advice}")
        share = self.learned_share
        known = isinstance(share, (int, float)) and 0 <= share <= 1
        require(isinstance(self.guard, bool), "guard must be True or False", guard=self.guard)
        require(known, "learned_share must be a share of visitors, from 0 to 1", learned_share=share)

    @cached_property
    def map(self) -> FeatureMap | None:
        """The feature map; None if each offer brings x for every item."""
        if self.feature_map is None:
            return None
        return feature_map(self.feature_map, intercept=self.intercept, effects=self.item_effects)

    @property
    def needs_ranking(self) -> bool:
        """Whether every offer must have a present ranking, even if the learned policy serves it: validity is public."""
        return self.present == "ranking" and (self.comparison > 0 or self.learned_share < 1)

    def learning(self) -> Quiet:
        """The settings of this shelf's learner."""
        return Quiet(
            rho=self.rho,
            visits=self.visits,
            unit="person" if self.visits > 1 else "visit",
            comparison=self.comparison,
            conversion=self.conversion,
            item_effects=self.item_effects,
            max_batch=self.max_batch,
            forgetting=self.forgetting,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a file."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Public:
    """What the shop declared, without measuring it, about visitors and tastes; affects noise, never the guarantee.

    Attributes:
        visitor_scale: Standard deviation of visitor features, one number or one per feature; None if undeclared.
        curvature: Guess of one visitor's curvature, (d, d), instead of one made from the catalogue.
        prior: Theta (d,) and its precision (d, d) to start from, or a prior learned from a log.
        schema: Meaning of the product table's columns and of visitor attributes, if declared.
    """

    visitor_scale: FloatArray | None
    curvature: FloatArray | None
    prior: tuple[FloatArray, FloatArray] | PriorFile | None
    schema: Schema | None = None

    @property
    def log(self) -> PriorFile | None:
        """The prior, if it was learned from a log."""
        return self.prior if isinstance(self.prior, PriorFile) else None

    @property
    def given(self) -> tuple[FloatArray, FloatArray] | None:
        """The prior, if it was given as theta and precision."""
        return None if isinstance(self.prior, PriorFile) else self.prior

    @classmethod
    def of(
        cls,
        *,
        visitor_scale: ArrayLike | None,
        curvature: ArrayLike | None,
        prior: tuple[ArrayLike, ArrayLike] | PriorFile | None,
    ) -> Public:
        """Validate declarations as far as possible before the items are known."""
        scale = None if visitor_scale is None else finite("visitor_scale", visitor_scale)
        require(scale is None or bool((scale > 0).all()), "visitor_scale must be positive", visitor_scale=visitor_scale)
        return cls(
            scale,
            None if curvature is None else finite("curvature", curvature, shape=(None, None)),
            prior
            if prior is None or isinstance(prior, PriorFile)
            else (finite("prior theta", prior[0]), finite("prior precision", prior[1])),
        )


def declared_dim(name: str, visitor_dim: int | None, visitor_scale: ArrayLike | None) -> int:
    """The declared length of visitor features, from ``visitor_dim`` or from a list of scales.

    >>> declared_dim("concat", None, [1.0, 2.0]), declared_dim("item", None, 1.0)
    (2, 0)
    >>> declared_dim("full", None, 1.0)
    Traceback (most recent call last):
    ...
    ValueError: visitor_dim must be given with feature_map='full': write visitor_dim=3 if visitors have three ...
    """
    listed = np.shape([] if visitor_scale is None else visitor_scale)
    scales = listed[0] if visitor_scale is not None and listed else None
    given = scales if visitor_dim is None else integer("visitor_dim", visitor_dim, low=0)
    if given is None and any(block.visitor for block in feature_map(name).blocks):
        advice = "write visitor_dim=3 if visitors have three features, or feature_map='item' if they have none"
        raise ValueError(f"visitor_dim must be given with feature_map={name!r}: {advice}")
    require(scales in (None, given), f"visitor_dim must be the length of visitor_scale, {scales}", visitor_dim=given)
    return given or 0


def reserved_effects(item_effects: int | bool, items: int) -> int:
    """How many item effects a shelf with ``items`` items reserves.

    >>> reserved_effects(False, 3), reserved_effects(True, 3), reserved_effects(5, 3)
    (0, 3, 5)
    >>> reserved_effects(-1, 3)
    Traceback (most recent call last):
    ...
    ValueError: item_effects must be a whole number from 0 on, got item_effects=-1
    """
    if isinstance(item_effects, bool):
        return items if item_effects else 0
    return integer("item_effects", item_effects, low=0)


def learns_popularity(settings: ShelfSettings, stock: Stock) -> bool:
    """Whether items have effects but no features, so that only their popularity is learned."""
    return settings.item_effects > 0 and stock.catalogue is not None and stock.catalogue.shape[1] == 0


def check_places(settings: ShelfSettings, items: int, features: int) -> None:
    """Refuse items that have neither features nor an effect: nothing would hold them at the level of the others."""
    room = settings.item_effects
    rule = f"items without features must fit the {room} places that item_effects reserves"
    require(features > 0 or items <= room, rule, items=items)


def check_size(settings: ShelfSettings, stock: Stock) -> int:
    """Return d; refuse sizes beyond those for which rounding is proven."""
    dim = settings.dim or 0
    if settings.map is not None and stock.catalogue is not None:
        dim = settings.map.dim(settings.visitor_dim, stock.catalogue.shape[1])
        require(dim > 0, f"features must not be empty for the map {settings.feature_map}")
    size = 7 * settings.capacity + dim
    rule = f"7 capacity + dim must be at most {ROUNDING_ROOM}, up to which rounding is proven"
    require(size <= ROUNDING_ROOM, rule, size=size)
    return dim
