"""Sums a sealed batch in the background: piece by piece, without locks, in bounded memory (R6).

Each piece is summed as one array, since visitors wait while this thread holds the interpreter lock. Nothing changes the
slots of a sealed batch, so pieces may be read at different times; and sums on a grid are exact, so it does not matter
how they are split. A sum is kept only in memory and starts over after a restart.
"""

from __future__ import annotations

import time

import numpy as np
import sqlalchemy as sa

from quietshelf.curation.contributions import at_once, row_width, sum_of, summed, total, width
from quietshelf.curation.fields import batch_from
from quietshelf.model.types import NOTHING, FloatArray
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.statistics import Total
from quietshelf.serving.service.catalogue.views import settings_in
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.learning import Row, from_row, unpacked
from quietshelf.serving.service.database.pieces import Piece
from quietshelf.serving.service.database.prepared import Prepared
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.work import Task

FIRST, MOST, SECONDS = 64, 4096, 0.02
"""Slots in the first piece and in the largest, and how long a piece should take."""
PLACES = 20
"""Items shown per visitor, as assumed when sizing a piece; more items only make it slower."""
_SHELF = Prepared(sa.select(schema.shelves).where(schema.shelves.c.shelf == sa.bindparam("of_shelf")))
_offers = schema.offers.c
_SOME = Prepared(
    sa.select(_offers.contribution, _offers.rows, _offers.answer)
    .where(
        _offers.shelf == sa.bindparam("of_shelf"),
        _offers.batch == sa.bindparam("of_batch"),
        _offers.slot >= sa.bindparam("first"),
        _offers.slot < sa.bindparam("end"),
        sa.or_(_offers.contribution.isnot(None), _offers.rows.isnot(None)),
    )
    .order_by(_offers.slot)
)


class Sum(Task):
    """The sum of one sealed batch, and what was known about its shelf at the time.

    Attributes:
        row: The row of the batch.
        batch: Its public part.
        shelf: The row of the shelf.
        learner: What all earlier releases taught, published or not.
    """

    def __init__(self, store: Store, row: Row) -> None:
        super().__init__(rank=(1, row["full_at"] + row["window"] + row["lag"]))
        self._store, self.row, self.batch = store, row, batch_from(from_row(row))
        self.shelf: Row = {}
        self.learner: Learner | None = None
        dim, compares = self._dim, self.batch.frozen.compares
        self._no_choice = False
        self._slot, self._piece = 0, Piece(FIRST, min(MOST, at_once(dim, PLACES)), SECONDS)
        self._answered, self._silent = np.zeros((2, width(dim, compares=compares)))

    @property
    def _dim(self) -> int:
        return int(self.batch.frozen.theta.shape[-1])

    @property
    def total(self) -> Total:
        """The sum to release: visitors who answered, plus those who did not if they count."""
        return total(self._answered + self._silent, self._dim)

    def step(self) -> bool:
        """Add the next piece; whether there are more."""
        if not self.shelf:
            self._look()
            return True
        began, end = time.monotonic(), self._slot + self._piece.rows
        place = {"of_shelf": self.row["shelf"], "of_batch": self.row["batch"]}
        with self._store.read() as connection:
            some = _SOME.tuples(connection, {**place, "first": self._slot, "end": end})
        self._slot = end
        answered: list[FloatArray] = [np.frombuffer(part) for part, _, _ in some if part is not None]
        self._answered = self._answered + summed(answered, self._dim, compares=self.batch.frozen.compares)
        if self._no_choice:
            self._silent = self._silent + self._of_silent(
                [rows for _, rows, answer in some if rows is not None and answer is None]
            )
        self._piece.took(self._piece.rows, time.monotonic() - began)
        return self._slot < self.batch.frozen.size

    def _look(self) -> None:
        with self._store.read() as connection:
            found = _SHELF.one(connection, {"of_shelf": self.row["shelf"]})
            assert found is not None  # noqa: S101 - shelves stay, if only as deleted ones
            self.learner = learning.learner(connection, found, settings_in(found), published=False)
        self.shelf, self._no_choice = found, settings_in(found).on_no_answer == "no-choice"

    def _of_silent(self, rows: list[bytes]) -> FloatArray:
        numbers = row_width(self.batch.frozen)
        seen = [unpacked(each, -1, numbers) for each in rows]
        return sum_of(seen, [NOTHING] * len(seen), self.batch.frozen, self.batch.grid)
