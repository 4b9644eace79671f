"""Name the coordinates of a shelf's estimate after the shop's columns and items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from quietshelf.curation.settings import Public, ShelfSettings
from quietshelf.model.types import Id


def feature_names(settings: ShelfSettings, public: Public, items: Iterable[Id], dim: int) -> tuple[str, ...]:
    """Name what each coordinate of theta multiplies, by number where the shop gave no names.

    Args:
        settings: Settings of the shelf.
        public: What the shop declared, possibly with names.
        items: Ids of the first items, as many as have an effect.
        dim: d; known even if the items are not.
    """
    if public.log is not None:  # has the same features, or it would have been refused
        return tuple(public.log.names)
    if settings.map is None:
        return tuple(f"feature {place + 1}" for place in range(dim))
    plain, rest = replace(settings.map, effects=0), dim - settings.item_effects
    if public.schema is not None:
        found = plain.names(public.schema.visitor_names, public.schema.item_names)
    else:
        count = settings.visitor_dim
        size = next((size for size in range(rest + 1) if plain.dim(count, size) == rest), 0)
        visitor = [f"visitor feature {place + 1}" for place in range(count)]
        found = plain.names(visitor, [f"item feature {place + 1}" for place in range(size)])
    own = [str(name) if rest == 0 else f"effect of {name}" for name in items][: settings.item_effects]
    return (*found, *own, *(f"free place {place + 1}" for place in range(len(own), settings.item_effects)))
