"""What the coordinates of a shelf's estimate are called."""

from __future__ import annotations

from quietshelf.curation.settings import Public, Settings
from quietshelf.curation.stock import Stock
from quietshelf.shelf.tabled import learns_popularity


def feature_names(settings: Settings, public: Public, stock: Stock) -> tuple[str, ...]:
    """What each coordinate of theta multiplies, by the names that the shop gave; by places where it gave none."""
    if public.log is not None:  # of the same features, or it would have been refused
        return tuple(public.log.names)
    named, catalogue, schema = settings.map, stock.catalogue, public.schema
    if named is None or catalogue is None:
        return tuple(f"x[{place}]" for place in range(settings.dim or 0))
    visitor = [f"u[{place}]" for place in range(settings.visitor_dim)] if schema is None else schema.visitor_names
    if learns_popularity(settings, stock):
        return tuple(named.names(visitor, [str(name) for name in stock.ids or ()]))
    item = [f"v[{place}]" for place in range(catalogue.shape[1])] if schema is None else schema.item_names
    return tuple(named.names(visitor, item))
