"""Made-up visitors of a shop: drawn from what it declared, with a public seed, and served by its policy.

They shape noise and expectations (`release.outlook`). Nobody real is among them, and their coins are nobody's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from quietshelf.curation.prior_checks import check_items, check_log
from quietshelf.curation.settings import Public, ShelfSettings, check_size
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import NOTHING, PUBLIC_SEED, Context, FloatArray, Policy, Release, balanced_normal, require
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.geometry import unknown_curvature
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.outlook import FACTORS, Moments
from quietshelf.privacy.release.prior import LARGEST, SMALLEST
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import ObservedChoice

VISITORS, MOST_VISITORS = 32, 128
"""Made-up visitors of a batch; more, up to the second number, where there are many item effects to show."""
ITEMS = 256
"""Items of a shop that they choose from, at most; drawn from all where there are more."""
Sample = Callable[[FloatArray], Context]


@dataclass(frozen=True, eq=False)
class MadeUp:
    """An outlook: made-up visitors and a policy.

    Attributes:
        sample: Their contexts, (..., visitors), if features are so many times as large as declared, (...).
        policy: What serves them.
        factors: Those that are thought of.
        lead: Axes of parallel worlds.
        blind: Whether they are a guess where nothing is declared: real visitors may then all see the same.
    """

    sample: Sample
    policy: Policy
    factors: tuple[float, ...] = FACTORS
    lead: tuple[int, ...] = ()
    blind: bool = False

    @cached_property
    def moments(self) -> Moments:
        """Of what they see, by factor."""
        found = [self._moments(self.sample(np.full(self.lead, factor))) for factor in self.factors]
        mean, second = (np.stack(part) for part in zip(*found, strict=True))
        alike = np.ones(self.lead) if self.blind else self._alike(self.sample(np.ones(self.lead)))
        return Moments(mean, second, alike)

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        """What they would be shown."""
        context = self.sample(factor)
        parts: dict[str, Any] = {name: _per_visitor(getattr(release, name), name) for name in Release.arrays}
        everybody = Release(**parts)
        everybody.__dict__["covariance"] = _per_visitor(release.covariance, "precision")  # inverted once a release
        if release.draws.any():
            everybody.__dict__["root"] = _per_visitor(release.root, "precision")
        items = self.policy.offer(context, everybody, _SameCoins(release.explore.ndim))
        return ObservedChoice(context.features.rows(items), items != NOTHING, np.full(items.shape[:-1], NOTHING))

    def _alike(self, context: Context) -> FloatArray:
        """The share of the variance of features that is between items, not between visitors who see one item, (...)."""
        rows = _rows(context)
        with np.errstate(all="ignore"):
            own = rows.var(axis=-3).mean(axis=-2)
            whole = rows.reshape(*self.lead, -1, rows.shape[-1]).var(axis=-2)
            varies = np.isfinite(own) & np.isfinite(whole) & (whole > 0)
            share = np.where(varies, 1.0 - own / np.where(varies, whole, 1.0), 0.0)
        return np.where(varies.any(-1), share.sum(-1) / np.maximum(varies.sum(-1), 1), 1.0)

    def _moments(self, context: Context) -> tuple[FloatArray, FloatArray]:
        rows = _rows(context)
        flat = rows.reshape(*self.lead, -1, rows.shape[-1])
        with np.errstate(all="ignore"):
            mean, second = flat.mean(-2), np.swapaxes(flat, -1, -2) @ flat / flat.shape[-2]
            largest = np.abs(second).max((-1, -2))
            known = (largest > SMALLEST) & (largest < LARGEST)
        unknown = unknown_curvature(flat.shape[-1])
        return np.where(known[..., None], mean, 0.0), np.where(known[..., None, None], second, unknown)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionalMadeUp(MadeUp):
    """An outlook of features that are all as many times as large as the factor says, of items that earn alike.

    A factor then leaves the order of utilities as it is: what is shown is worked out once for all of them.

    Attributes:
        served: The last release, and what was shown for it where features are as declared.
    """

    served: list[tuple[Release, ObservedChoice]] = field(default_factory=list)

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        """What they would be shown."""
        if not self.served or self.served[0][0] is not release:
            self.served[:] = [(release, super().shown(release, np.ones(self.lead)))]
        ((_, seen),) = self.served
        return seen._replace(rows=factor[..., None, None, None] * seen.rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectsMadeUp(MadeUp):
    """An outlook of items that have effects: their moments are known, also of places that no item has taken yet.

    Attributes:
        plain: The same visitors, who see features alone.
        x: Features of the items that have the first effects, averaged over visitors, (n, d - effects).
        effects: How many there are, at least n.
    """

    plain: MadeUp
    x: FloatArray
    effects: int

    @cached_property
    def moments(self) -> Moments:
        """As if each effect were that of one item, and those to come had the features that items have on average."""
        own, dim = self.effects, self.x.shape[-1]
        mean, second, alike = self.plain.moments if dim else _nothing(len(self.factors))
        cross = np.repeat(mean[..., None], own, axis=-1)
        largest = np.abs(self.x).max(initial=0.0)
        if math.sqrt(SMALLEST) < largest < math.sqrt(LARGEST):
            cross[..., : len(self.x)] = self.x.T
        joint = np.zeros((len(mean), dim + own, dim + own))
        joint[:, :dim, :dim] = second
        joint[:, :dim, dim:] = cross / own
        joint[:, dim:, :dim] = np.swapaxes(cross, -1, -2) / own
        joint[:, dim:, dim:] = np.eye(own) / own
        whole = np.concatenate([mean, np.full((len(mean), own), 1.0 / own)], axis=-1)
        return Moments(whole, joint, (dim * alike + own) / (dim + own))


def _nothing(factors: int) -> Moments:
    """Of no features."""
    return Moments(np.zeros((factors, 0)), np.zeros((factors, 0, 0)), np.ones(()))


class _SameCoins:
    """Coins of made-up visitors, the same in every world: what is expected in one depends on none beside it."""

    def __init__(self, axes: int) -> None:
        self._axes, self._rng = axes, np.random.default_rng(PUBLIC_SEED)

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""
        return np.broadcast_to(self._rng.random(size[self._axes :]), size).copy()

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""
        return np.broadcast_to(self._rng.standard_normal(size[self._axes :]), size).copy()


def made_up_visitors(effects: int, capacity: int) -> int:
    """How many visitors are made up: 32 show each of 8 K effects four times, and 8 more come with every K more effects.

    >>> [made_up_visitors(effects, 10) for effects in (0, 80, 100, 200, 2000)]
    [32, 32, 48, 128, 128]
    """
    return min(MOST_VISITORS, VISITORS + 8 * max(0, effects // capacity - 8))


def outlook_of(settings: ShelfSettings, public: Public, stock: Stock) -> MadeUp:
    """The outlook of a shelf; everything it rests on is public."""
    rng = np.random.default_rng(PUBLIC_SEED)
    offerable = np.flatnonzero(stock.offerable)
    if not offerable.size:  # as if those that wait were back
        offerable = np.arange(len(stock))
    items = offerable if offerable.size <= ITEMS else np.sort(rng.choice(offerable, ITEMS, replace=False))
    capacity, policy = min(settings.capacity, max(items.size, 1)), POLICIES[settings.policy]
    if settings.map is None or stock.catalogue is None:
        size = max(items.size, 1)
        return normal_outlook(
            public.curvature, settings.dim or 1, items=size, capacity=settings.capacity, policy=policy
        )
    scale = 1.0 if public.visitor_scale is None else public.visitor_scale
    visitors = made_up_visitors(settings.item_effects, capacity)
    visitor = scale * balanced_normal(visitors, settings.visitor_dim)
    catalogue, named = stock.catalogue[items], settings.map
    factors = FACTORS if any(block.visitor for block in named.blocks) else (1.0,)

    def sample(factor: FloatArray, through: FeatureMap = named) -> Context:
        earned = np.broadcast_to(stock.earned[items], (*factor.shape, visitors, items.size))
        seen = Catalogued(factor[..., None, None] * visitor, catalogue, through, items)
        return Context(seen, earned, capacity, fill=settings.fill)

    if not named.effects:
        return MadeUp(sample, policy, factors)
    features = replace(named, effects=0)
    x = features.dense(np.zeros(settings.visitor_dim), stock.catalogue[: named.effects])
    plain = MadeUp(partial(sample, through=features), policy, factors)
    return EffectsMadeUp(sample, policy, factors, plain=plain, x=x, effects=named.effects)


def normal_outlook(
    second: FloatArray | None, dim: int, *, items: int, capacity: int, policy: Policy, lead: tuple[int, ...] = ()
) -> MadeUp:
    """Visitors who see items of normal features of mean zero and this second moment, all of revenue 1.

    Without a declared second moment it is I/d, a blind guess.
    """
    count = min(items, ITEMS)
    drawn = balanced_normal(VISITORS * count, dim if second is None else len(second)).reshape(VISITORS, count, -1)
    if second is None:
        x = drawn * math.sqrt(1.0 / dim)
    else:
        values, vectors = np.linalg.eigh(second)
        x = (drawn * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    def sample(factor: FloatArray) -> Context:
        seen = factor[..., None, None, None] * x
        return Context(Dense(seen), np.ones(seen.shape[:-1]), min(capacity, x.shape[-2]))

    return ProportionalMadeUp(sample, policy, lead=lead, blind=second is None)


def _rows(context: Context) -> FloatArray:
    """Features of all items, as every made-up visitor sees them, (..., visitors, N, d)."""
    batch, count = context.revenue.shape[:-1], context.revenue.shape[-1]
    return context.features.rows(np.broadcast_to(np.arange(count), (*batch, count)))


def _per_visitor(of_release: FloatArray, name: str) -> FloatArray:
    """With an axis for made-up visitors after those of the worlds."""
    own = {"theta": 1, "precision": 2}.get(name, 0)
    return np.expand_dims(of_release, of_release.ndim - own)


def start(settings: ShelfSettings, public: Public, stock: Stock, source: NoiseSource) -> Learner:
    """The learner before the first visitor. Everything that fixes its prior is public."""
    dim = check_size(settings, stock)
    if public.curvature is not None:
        shape = public.curvature.shape
        require(shape == (dim, dim), f"curvature must have shape ({dim}, {dim})", shape=shape)
        require(bool(np.allclose(public.curvature, public.curvature.T)), "curvature must be symmetric")
        values = np.linalg.eigvalsh(public.curvature)
        rule = f"curvature must be positive semidefinite, its largest eigenvalue from {SMALLEST:g} to {LARGEST:g}"
        good = SMALLEST <= values[-1] <= LARGEST and values[0] >= -1e-9 * values[-1]
        require(bool(good), rule, smallest=values[0], largest=values[-1])
    outlook, log = outlook_of(settings, public, stock), public.log
    begin = partial(Learner.start, settings.learning(), outlook, capacity=settings.capacity, source=source)
    if log is None:
        return begin(prior=public.given)
    check_log(settings, public, log)
    if settings.map is not None and stock.catalogue is not None:
        check_items(np.asarray(stock.catalogue), log, units=public.schema is None)
    rule = f"dim must be that of the prior, {len(log.theta)}"
    require(dim == len(log.theta), rule, dim=dim)
    return begin(prior=begin().prior.informed(log.theta, log.precision))
