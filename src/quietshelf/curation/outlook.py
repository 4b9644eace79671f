"""Made-up visitors of a shop: drawn from what it declared, with a public seed, and served by its policy.

They shape noise and expectations (`release.outlook`). No real visitor is among them, and their coins are their own.
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
"""Made-up visitors per batch, and the most if there are many item effects to cover."""
ITEMS = 256
"""Items that they choose from, at most; drawn at random if the shop has more."""
Sample = Callable[[FloatArray], Context]


@dataclass(frozen=True, eq=False)
class MadeUp:
    """An outlook: made-up visitors and a policy.

    Attributes:
        sample: Makes their contexts, (..., visitors), given a factor by which features exceed the declaration, (...).
        policy: The policy that serves them.
        factors: The factors considered.
        lead: Axes of parallel worlds.
        blind: Whether nothing is declared: then real visitors may all see the same features.
    """

    sample: Sample
    policy: Policy
    factors: tuple[float, ...] = FACTORS
    lead: tuple[int, ...] = ()
    blind: bool = False

    @cached_property
    def moments(self) -> Moments:
        """Moments of what they see, by factor."""
        found = [self._moments(self.sample(np.full(self.lead, factor))) for factor in self.factors]
        mean, second = (np.stack(part) for part in zip(*found, strict=True))
        alike = np.ones(self.lead) if self.blind else self._alike(self.sample(np.ones(self.lead)))
        return Moments(mean, second, alike)

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        """What they would be shown if features were ``factor`` times as large as declared."""
        context = self.sample(factor)
        parts: dict[str, Any] = {name: _per_visitor(getattr(release, name), name) for name in Release.arrays}
        everybody = Release(**parts)
        everybody.__dict__["covariance"] = _per_visitor(release.covariance, "precision")  # inverted once per release
        if release.draws.any():
            everybody.__dict__["root"] = _per_visitor(release.root, "precision")
        items = self.policy.offer(context, everybody, _SameCoins(release.explore.ndim))
        return ObservedChoice(context.features.rows(items), items != NOTHING, np.full(items.shape[:-1], NOTHING))

    def _alike(self, context: Context) -> FloatArray:
        """The share of feature variance that is between items, not between visitors who see one item, (...)."""
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
            mean, second = flat.mean(-2), flat.mT @ flat / flat.shape[-2]
            largest = np.abs(second).max((-1, -2))
            known = (largest > SMALLEST) & (largest < LARGEST)
        unknown = unknown_curvature(flat.shape[-1])
        return np.where(known[..., None], mean, 0.0), np.where(known[..., None, None], second, unknown)


@dataclass(frozen=True, eq=False, kw_only=True)
class ProportionalMadeUp(MadeUp):
    """An outlook in which the factor scales all features, and all items earn the same.

    A factor then preserves the order of utilities, so what is shown is computed once for all factors.

    Attributes:
        served: The last release, and what was shown for it with features as declared.
    """

    served: list[tuple[Release, ObservedChoice]] = field(default_factory=list)

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        """What they would be shown if features were ``factor`` times as large as declared."""
        if not self.served or self.served[0][0] is not release:
            self.served[:] = [(release, super().shown(release, np.ones(self.lead)))]
        ((_, seen),) = self.served
        return seen._replace(rows=factor[..., None, None, None] * seen.rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class EffectsMadeUp(MadeUp):
    """An outlook with item effects, whose moments are known exactly, even for effects that no item uses yet.

    Attributes:
        plain: The same visitors without effects.
        x: Features of the items with the first effects, averaged over visitors, (n, d - effects).
        effects: Number of effects, at least n.
    """

    plain: MadeUp
    x: FloatArray
    effects: int

    @cached_property
    def moments(self) -> Moments:
        """Moments as if every effect had its item, and items yet to come had average features."""
        own, dim = self.effects, self.x.shape[-1]
        nothing = np.zeros((len(self.factors), 0, 0))
        mean, second, alike = self.plain.moments if dim else (nothing.sum(-1), nothing, np.ones(()))
        cross = np.repeat(mean[..., None], own, axis=-1)
        largest = np.abs(self.x).max(initial=0.0)
        if math.sqrt(SMALLEST) < largest < math.sqrt(LARGEST):
            cross[..., : len(self.x)] = self.x.T
        joint = np.zeros((len(mean), dim + own, dim + own))
        joint[:, :dim, :dim] = second
        joint[:, :dim, dim:] = cross / own
        joint[:, dim:, :dim] = cross.mT / own
        joint[:, dim:, dim:] = np.eye(own) / own
        whole = np.concatenate([mean, np.full((len(mean), own), 1.0 / own)], axis=-1)
        return Moments(whole, joint, (dim * alike + own) / (dim + own))


class _SameCoins:
    """Coins of made-up visitors, the same in every world, so that no expectation depends on another world."""

    def __init__(self, axes: int) -> None:
        self._axes, self._rng = axes, np.random.default_rng(PUBLIC_SEED)

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1)."""
        return np.broadcast_to(self._rng.random(size[self._axes :]), size).copy()

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Standard normal."""
        return np.broadcast_to(self._rng.standard_normal(size[self._axes :]), size).copy()


def made_up_visitors(effects: int, capacity: int) -> int:
    """How many visitors to make up: 32 show each of 8 K effects four times; add 8 for every further K effects.

    >>> [made_up_visitors(effects, 10) for effects in (0, 80, 100, 200, 2000)]
    [32, 32, 48, 128, 128]
    """
    return min(MOST_VISITORS, VISITORS + 8 * max(0, effects // capacity - 8))


def outlook_of(settings: ShelfSettings, public: Public, stock: Stock) -> MadeUp:
    """Make the outlook of a shelf, from public data only."""
    rng = np.random.default_rng(PUBLIC_SEED)
    offerable = np.flatnonzero(stock.offerable)
    if not offerable.size:  # as if the unavailable ones were back
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
    """Visitors who see items with normal features of mean zero and this second moment, all of revenue 1.

    Without a declared second moment, I/d serves as a blind guess.
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
    """Insert an axis for made-up visitors after those of the worlds."""
    own = {"theta": 1, "precision": 2}.get(name, 0)
    return np.expand_dims(of_release, of_release.ndim - own)


def start(settings: ShelfSettings, public: Public, stock: Stock, source: NoiseSource) -> Learner:
    """Make the learner before the first visitor; its prior is computed from public data only."""
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
