"""What the coordinates of a shelf's estimate are called."""

from __future__ import annotations

from dataclasses import replace

from quietshelf.curation.settings import Public, Settings
from quietshelf.curation.stock import Stock


def feature_names(settings: Settings, public: Public, stock: Stock) -> tuple[str, ...]:
    """What each coordinate of theta multiplies, by the names that the shop gave; by places where it gave none."""
    if public.log is not None:  # of the same features, or it would have been refused
        return tuple(public.log.names)
    named, catalogue, schema = settings.map, stock.catalogue, public.schema
    if named is None or catalogue is None:
        return tuple(f"x[{place}]" for place in range(settings.dim or 0))
    visitor = [f"u[{place}]" for place in range(settings.visitor_dim)] if schema is None else schema.visitor_names
    item = [f"v[{place}]" for place in range(catalogue.shape[1])] if schema is None else schema.item_names
    plain = replace(named, effects=0).names(visitor, item)
    return (*plain, *effect_names(named.effects, stock))


def effect_names(effects: int, stock: Stock) -> tuple[str, ...]:
    """What item effects are called: by the item's own name, which stands alone where there is nothing else."""
    known = stock.names(range(min(effects, len(stock))))
    alone = stock.catalogue is not None and stock.catalogue.shape[1] == 0
    own = tuple(str(name) if alone and stock.ids is not None else f"effect of {name}" for name in known)
    return (*own, *(f"reserved effect {place}" for place in range(len(own), effects)))
