"""Tables of who came, until their batch is released: what was seen of a visitor lives in ``offers`` only."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    func,
    select,
)

from quietshelf.serving.service.database.schema.base import metadata
from quietshelf.serving.service.database.schema.catalogue import shelves

batches = Table(
    "batches",
    metadata,
    Column("shelf", Integer),
    Column("batch", Integer),
    Column("size", Integer, nullable=False),
    Column("taken", Integer, nullable=False),
    Column("theta", LargeBinary, nullable=False),
    Column("coordinates", LargeBinary, nullable=False),
    Column("score_scale", Double, nullable=False),
    Column("information_scale", Double, nullable=False),
    Column("bound", Double, nullable=False),
    Column("expected", LargeBinary, nullable=False),
    Column("spread", Double, nullable=False),
    Column("grid", Double, nullable=False),
    Column("window", Double, nullable=False),
    Column("opened_at", Double, nullable=False),
    Column("full_at", Double),
    Column("arms_scale", Double),
    Column("present", Integer, nullable=False, server_default="0"),
    Column("share", Double),
    Column("leased", Integer, nullable=False, server_default="0"),
    Column("unused", Integer, nullable=False, server_default="0"),
    Column("latest", Double),
    Column("lag", Double, nullable=False, server_default="0"),
    Column("stage", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("shelf", "batch"),
)
"""Batches that are not published: what their contributions are computed with, frozen when they opened.

``present``: slots that the present ranking served; ``share``: of visitors that the learned policy serves, -1 once it
changed. ``arms_scale`` is null where arms are not compared. ``taken`` and ``present`` are without those of ``leases``
that have not ended, which are ``leased``; ``unused``: slots that nobody had taken when their lease ended. ``lag``: how
long after the batch is due its release is published. ``stage``: `TAKING`, `SEALED` or `RELEASED`."""
TAKING, SEALED, RELEASED = 0, 1, 2
"""A batch takes answers; it is being added up, and nothing changes its slots; its release waits for its time, and its
slots are never read again."""

leftovers = Table(
    "leftovers",
    metadata,
    Column("shelf", Integer),
    Column("batch", Integer),
    Column("slot", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    PrimaryKeyConstraint("shelf", "batch"),
)
"""Batches that are gone and whose visitors are not all deleted, from ``slot`` on."""

leases = Table(
    "leases",
    metadata,
    Column("shelf", Integer),
    Column("batch", Integer),
    Column("first", Integer),
    Column("size", Integer, nullable=False),
    Column("until", Double, nullable=False),
    Column("last", Double, nullable=False),
    Column("taken", Integer, nullable=False),
    Column("present", Integer, nullable=False),
    Column("share", Double),
    Column("holder", Text, nullable=False),
    Column("anonymous", Integer, nullable=False),
    PrimaryKeyConstraint("shelf", "batch", "first"),
)
"""Slots that one process, ``holder``, gives out to its own arrivals; ``anonymous``: those who came without an id."""

offers = Table(
    "offers",
    metadata,
    Column("shelf", Integer),
    Column("batch", Integer),
    Column("slot", Integer),
    Column("nonce", LargeBinary, nullable=False),
    Column("made", Double, nullable=False),
    Column("release", Integer, nullable=False),
    Column("items", Text, nullable=False),
    Column("rows", LargeBinary),
    Column("answer", Integer),
    Column("contribution", LargeBinary),
    Column("person", Text),
    PrimaryKeyConstraint("shelf", "batch", "slot"),
    sqlite_with_rowid=False,
)
"""Raw data of visitors who are not released. ``answer``: place of the item chosen, -1 for none, -3 once erased;
what tells one contribution from another where offers are made on devices, whose ``items`` are null."""
Index("offers_person", offers.c.shelf, offers.c.person, sqlite_where=offers.c.person.isnot(None),
      postgresql_where=offers.c.person.isnot(None))  # fmt: skip

retries = Table(
    "retries",
    metadata,
    Column("shelf", Integer),
    Column("key", Text),
    Column("batch", Integer, nullable=False),
    Column("slot", Integer, nullable=False),
    Column("fingerprint", Text),
    Column("made", Double, nullable=False),
    PrimaryKeyConstraint("shelf", "key"),
    sqlite_with_rowid=False,
)
Index("retries_slot", retries.c.shelf, retries.c.batch, retries.c.slot)
Index("retries_released", retries.c.made, sqlite_where=retries.c.fingerprint.is_(None),
      postgresql_where=retries.c.fingerprint.is_(None))  # fmt: skip

persons = Table(
    "persons",
    metadata,
    Column("shelf", Integer),
    Column("person", Text),
    Column("counted", Integer, nullable=False),
    Column("last_batch", Integer, nullable=False),
    PrimaryKeyConstraint("shelf", "person"),
    sqlite_with_rowid=False,
)


def counted(name: str) -> ColumnElement[int]:
    """The column ``arrivals`` or ``anonymous`` of shelves, with those who came to leases that have not ended."""
    held = leases.c["taken" if name == "arrivals" else name]
    more = select(func.sum(held)).where(leases.c.shelf == shelves.c.shelf).scalar_subquery()
    return (shelves.c[name] + func.coalesce(more, 0)).label(name)


COUNTED = select(*(counted(each.name) if each.name in ("arrivals", "anonymous") else each for each in shelves.c))
"""Shelves as they are at this moment; what is written under a shelf's lock reads ``shelves`` itself."""
