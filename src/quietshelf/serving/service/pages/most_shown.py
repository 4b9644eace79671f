"""The items shown most, found by offers to simulated visitors from the last release. No real visitor is counted.

Simulated visitors follow the law that the shop declared (`visitor_scale`, read as independent normal features). The
result is post-processing of public figures and costs no privacy (docs/proofs.md, section 2).
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
"""Simulated visitors: 400, fewer if visitors times items would exceed ``WORK``, but never below 16."""
TOP = 12


def most_shown(view: View) -> dict[str, Any]:
    """The items most simulated visitors would see, and the share of visitors who would see each."""
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
    """Features of simulated visitors, (visitors, length); None if their law is not declared."""
    length, scale = view.settings.visitor_dim, view.body.visitor_scale
    uses_visitor = any(block.visitor for block in MAPS[view.body.feature_map])
    if uses_visitor and scale is None:
        return None
    count = max(FEWEST, min(VISITORS, WORK // max(1, len(view.ids))))
    wide = np.broadcast_to(np.asarray(1.0 if scale is None else scale, dtype=np.float64), (length,))
    drawn: FloatArray = _random(view).standard_normal((count, length)) * wide
    return drawn


def _random(view: View) -> np.random.Generator:
    """The same simulated visitors for the same release, so that the page does not flicker. Not used for noise."""
    return np.random.default_rng([view.shelf, view.versions[2]])


def _nothing(why: str) -> dict[str, Any]:
    return {"simulated_visitors": 0, "items": [], "ever_shown": 0, "why_not": why}
