"""What a world declares of its visitors, as made-up ones: itself, by a catalogue and scales, or by moments."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from quietshelf.curation.outlook import VISITORS, MadeUp, made_up_visitors, normal_outlook
from quietshelf.model.choice.features import Dense
from quietshelf.model.choice.maps import FeatureMap
from quietshelf.model.types import Context, FloatArray, Policy, balanced_normal
from quietshelf.research.loop.contest import SimulationContext


@runtime_checkable
class WithCatalogue(Protocol):
    """A world whose x is ``feature_map(u, v) / feature_scale``, v from a public catalogue, u of declared scales."""

    catalogue: FloatArray
    feature_map: FeatureMap
    visitor_scale: FloatArray
    feature_scale: float


def declared_outlook(setting: SimulationContext, policy: Policy) -> MadeUp:
    """Made-up visitors of a world, by the most that it declares; of a world that declares nothing, blind ones."""
    world: Any = setting.world
    sample = setting.made_up
    if sample is not None:
        visitors = made_up_visitors(getattr(world, "item_effects", 0), setting.capacity)
        return MadeUp(lambda factor: sample(factor, visitors), policy, lead=(setting.worlds,))
    if isinstance(world, WithCatalogue):
        visitor = balanced_normal(VISITORS, np.size(world.visitor_scale)) * world.visitor_scale
        items = np.broadcast_to(world.catalogue, (VISITORS, *world.catalogue.shape))

        def by_map(factor: FloatArray) -> Context:
            x = world.feature_map.dense(factor[..., None, None] * visitor, items) / world.feature_scale
            return _context(setting, x)

        return MadeUp(by_map, policy, lead=(setting.worlds,))
    second = getattr(world, "second_moment", None)
    return blind_outlook(setting, policy) if second is None else _normal(setting, policy, second)


def blind_outlook(setting: SimulationContext, policy: Policy) -> MadeUp:
    """Made-up visitors where nothing is declared: features of a length of about 1."""
    return _normal(setting, policy, None)


def _normal(setting: SimulationContext, policy: Policy, second: FloatArray | None) -> MadeUp:
    size: dict[str, Any] = {"items": setting.items, "capacity": setting.capacity, "lead": (setting.worlds,)}
    return normal_outlook(second, setting.dim, policy=policy, **size)


def _context(setting: SimulationContext, x: FloatArray) -> Context:
    """All items of revenue 1."""
    return Context(Dense(x), np.ones(x.shape[:-1]), min(setting.capacity, x.shape[-2]))
