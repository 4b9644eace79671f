"""What is shown most: offers to made-up visitors, from the last release and the declared law. Nobody is counted.

Visitors are drawn from the law that the shop declared (`visitor_scale`, read as independent normal features), never
from those who came. The result is post-processing of public figures, and costs nothing (docs/proofs.md, section 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.model.choice.features import Catalogued
from quietshelf.model.choice.maps import MAPS
from quietshelf.model.types import Context, FloatArray
from quietshelf.policies import POLICIES
from quietshelf.serving.service.catalogue.views import View

VISITORS, FEWEST, WORK = 400, 16, 4_000_000
"""So many visitors are made up; fewer where they times items would be more than the work allows."""
TOP = 12


def most_shown(view: View) -> dict[str, Any]:
    """The items that most made-up visitors would be shown, with the share of them that would see it."""
    stock, release, shape = view.stock, view.release, view.settings.map
    if release is None or stock.catalogue is None or shape is None or not stock.offerable.any():
        return _nothing("there is nothing to simulate before the first visitor")
    visitors = made_up(view)
    if visitors is None:
        return _nothing("no visitor law is declared: visitor_scale is null")
    size = (len(visitors), len(stock))
    context = Context(
        features=Catalogued(visitors, stock.catalogue, shape),
        revenue=np.broadcast_to(stock.revenue, size),
        capacity=min(view.body.capacity, len(stock)),
        available=np.broadcast_to(stock.offerable, size),
        groups=stock.groups,
        limits=stock.limits,
        fill=view.settings.fill,
    )
    items = POLICIES[view.body.policy].offer(context, release, _random(view))
    share = np.bincount(items[items >= 0], minlength=len(stock)) / len(visitors)
    order = [place for place in np.argsort(-share, kind="stable")[:TOP] if share[place] > 0]
    top = [{"item": view.ids[place], "share": float(share[place])} for place in order]
    return {"simulated_visitors": len(visitors), "items": top, "ever_shown": int((share > 0).sum()), "why_not": None}


def made_up(view: View) -> FloatArray | None:
    """Features of made-up visitors, (visitors, length); None where their law is not declared."""
    length, scale = view.settings.visitor_dim, view.body.visitor_scale
    uses_visitor = any(block.visitor for block in MAPS[view.body.feature_map])
    if uses_visitor and scale is None:
        return None
    count = max(FEWEST, min(VISITORS, WORK // max(1, len(view.ids))))
    wide = np.broadcast_to(np.asarray(1.0 if scale is None else scale, dtype=np.float64), (length,))
    drawn: FloatArray = _random(view).standard_normal((count, length)) * wide
    return drawn


def _random(view: View) -> np.random.Generator:
    """The same made-up visitors for the same release: the page does not flicker. No noise comes from here."""
    return np.random.default_rng([view.shelf, view.versions[2]])


def _nothing(why: str) -> dict[str, Any]:
    return {"simulated_visitors": 0, "items": [], "ever_shown": 0, "why_not": why}
