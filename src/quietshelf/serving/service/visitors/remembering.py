"""What is remembered of persons and of Idempotency-Keys: read and written once per transaction, of all its shelves.

Several processes may serve one shelf at the same time, so each is written only if it is still what was read; else the
transaction is undone and asked again.
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
"""A person's count, if it is still what was read."""
_NEW, _OLD = ("shelf", "person", "counted", "last_batch"), ("of_shelf", "who", "was", "was_last", "now", "now_last")


@dataclass
class NewRows:
    """What the visitors of one transaction add: of all its shelves together, for a statement costs more than a row."""

    persons: list[Row] = field(default_factory=list)
    moved: list[Row] = field(default_factory=list)
    offers: list[Row] = field(default_factory=list)
    retries: list[Row] = field(default_factory=list)

    def write(self, connection: Connection) -> None:
        """In an order that two transactions share: so they never deadlock."""
        _add(connection, schema.persons, self.persons)
        if self.moved and _PERSON.run_all(connection, self.moved) != len(self.moved):
            raise Contended
        if self.offers:
            insert_rows(connection, schema.offers, self.offers)
        _add(connection, schema.retries, sorted(self.retries, key=lambda row: (row["shelf"], row["key"])))


@dataclass
class Memory:
    """What one shelf knows of those who ask: once it is recalled (`recall`).

    Attributes:
        shelf: Its number.
        keys: Keyed hashes of the Idempotency-Keys of this transaction.
        names: Keyed hashes of its persons.
        persons: Visits that count, and the last batch, of each person.
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
        """An Idempotency-Key got this offer."""
        row = {"key": key, "fingerprint": fingerprint, **{name: offer[name] for name in _PLACE}}
        self.retries[key] = row
        self._new.append(row)

    def enter(self, rows: NewRows, offers: Iterable[Row]) -> None:
        """Let all that is new be written, with the offers themselves."""
        known = self._known
        moved = sorted(who for who, seen in self.persons.items() if known.get(who) != seen)
        new = [(self.shelf, who, *self.persons[who]) for who in moved if who not in known]
        old = [(self.shelf, who, *known[who], *self.persons[who]) for who in moved if who in known]
        rows.persons += [dict(zip(_NEW, each, strict=True)) for each in new]
        rows.moved += [dict(zip(_OLD, each, strict=True)) for each in old]
        rows.offers += offers
        rows.retries += self._new


def recall(connection: Connection, memories: Iterable[Memory]) -> None:
    """Read what is remembered of those who came to some shelves."""
    each = {memory.shelf: memory for memory in memories}
    for row in _KNOWN_RETRIES.rows(connection, [(one.shelf, key) for one in each.values() for key in one.keys]):
        each[row["shelf"]].retries[row["key"]] = row
    for row in _KNOWN_PERSONS.rows(connection, [(one.shelf, name) for one in each.values() for name in one.names]):
        known = (row["counted"], row["last_batch"])
        each[row["shelf"]].persons[row["person"]] = each[row["shelf"]]._known[row["person"]] = known


_PLACE = ("shelf", "batch", "slot", "made")


def _add(connection: Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Add what was not there when it was looked for; the same person or key may come to another process."""
    try:
        if rows:
            insert_rows(connection, table, rows)
    except IntegrityError:
        raise Contended from None
