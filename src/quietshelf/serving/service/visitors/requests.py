"""Checks a request against a view of the shelf, and turns it into the visitor that policies see (R1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from quietshelf.curation.device import DEVICE
from quietshelf.curation.requests import check_person, visitor_context
from quietshelf.model.types import Context
from quietshelf.serving.service.catalogue.views import View
from quietshelf.serving.service.models import LARGEST_DIM, OfferBody
from quietshelf.serving.service.problems import Invalid, NoItems


def visitor(view: View, body: OfferBody) -> Context:
    """The visitor behind a request for an offer; `Invalid` if it breaks a rule."""
    if view.body.contributions == DEVICE:
        raise Invalid("offers of this shelf are made on visitors' devices: request a slot, got a request for an offer")
    return anybody(view, body)


def anybody(view: View, body: OfferBody) -> Context:
    """The visitor behind any request, whether the offer is made here or on a device."""
    if not view.ids:
        raise NoItems("the shelf must have items before the first offer, got none")
    count, known, most = len(view.ids), view.numbers, view.settings.capacity
    wanted = None if body.candidates is None else _numbers("candidates", body.candidates, known)
    required = _numbers("required", body.required, known) if body.required else []
    barred = _numbers("exclude", body.exclude, known) if body.exclude else []
    if body.capacity is not None and body.capacity > most:
        raise Invalid(f"capacity must be at most the shelf's capacity={most}, got capacity={body.capacity}")
    if required:
        _check_required(view, required, None if wanted is None else set(wanted), set(barred))
    try:
        check_person(view.settings, body.person)
        context = visitor_context(
            view.settings,
            view.stock,
            features=_features(view, body),
            schema=view.public.schema,
            candidates=wanted,
            required=required or None,
            exclude=barred or None,
            capacity=min(body.capacity or most, most, count),
            ranking=None if body.ranking is None else _numbers("ranking", body.ranking, known),
        )
    except ValueError as error:
        raise Invalid(str(error)) from None
    if not 1 <= context.features.dim <= LARGEST_DIM:
        raise Invalid(f"the feature map must give 1 to {LARGEST_DIM} coordinates, got {context.features.dim}")
    return context


def _features(view: View, body: OfferBody) -> list[float] | dict[str, Any]:
    """Features, or attributes for the schema to convert."""
    schema = view.public.schema
    if body.attributes is None:
        if schema is not None and schema.visitor_names and not body.features:
            raise Invalid(f"attributes of the visitor must be given ({', '.join(schema.visitors)}), got none")
        return body.features
    if schema is None:
        raise Invalid(f"attributes need a shelf with a schema, got attributes={body.attributes!r}")
    if body.features:
        raise Invalid("a visitor must have features or attributes, got both")
    return body.attributes


def _numbers(name: str, ids: Sequence[str], known: dict[str, int]) -> list[int]:
    found = []
    for each in ids:
        if each not in known:
            raise Invalid(f"{name} must name items of the shelf, got {each!r}")
        found.append(known[each])
    if len(set(found)) < len(found):
        again, _ = Counter(ids).most_common(1)[0]
        raise Invalid(f"{name} must name each item at most once, got {again!r} again")
    return found


def _check_required(view: View, required: list[int], wanted: set[int] | None, barred: set[int]) -> None:
    """Name a wrong item by its id here; later checks only know numbers."""
    for number in required:
        if not view.stock.offerable[number] or number in barred or (wanted is not None and number not in wanted):
            raise Invalid(f"required items must be available, got {view.ids[number]!r}")
