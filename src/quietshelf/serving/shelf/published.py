"""What a shelf tells anybody: its promise, estimate and progress, from releases that `state` made and public data."""

from __future__ import annotations

from quietshelf.curation import arms
from quietshelf.curation.batches import Batch
from quietshelf.curation.names import feature_names
from quietshelf.curation.settings import check_size
from quietshelf.data.tables import Schema
from quietshelf.model.types import html_table
from quietshelf.privacy.accounting import DELTA, Promise
from quietshelf.privacy.accounting.figures import added_up, rounded_up
from quietshelf.privacy.release.comparison import Comparison
from quietshelf.privacy.release.quiet import Learner
from quietshelf.serving.shelf.errors import ShelfError
from quietshelf.serving.shelf.resumable import Resumable
from quietshelf.serving.shelf.tastes import Tastes


class Published(Resumable):
    """What anybody may know about a shelf."""

    def comparison(self) -> Comparison:
        """Compare the policy with what the shop shows today, from releases alone. Look as often as you like."""
        with self._lock:
            return arms.comparison(self._state.settings, self._state.learner)

    def privacy(self, delta: float = DELTA) -> Promise:
        """The promise in figures and in words. It is to each person if every visitor so far came with a person id."""
        with self._lock:
            return self._state.ledger(self._source).promise(delta=delta)

    def estimate(self) -> Tastes:
        """Tastes and their uncertainty, from releases alone."""
        with self._lock:
            learner = self._state.learner
            if learner is None:
                settings = self._state.settings
                first = settings.learning().batch_size(check_size(settings, self._state.stock), None)
                rule = "there is nothing to estimate before the first offer"
                raise ShelfError(f"{rule}; the first release will come after {first:,} visitors")
            state, dim = self._state, learner.estimate.theta.shape[-1]
            items = state.stock.names(range(min(state.settings.item_effects, len(state.stock))))
            return Tastes.of(learner, feature_names(state.settings, state.public, items, dim))

    @property
    def schema(self) -> Schema | None:
        """What the columns of the product table and visitors' attributes mean; None for a shelf without a schema."""
        return self._state.public.schema

    @property
    def arrivals(self) -> int:
        """The number of visitors so far, which this guarantee treats as public."""
        return self._state.arrivals

    @property
    def learner(self) -> Learner | None:
        """Every release and what it taught, all of it public. None before the first offer."""
        return self._state.learner

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The public part of unreleased batches, oldest first: size, visitors so far, when due."""
        return tuple(slots.batch for slots in self._state.slots)

    def __repr__(self) -> str:
        settings, count = self._state.settings, len(self._state.stock)
        return f"<Shelf: {settings.capacity} of {count} items, rho = {self._cost()}, {self.arrivals} visitors so far>"

    def _repr_html_(self) -> str:
        settings, learner, count = self._state.settings, self._state.learner, len(self._state.stock)
        rows = [
            ("items", f"{count:,}"),
            ("shown at most", f"{settings.capacity}"),
            ("rho, for its lifetime", self._cost()),
            ("visitors so far", f"{self.arrivals:,}"),
            ("releases so far", f"{len(learner.records) if learner else 0}"),
        ]
        return html_table("Shelf", ("", ""), rows)

    def _cost(self) -> str:
        """The rho promised to anybody, including a log behind the prior, rounded up."""
        rho, log = self._state.settings.rho, self._state.public.log
        if log is None:
            return rounded_up(rho)
        both = rounded_up(added_up([rho, log.rho]))
        return f"{both} ({rounded_up(rho)} of the shelf and {rounded_up(log.rho)} of the log)"
