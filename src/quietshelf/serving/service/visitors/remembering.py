"""Reads and writes persons and Idempotency-Keys, once per transaction for all its shelves.

Several processes may serve one shelf at the same time, so a row is written only if it is still as it was read;
otherwise the transaction is rolled back and repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.lookup import Keyed
from quietshelf.serving.service.database.prepared import Prepared, insert_rows
from quietshelf.serving.service.writer import Contended

_persons, _retries = schema.persons.c, schema.retries.c
_of_shelf: sa.BindParameter[int] = sa.bindparam("of_shelf")
_KNOWN_PERSONS = Keyed(schema.persons, ("shelf", "person"))
_KNOWN_RETRIES = Keyed(schema.retries, ("shelf", "key"))
_PERSON = Prepared(
    sa.update(schema.persons)
    .where(
        _persons.shelf == _of_shelf,
        _persons.person == sa.bindparam("who"),
        _persons.counted == sa.bindparam("was"),
        _persons.last_batch == sa.bindparam("was_last"),
    )
    .values(counted=sa.bindparam("now"), last_batch=sa.bindparam("now_last"))
)
"""Update a person's count, if it is still as it was read."""
_NEW, _OLD = ("shelf", "person", "counted", "last_batch"), ("of_shelf", "who", "was", "was_last", "now", "now_last")


@dataclass
class NewRows:
    """The rows that one transaction's visitors add, for all shelves together: a statement costs more than a row."""

    persons: list[Row] = field(default_factory=list)
    moved: list[Row] = field(default_factory=list)
    offers: list[Row] = field(default_factory=list)
    retries: list[Row] = field(default_factory=list)

    def write(self, connection: Connection) -> None:
        """Write them, in the same order in every transaction, so that none deadlock."""
        _add(connection, schema.persons, self.persons)
        if self.moved and _PERSON.run_all(connection, self.moved) != len(self.moved):
            raise Contended
        if self.offers:
            insert_rows(connection, schema.offers, self.offers)
        _add(connection, schema.retries, sorted(self.retries, key=lambda row: (row["shelf"], row["key"])))


@dataclass
class Memory:
    """What one shelf remembers about its visitors, once `recall` has read it.

    Attributes:
        shelf: Its number.
        keys: Keyed hashes of the Idempotency-Keys of this transaction.
        names: Keyed hashes of its persons.
        persons: Each person's counted visits and last batch.
        retries: Rows of Idempotency-Keys, those of this transaction included.
    """

    shelf: int
    keys: Sequence[str] = ()
    names: Sequence[str] = ()
    persons: dict[str, tuple[int, int]] = field(default_factory=dict)
    retries: dict[str, Row] = field(default_factory=dict)
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)
    _new: list[Row] = field(default_factory=list)

    def remember(self, key: str, fingerprint: str, offer: Row) -> None:
        """Remember the offer that an Idempotency-Key got."""
        row = {"key": key, "fingerprint": fingerprint, **{name: offer[name] for name in _PLACE}}
        self.retries[key] = row
        self._new.append(row)

    def enter(self, rows: NewRows, offers: Iterable[Row]) -> None:
        """Add everything new to the rows to write, and the offers."""
        known = self._known
        moved = sorted(who for who, seen in self.persons.items() if known.get(who) != seen)
        new = [(self.shelf, who, *self.persons[who]) for who in moved if who not in known]
        old = [(self.shelf, who, *known[who], *self.persons[who]) for who in moved if who in known]
        rows.persons += [dict(zip(_NEW, each, strict=True)) for each in new]
        rows.moved += [dict(zip(_OLD, each, strict=True)) for each in old]
        rows.offers += offers
        rows.retries += self._new


def recall(connection: Connection, memories: Iterable[Memory]) -> None:
    """Read what these shelves remember about their visitors."""
    each = {memory.shelf: memory for memory in memories}
    for row in _KNOWN_RETRIES.rows(connection, [(one.shelf, key) for one in each.values() for key in one.keys]):
        each[row["shelf"]].retries[row["key"]] = row
    for row in _KNOWN_PERSONS.rows(connection, [(one.shelf, name) for one in each.values() for name in one.names]):
        known = (row["counted"], row["last_batch"])
        each[row["shelf"]].persons[row["person"]] = each[row["shelf"]]._known[row["person"]] = known


_PLACE = ("shelf", "batch", "slot", "made")


def _add(connection: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows that did not exist when read; another process may have inserted the same person or key."""
    try:
        if rows:
            insert_rows(connection, table, rows)
    except IntegrityError:
        raise Contended from None
