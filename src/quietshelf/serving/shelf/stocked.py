"""Managing a shelf's items, and which visitors the policy serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.curation.settings import check_places, learns_popularity
from quietshelf.model.types import Id, require
from quietshelf.serving.shelf.resumable import Resumable
from quietshelf.serving.shelf.tabled import with_changes, with_rows


class Stocked(Resumable):
    """A shelf whose items can be added, changed and retired."""

    def add(
        self,
        features: Any = None,
        *,
        revenue: ArrayLike | None = None,
        group: ArrayLike | None = None,
        ids: Sequence[Id] | None = None,
    ) -> list[Id]:
        """Add items; returns their ids. The geometry frozen at the first offer stays.

        Args:
            features: With a schema, a product table or a list of dicts; otherwise features, (n, d2). None for a shelf
                that learns popularity alone: it needs ``ids``, and places reserved by ``item_effects``.
            revenue: What each earns, 1 by default. With a schema, the table says it.
            group: The group of each. With a schema, the table says it.
            ids: The id of each, if items have ids. With a schema, the table says it.
        """
        with self._lock:
            state, before = self._state, len(self._state.stock)
            if features is None:
                known = learns_popularity(state.settings, state.stock) and isinstance(ids, Sequence)
                require(known, "features must be given, or ids alone to a shelf that learns popularity", ids=ids)
                features = np.zeros((len(ids or ()), 0))
            if state.public.schema is not None:
                given = {"revenue": revenue, "group": group, "ids": ids}
                given = {name: value for name, value in given.items() if value is not None}
                require(not given, "arguments that columns of the table set must not be given as well", **given)
                more = with_rows(state.stock, state.public.schema, features)
            else:
                more = state.stock.with_more(features, 1.0 if revenue is None else revenue, group, ids)
            if more.catalogue is not None:
                check_places(state.settings, len(more), more.catalogue.shape[1])
            state.stock = more
            return list(state.stock.names(range(before, len(state.stock))))

    def change(
        self,
        item: Id,
        *,
        features: ArrayLike | Mapping[str, Any] | None = None,
        revenue: float | None = None,
        available: bool | None = None,
    ) -> None:
        """Change an item from the next offer on. Offers already made keep the features they used.

        With a schema, ``features`` may be the columns that change, by name.
        """
        with self._lock:
            stock, schema = self._state.stock, self._state.public.schema
            if isinstance(features, Mapping):
                if schema is None:
                    raise ValueError(f"columns need a shelf with a schema, got features={dict(features)!r}")
                stock, features = with_changes(stock, schema, item, features), None
            self._state.stock = stock.changed(item, features=features, revenue=revenue, available=available)

    def retire(self, item: Id) -> None:
        """Never show an item again. Its id or index is not reused."""
        with self._lock:
            self._state.stock = self._state.stock.without(item)

    def rank(self, ranking: Sequence[Id]) -> None:
        """Set the shop's present ranking, the same for everybody, best first. Items left out are not shown.

        It must be made from public data only. A list of bestsellers counted from these visitors is not public.
        """
        with self._lock:
            self._state.stock = self._state.stock.ranked(ranking)

    def serve(self, learned_share: float, *, guard: bool | None = None) -> None:
        """Let the policy serve this share of visitors from the next offer on; others see the present ranking.

        The open batch then compares nothing. Do not change the share because of what the open batch sells: leaving out
        batches that went badly would bias the comparison.
        """
        with self._lock:
            settings = self._state.settings
            kept = settings.guard if guard is None else guard
            self._state.settings = replace(settings, learned_share=learned_share, guard=kept)
