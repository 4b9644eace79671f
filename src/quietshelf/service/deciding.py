"""Visitors' requests, a view of the shelf -> what to show. The same steps as `Shelf.offer`, nothing written yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from quietshelf.choice.features import Catalogued
from quietshelf.policies import POLICIES
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.service.models import LARGEST_DIM, OfferBody
from quietshelf.service.problems import Invalid, NoItems
from quietshelf.service.views import View
from quietshelf.shelf.requests import check_person, visitor_context
from quietshelf.shelf.state import State
from quietshelf.types import NOTHING, Context, FloatArray, IntArray, Random


@dataclass(frozen=True, eq=False)
class Decision:
    """What to show.

    Attributes:
        view: What it was decided from.
        ids: Items, in order.
        rows: Their features as this visitor sees them, (len(ids), d).
        release: How many releases it rests on.
        learner: What the first offer freezes or froze.
        visitor_dim: How many features the visitor brought.
    """

    view: View
    ids: list[str]
    rows: FloatArray
    release: int
    learner: Learner
    visitor_dim: int


def decide(view: View, body: OfferBody, rng: Random, source: NoiseSource) -> Decision:
    """What to show this visitor; `Invalid` if the request breaks a rule. ``rng`` breaks ties."""
    if not view.ids:
        raise NoItems("items must be put on the shelf before the first offer, got none")
    context = _context(view, body)
    learner = _learner(view.state, context, len(body.features), source)
    release = view.release or learner.release
    assortment = POLICIES[view.body.policy].offer(context, release, rng)
    items = assortment[assortment != NOTHING]
    return _decision(view, learner, items, context.features.rows(items), len(body.features))


def plain(view: View, body: OfferBody) -> bool:
    """Whether a visitor of a shelf that was offered before asks for nothing special, and breaks no rule."""
    wishes = body.candidates is not None or body.required or body.exclude or body.capacity is not None
    state = view.state
    if wishes or state.learner is None or len(body.features) != state.visitor_dim:
        return False
    try:
        check_person(state.settings, body.person)
    except ValueError:
        return False
    return True


def decide_together(view: View, bodies: Sequence[OfferBody], rng: Random) -> list[Decision]:
    """What to show to visitors who are all `plain`: each as if alone, but in one step."""
    first, learner, release = _context(view, bodies[0]), view.state.learner, view.release
    assert learner is not None and release is not None and isinstance(first.features, Catalogued)  # noqa: S101, PT018 - they are plain
    features = replace(first.features, visitor=np.array([body.features for body in bodies], dtype=np.float64))
    revenue = np.broadcast_to(first.revenue, (len(bodies), len(view.ids)))
    assortments = POLICIES[view.body.policy].offer(replace(first, features=features, revenue=revenue), release, rng)
    found = []
    for items, seen in zip(assortments, features.rows(assortments), strict=True):
        shown = items != NOTHING
        found.append(_decision(view, learner, items[shown], seen[shown], features.visitor.shape[-1]))
    return found


def _decision(view: View, learner: Learner, items: IntArray, rows: FloatArray, visitor_dim: int) -> Decision:
    ids = [view.ids[item] for item in items.tolist()]
    return Decision(view, ids, rows, len(learner.records), learner, visitor_dim)


def _context(view: View, body: OfferBody) -> Context:
    count = len(view.ids)
    known = view.numbers
    wanted = None if body.candidates is None else _numbers("candidates", body.candidates, known)
    required, barred = _numbers("required", body.required, known), _numbers("exclude", body.exclude, known)
    most = view.state.settings.capacity
    if body.capacity is not None and body.capacity > most:
        raise Invalid(f"capacity must be at most the shelf's capacity={most}, got capacity={body.capacity}")
    _check_required(view, body, wanted)
    try:
        check_person(view.state.settings, body.person)
        context = visitor_context(
            view.state.settings,
            view.state.stock,
            features=body.features,
            available=wanted,
            required=required or None,
            exclude=barred or None,
            capacity=min(body.capacity or most, most, count),
        )
    except ValueError as error:
        raise Invalid(str(error)) from None
    if not 1 <= context.features.dim <= LARGEST_DIM:
        raise Invalid(f"the feature map must give 1 to {LARGEST_DIM} coordinates, got {context.features.dim}")
    return context


def _learner(state: State, context: Context, visitor_dim: int, source: NoiseSource) -> Learner:
    try:
        return replace(state).begin(context.features, visitor_dim, source)
    except (ValueError, np.linalg.LinAlgError) as error:
        raise Invalid(str(error)) from None


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


def _check_required(view: View, body: OfferBody, wanted: list[int] | None) -> None:
    """Say which item by its id, before the mathematics says it by its number."""
    offerable = view.state.stock.offerable
    allowed = None if wanted is None else set(wanted)
    for each in body.required:
        number = view.numbers[each]
        if not offerable[number] or each in body.exclude or (allowed is not None and number not in allowed):
            raise Invalid(f"required items must be available, got {each!r}")
