"""What a shelf has learned, computed from its settings, its items and its releases alone.

A `View` holds no data of unreleased visitors, so nothing here can depend on one (docs/proofs.md, section 2).
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from sqlalchemy import Connection

from quietshelf.curation import arms
from quietshelf.curation.names import feature_names
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.records import Record
from quietshelf.serving.service.catalogue.views import View, look, versions
from quietshelf.serving.service.database import learning
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.pages.most_shown import most_shown

NAMED = 2
"""Coordinates that name a direction."""


class Insights:
    """Caches the insights of each shelf until a release, or a change of settings or items."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, dict[str, Any], View]] = {}
        self._lock = threading.Lock()

    def of(self, connection: Connection, row: Row) -> dict[str, Any]:
        """Releases, tastes, health and the items shown most."""
        stamp = (*versions(row), row["deleted"])
        with self._lock:  # one thread computes it, the others wait
            kept = self._kept.get(row["shelf"])
            if kept is None or kept[0] != stamp:
                view = look(connection, row, None if kept is None else kept[2])
                kept = (stamp, insights(connection, row, view), view)
                self._kept[row["shelf"]] = kept
        return kept[1]


def insights(connection: Connection, row: Row, view: View) -> dict[str, Any]:
    """Compute the insights of one view."""
    rows = learning.release_rows(connection, row["shelf"], row["releases"])
    names = coordinate_names(view)
    return {
        "items": {"total": len(view.ids), "on_offer": int(view.stock.offerable.sum())},
        "releases": release_list(rows),
        "tastes": tastes(view, names),
        "health": health(view, names),
        "shown": most_shown(view),
        "comparison": comparison(view),
    }


def comparison(view: View) -> dict[str, Any] | None:
    """The learned policy against the present ranking; None if every visitor sees the former and nothing is compared."""
    settings = view.settings
    if not settings.comparison and settings.learned_share == 1:
        return None
    found = arms.comparison(settings, view.learner).to_dict()
    shares = {"learned_share": settings.learned_share, "share_of_rho": settings.comparison, "present": settings.present}
    return {**found, **shares}


def release_list(rows: list[Row]) -> list[dict[str, Any]]:
    """Every release: its time, its visitors, and how well tastes were known after it."""
    seen = np.cumsum([row["size"] for row in rows]).tolist()
    return [
        {
            "release": row["number"],
            "released": timestamp(row["released_at"]),
            "visitors": row["size"],
            "visitors_so_far": so_far,
            "typical_standard_error": _typical_error(row),
        }
        for row, so_far in zip(rows, seen, strict=True)
    ]


def tastes(view: View, names: list[str]) -> list[dict[str, Any]]:
    """The estimate of each coordinate and its standard error, noise included; the prior before the first release."""
    release = view.release
    if release is None:
        return []
    errors = np.sqrt(np.diagonal(release.covariance))
    return [
        {"name": name, "estimate": float(value), "standard_error": float(error)}
        for name, value, error in zip(names, release.theta, errors, strict=True)
    ]


def health(view: View, names: list[str]) -> dict[str, Any]:
    """Whether the last release stands out from its noise, and in which directions it does not."""
    learner = view.learner
    if learner is None:
        return {"words": "no visitors yet, so nothing is released", "directions": [], "below": 0}
    found = [] if not learner.records else directions(learner.records[-1], names)
    below = sum(each["information"] < each["noise"] for each in found)
    return {"words": learner.health, "directions": found, "below": below}


def directions(latest: Record, names: list[str]) -> list[dict[str, Any]]:
    """The directions in which a release measured information, weakest first, named by their main coordinates."""
    level = latest.scales.score**2
    return [
        {"mostly": _mostly(latest.frame[:, place], names), "information": float(latest.values[place]), "noise": level}
        for place in np.argsort(latest.values)
    ]


def coordinate_names(view: View) -> list[str]:
    """Names of theta's coordinates. A deleted shelf has forgotten its items, but not the length of theta."""
    learner = view.learner
    if learner is None:
        return []
    return list(feature_names(view.settings, view.public, view.ids, learner.estimate.theta.shape[-1]))


def _typical_error(row: Row) -> float:
    """The root mean square of the standard errors."""
    dim = len(row["theta"]) // 8
    covariance: FloatArray = np.linalg.inv(learning.unpacked(row["precision"], dim, dim))
    return float(np.sqrt(np.trace(covariance) / dim))


def _mostly(direction: FloatArray, names: list[str]) -> list[str]:
    """Up to two coordinates that carry at least a quarter of what the largest carries."""
    size = np.abs(direction)
    order = np.argsort(-size)[:NAMED]
    return [names[place] for place in order if size[place] >= 0.25 * size[order[0]]]
