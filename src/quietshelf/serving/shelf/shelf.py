"""`Shelf`, the object to embed: one shelf in one process.

What visitors see depends on others only through releases (docs/proofs.md, section 2). A shelf runs the batch protocol
of `quietshelf.curation` in memory, and can be saved to a file that is resumed once (section 6).

`state` serves visits and makes releases; `resumable` saves and loads, in the format of `saved`; `stocked` manages
items; `published` has the promise, the estimate and whatever else is public.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from numpy.typing import ArrayLike

from quietshelf.curation.outlook import start
from quietshelf.curation.prior_file import PriorFile, given_prior
from quietshelf.curation.requests import check_person, visitor_context
from quietshelf.curation.settings import OnNoAnswer, Public, ShelfSettings, check_places, declared_dim, reserved_effects
from quietshelf.curation.stock import Stock
from quietshelf.data.tables import Schema, as_schema, infer, read_table
from quietshelf.model.types import NOTHING, Id, Offer, integer
from quietshelf.privacy.accounting import rho_from
from quietshelf.privacy.release.noise import DiscreteGaussian
from quietshelf.serving.shelf.published import Published
from quietshelf.serving.shelf.state import State
from quietshelf.serving.shelf.stocked import Stocked
from quietshelf.serving.shelf.tabled import Limits, check_schema, grouped, items_of


class Shelf(Stocked, Published):
    """Choose what to show, learn privately from the answers, and state the guarantee.

    >>> import numpy as np
    >>> shelf = Shelf(items=4, dim=2, capacity=2, rho=1.0)
    >>> offer = shelf.offer(np.eye(4, 2))
    >>> len(offer.items), offer.release
    (2, 0)
    >>> shelf.choose(offer.id, offer.items[0])
    >>> shelf.privacy(delta=1e-6).rho  # nothing has been released yet
    0.0

    Args:
        items: Ids of the items, text or whole numbers: alone for a shelf that learns how popular each item is, or with
            ``catalogue`` or ``dim``. With ``dim`` it may be N; indices are then the ids.
        dim: d, if each offer brings the features of every item, (N, dim).
        catalogue: Item features (N, d2), if the shelf knows the items and an offer brings only the visitor's features.
        feature_map: How visitor and item features make x: item, concat, outer or full. By default full with a
            catalogue, and item if there are no item or no visitor features.
        intercept: Whether the map keeps its 1.
        visitor_scale: Standard deviation of visitor features, declared, not measured: one number, or one per feature;
            None declares nothing.
        visitor_dim: Number of visitor features; optional if ``visitor_scale`` lists one per feature, or the map uses
            none.
        item_effects: Whether to learn a separate utility for each item on top of what its features say; it starts at 0.
            A number reserves places for later items (True: none).
        capacity: K, the most items shown. By default fewer, if a further item would lower expected revenue by drawing
            visitors from one that earns more.
        fill: Whether to show as many items as allowed even then.
        rho: The promise to one person for the shelf's lifetime, in zCDP.
        epsilon: The promise as (epsilon, delta) instead; the shelf takes the largest rho that keeps it.
        delta: The delta that epsilon is stated for.
        policy: "quiet", or "uniform" for random offers.
        groups: Group of each item, -1 for none.
        limits: The most items shown of each group.
        visits: How many visits of one person count.
        wait_arrivals: How many visitors a full batch waits for before it is released; with 0 the next offer releases
            it. Counted in arrivals, never in answers.
        on_no_answer: "no-choice" if an unanswered offer means that nothing was chosen, "zero" to ignore it.
        prior: What to start from: (theta, precision), from public knowledge only, since nothing counts what they cost;
            or a `PriorFile` of ``quietshelf fit --prior``, its path or its content. The cost of that fit is added to
            rho; an epsilon holds for the sum.
        curvature: Public guess of the second moment of x, (d, d), if each offer brings x; I/d by default. If it is ten
            times too large or too small, the releases correct it, at the cost of one or two of them.
        max_batch: The most visitors in a batch, where tastes drift.
        forgetting: Factor by which each release reduces the weight of older ones; 1 forgets nothing.
        conversion: Share of visitors who would choose something from offers that nobody has tuned: 0.03 if three in a
            hundred would; 0.2 by default. Your present conversion is close enough. It sizes the first batch. A wrong
            value costs time, never privacy.
        learned_share: Share of visitors that the policy serves, by a coin each; the others see what the shop shows
            today, and the shelf learns from them too. With 0 it only learns. `serve` changes it.
        present: What those others see: "ranking", the shop's own (see `rank` and `offer`), or "random".
        comparison: Share of rho that pays for comparing the two; 0 compares nothing. See `comparison()`.
        most_revenue: The most that one choice earns, required for a comparison: revenue is cut there, nowhere else.
        guard: Whether offers fall back to what the shop shows today once that earns more, with 99 % confidence.
        device: Where a catalogue of more than 20,000 items is screened: cpu, or cuda by PyTorch or CuPy. It only
            changes speed, and is not saved.
        schema: What the columns behind ``catalogue`` and visitors' attributes mean; `from_table` takes care of it.
    """

    def __init__(
        self,
        *,
        items: int | Iterable[Id] | None = None,
        dim: int | None = None,
        catalogue: ArrayLike | None = None,
        feature_map: str | None = None,
        intercept: bool = True,
        visitor_scale: ArrayLike | None = 1.0,
        visitor_dim: int | None = None,
        item_effects: int | bool = False,
        capacity: int,
        fill: bool = False,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        policy: str = "quiet",
        groups: ArrayLike | None = None,
        limits: ArrayLike | None = None,
        visits: int = 1,
        wait_arrivals: int = 0,
        on_no_answer: OnNoAnswer = "no-choice",
        prior: tuple[ArrayLike, ArrayLike] | PriorFile | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        curvature: ArrayLike | None = None,
        max_batch: int | None = None,
        forgetting: float = 1.0,
        conversion: float | None = None,
        learned_share: float = 1.0,
        present: Literal["ranking", "random"] = "ranking",
        comparison: float = 0.0,
        most_revenue: float | None = None,
        guard: bool = True,
        schema: Schema | None = None,
        device: str = "cpu",
    ) -> None:
        known, known_prior = items_of(items, dim, catalogue), given_prior(prior)
        log = known_prior.rho if isinstance(known_prior, PriorFile) else 0.0
        if feature_map is None:
            unknown = known.popular if schema is None else not schema.visitors
            feature_map = "item" if unknown else "full"
        dense = known.features is None
        integer("capacity", capacity, high=known.count, high_name="items")
        settings = ShelfSettings(
            rho=rho_from(rho, epsilon, delta, log=log),
            visits=visits,
            window=1 + integer("wait_arrivals", wait_arrivals, low=0),
            on_no_answer=on_no_answer,
            capacity=capacity,
            fill=fill,
            policy=policy,
            feature_map=None if dense else feature_map,
            intercept=intercept and not known.popular,
            dim=dim,
            item_effects=reserved_effects(known.popular if item_effects is False else item_effects, known.count),
            visitor_dim=0 if dense else declared_dim(feature_map, visitor_dim, visitor_scale),
            max_batch=max_batch,
            forgetting=forgetting,
            conversion=conversion,
            comparison=comparison,
            most_revenue=most_revenue,
            present=present,
            learned_share=learned_share,
            guard=guard,
        )
        public = replace(Public.of(visitor_scale=visitor_scale, curvature=curvature, prior=known_prior), schema=schema)
        check_schema(schema, known, settings.visitor_dim)
        if known.features is not None:
            check_places(settings, known.count, known.features.shape[1])
        stock = replace(Stock.of(known.count, known.features, groups, limits), ids=known.ids).on(device)
        start(settings, public, stock, DiscreteGaussian())  # refuse now what would fail at the first visitor
        self._start(State(settings, public, stock))

    @classmethod
    def from_table(
        cls,
        products: Any,
        schema: Schema | Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        capacity: int,
        limits: Limits = None,
        separator: str | None = None,
        **options: Any,
    ) -> Shelf:
        """A shelf from a product table, with items by id and visitors by attributes.

        >>> teas = [{"sku": "assam", "price": 4.0}, {"sku": "sencha", "price": 7.5}, {"sku": "mate", "price": 3.0}]
        >>> shelf = Shelf.from_table(teas, capacity=2, epsilon=2, delta=1e-6)
        >>> offer = shelf.offer()
        >>> shelf.choose(offer.id, offer.items[0])
        >>> shelf.schema.item_names
        ('price',)

        Args:
            products: A data frame, an Arrow table, a path to CSV or Parquet, or a list of dicts. It must be public.
            schema: What its columns mean, and visitors' attributes: a `Schema`, or its file. Inferred by default, and
                kept in ``shelf.schema``.
            capacity: K, the most items shown.
            limits: The most items shown of each group, by its name, or one number for all of the schema's groups.
            separator: The separator of a CSV file; detected in its first line by default.
            **options: Other arguments of `Shelf`. A promise is required: ``rho``, or ``epsilon`` and ``delta``.
        """
        table = read_table(products, separator=separator)
        known = infer(table) if schema is None else as_schema(schema).measured(table)
        found = known.products(table)
        groups = grouped(found, limits)
        names, given = groups.pop("names"), found.features if known.item_names else None
        if known.visitors:
            options = {"visitor_scale": known.visitor_scale} | options
        shelf = cls(items=found.ids, catalogue=given, capacity=capacity, schema=known, **groups, **options)
        stock = shelf._state.stock
        shelf._state.stock = replace(stock, revenue=found.revenue, available=found.available, group_names=names)
        return shelf

    def offer(
        self,
        features: ArrayLike | Mapping[str, Any] | None = None,
        revenue: ArrayLike | None = None,
        candidates: Any = None,
        required: Any = None,
        exclude: Any = None,
        capacity: int | None = None,
        person: str | None = None,
        ranking: Sequence[Id] | None = None,
    ) -> Offer:
        """Choose what to show one visitor. A refused request does not count as a visit: it raises and changes nothing.

        Args:
            features: The visitor's attributes by name, with a schema; or features (d1,), or without a catalogue those
                of every item, (N, d).
            revenue: What each item earns, for this offer only, (N,).
            candidates: Items that may be shown, as a mask or by ids (indices if they have none); by default all
                available ones.
            required: Items that must be shown, in the same form.
            exclude: Items that must not be shown, in the same form.
            capacity: The most items shown; at most the shelf's capacity.
            person: Person id, if the caller knows it; at most ``visits`` visits of a person count.
            ranking: What the shop would show this visitor today, best first, instead of the ranking given to `rank`. It
                may depend only on this visitor and on public data: a ranking by what other visitors did carries their
                data to this one, outside the promise, and no check can detect that.
        """
        with self._lock:
            state = self._state
            context = visitor_context(
                state.settings,
                state.stock,
                features=features,
                schema=state.public.schema,
                revenue=revenue,
                candidates=candidates,
                required=required,
                exclude=exclude,
                capacity=capacity,
                ranking=ranking,
            )
            check_person(state.settings, person)
            self._own()
            made = state.offer(context, person, self._source, self._coins)
            return made if state.stock.ids is None else replace(made, items=state.stock.names(made.items))

    def choose(self, offer: str, item: Id | None) -> None:
        """Record the answer to an offer: the item chosen, or None. Repeating the same answer is harmless.

        Raises:
            UnknownOffer: No offer has that id.
            OfferExpired: Its batch is released, or was dropped.
            AnswerConflict: It was answered before, differently.
            ValueError: The item was not shown.
        """
        with self._lock:
            chosen = NOTHING if item is None else self._index(item)
            if self._state.check(offer, chosen):  # nothing public changes, so the last save stays valid
                self._state.choose(offer, chosen)

    def _index(self, item: Id) -> int:
        """The index of a chosen item."""
        stock = self._state.stock
        return integer("item", item, low=0) if stock.ids is None else stock.index(item)  # type: ignore[arg-type]  # or refused
