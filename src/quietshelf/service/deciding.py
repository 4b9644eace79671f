"""One visitor's request, a view of the shelf -> what to show. The same steps as `Shelf.offer`, nothing written yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from quietshelf.policies import POLICIES
from quietshelf.release.noise import NoiseSource
from quietshelf.release.quiet import Learner
from quietshelf.service.models import LARGEST_DIM, OfferBody
from quietshelf.service.problems import Invalid, NoItems
from quietshelf.service.views import View
from quietshelf.shelf.requests import check_person, visitor_context
from quietshelf.shelf.state import State
from quietshelf.types import NOTHING, Context, FloatArray, Random


class Ties:
    """One visitor's tie-breaking numbers: drawn once, however often the decision has to be taken again."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._drawn: dict[tuple[int, ...], FloatArray] = {}

    def random(self, size: tuple[int, ...]) -> FloatArray:
        """Uniform on [0, 1), the same for the same size."""
        if size not in self._drawn:
            self._drawn[size] = self._rng.random(size)
        return self._drawn[size]

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray:
        """Not asked for by the policies that are served."""
        return self._rng.standard_normal(size)


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


def decide(view: View, body: OfferBody, ties: Ties, source: NoiseSource) -> Decision:
    """What to show this visitor; `Invalid` if the request breaks a rule."""
    if not view.ids:
        raise NoItems("items must be put on the shelf before the first offer, got none")
    context = _context(view, body)
    learner = _learner(view.state, context, len(body.features), source)
    release = view.release or learner.release
    assortment = POLICIES[view.body.policy].offer(context, release, ties)
    items = assortment[assortment != NOTHING]
    return Decision(
        view=view,
        ids=[view.ids[item] for item in items.tolist()],
        rows=context.features.rows(items),
        release=len(learner.records),
        learner=learner,
        visitor_dim=len(body.features),
    )


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


def _numbers(name: str, ids: Iterable[str], known: dict[str, int]) -> list[int]:
    found = []
    for each in ids:
        if each not in known:
            raise Invalid(f"{name} must name items of the shelf, got {each!r}")
        found.append(known[each])
    if len(set(found)) < len(found):
        raise Invalid(f"{name} must name each item at most once")
    return found


def _check_required(view: View, body: OfferBody, wanted: list[int] | None) -> None:
    """Say which item by its id, before the mathematics says it by its number."""
    offerable = view.state.stock.offerable
    allowed = None if wanted is None else set(wanted)
    for each in body.required:
        number = view.numbers[each]
        if not offerable[number] or each in body.exclude or (allowed is not None and number not in allowed):
            raise Invalid(f"required items must be available, got {each!r}")
