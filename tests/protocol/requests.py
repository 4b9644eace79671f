"""The shop of a schedule, and what is asked of it, as the service is told."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from tests.protocol.steps import Change, Shop

from quietshelf.serving.service.models import ItemBody, ShelfBody
from quietshelf.serving.service.service import Service


def shelf_body(shop: Shop) -> ShelfBody:
    """The shop's settings."""
    limits = {} if shop.limits is None else {f"group {number}": most for number, most in enumerate(shop.limits)}
    return ShelfBody.model_validate(
        {
            "rho": shop.rho,
            "conversion": shop.conversion,
            "max_batch": shop.max_batch,
            "capacity": shop.capacity,
            "window": float(shop.window),
            "feature_map": shop.feature_map,
            "visitor_dim": shop.visitor_dim,
            "policy": shop.policy,
            "private": shop.policy == "quiet",
            "visits": shop.visits,
            "on_no_answer": shop.on_no_answer,
            "limits": limits,
            "comparison": shop.comparison,
            "present": shop.present,
            "learned_share": shop.learned_share,
            "most_revenue": 1.5 if shop.comparison else None,
        }
    )


def bodies(shop: Shop) -> list[ItemBody]:
    """Its items; their ids are their numbers."""
    groups = (-1,) * len(shop.items) if shop.groups is None else shop.groups
    return [
        ItemBody.model_validate(
            {"id": str(number), "features": list(row), "group": None if group < 0 else f"group {group}", "rank": number}
        )
        for number, (row, group) in enumerate(zip(shop.items, groups, strict=True))
    ]


def change(service: Service, shelf: str, step: Change) -> Coroutine[Any, Any, Any]:
    """A change of the catalogue; an item that is added twice is changed the second time."""
    item: dict[str, Any] = {"id": str(step.item)}
    match step.kind:
        case "retire":
            return service.retire(shelf, [str(step.item)])
        case "add":
            item = {"id": f"new {step.item}", "features": list(step.features), "revenue": step.revenue}
        case "features":
            item["features"] = list(step.features)
        case "revenue":
            item["revenue"] = step.revenue
        case _:
            item["available"] = step.kind == "available"
    return service.put_items(shelf, [ItemBody.model_validate(item)])


def invalid(shop: Shop, kind: str) -> dict[str, Any]:
    """The body of a request that is no visitor's."""
    good: dict[str, Any] = {"features": [0.5] * shop.visitor_dim, "person": "eve" if shop.visits > 1 else None}
    wrong: dict[str, dict[str, Any]] = {
        "unknown item": {"candidates": ["an item that nobody has"]},
        "too many": {"capacity": shop.capacity + 1},
        "required and excluded": {"required": ["0"], "exclude": ["0"]},
    }
    if kind == "no person" and shop.visits > 1:
        return {**good, "person": None}
    return {**good, **wrong.get(kind, {"features": [0.5] * (shop.visitor_dim + 1)})}
