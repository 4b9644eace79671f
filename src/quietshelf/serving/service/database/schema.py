"""The tables. Visitors' raw data is stored only in ``offers``, and only until their batch is released.

Numbers of shelves, batches and slots show who came when, which is public. Arrays are float64 bytes; times are seconds.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    func,
    select,
)

from quietshelf.serving.service.database.records import (
    Version,
    admin_log,
    announcements,
    events,
    keys,
    metadata,
    releaser,
    releases,
    sessions,
    store,
    witnesses,
)

__all__ = [
    "admin_log",
    "announcements",
    "events",
    "keys",
    "metadata",
    "releaser",
    "releases",
    "sessions",
    "store",
    "witnesses",
]


# What a shop has: shelves, their items, and uploads under way

shelves = Table(
    "shelves",
    metadata,
    Column("shelf", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("config_version", Integer, nullable=False),
    Column("stock_version", Version, nullable=False),
    Column("created", Double, nullable=False),
    Column("deleted", Double),
    Column("last_time", Double, nullable=False),
    Column("arrivals", Integer, nullable=False),
    Column("anonymous", Integer, nullable=False),
    Column("releases", Integer, nullable=False),
    Column("opened", Integer, nullable=False),
    Column("last_size", Integer),
    Column("next_size", Integer),
    Column("prior_capacity", Integer),
    Column("mean", LargeBinary),
    Column("second", LargeBinary),
    Column("alike", Double),
    Column("prior_theta", LargeBinary),
    Column("prior_precision", LargeBinary),
    Column("notes", Text, nullable=False),
    Column("history_incomplete", Boolean, nullable=False, server_default=false()),
)
Index("shelves_live", shelves.c.name, unique=True, sqlite_where=shelves.c.deleted.is_(None),
      postgresql_where=shelves.c.deleted.is_(None))  # fmt: skip

items = Table(
    "items",
    metadata,
    Column("shelf", Integer),
    Column("number", Integer),
    Column("id", Text, nullable=False),
    Column("features", LargeBinary, nullable=False),
    Column("revenue", Double, nullable=False),
    Column("available", Boolean, nullable=False),
    Column("retired", Boolean, nullable=False),
    Column("group", Text),
    Column("rank", Double),
    Column("version", Version, nullable=False, server_default="0"),
    PrimaryKeyConstraint("shelf", "number"),
)
"""``rank``: place in the shop's present ranking, lowest first; null for items not in it. ``version``: the stock's
version at the item's last change; items with a version above the shelf's ``stock_version`` are not on offer yet."""
Index("items_id", items.c.shelf, items.c.id, unique=True)
Index("items_version", items.c.shelf, items.c.version)

uploads = Table(
    "uploads",
    metadata,
    Column("upload", Text, primary_key=True),
    Column("shelf", Integer, nullable=False),
    Column("touched", Double, nullable=False),
    Column("base", Integer),
    Column("version", Version),
)
"""Uploads under way, and when each last made progress. A complete one has a ``version``, that of the stock that will
show it, and a ``base``, the number of items before it: from then on it will be applied, whatever happens."""

staged = Table(
    "staged",
    metadata,
    Column("upload", Text),
    Column("line", Integer),
    Column("id", Text, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("upload", "line"),
    sqlite_with_rowid=False,
)
"""Items of uploads that are not applied yet, as they were sent."""
Index("staged_id", staged.c.upload, staged.c.id, unique=True)

published = Table(
    "published",
    metadata,
    Column("shelf", Integer, primary_key=True, autoincrement=False),
    Column("since", Double, nullable=False),
)
"""Shelves whose privacy statement is public."""

# Who came, until their batch is released

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
"""Unpublished batches, with what their contributions are computed from, frozen when they opened.

``present``: slots served by the present ranking; ``share``: the share of visitors served by the learned policy, -1 once
it changed. ``arms_scale`` is null if arms are not compared. ``taken`` and ``present`` leave out slots of open leases,
which are ``leased``; ``unused``: slots still free when their lease ended. ``lag``: how long after the batch is due its
release is published. ``stage``: `TAKING`, `SEALED` or `RELEASED`."""
TAKING, SEALED, RELEASED = 0, 1, 2
"""Stages of a batch: it takes answers; it is being summed, and its slots are final; its release waits for publication,
and its slots are never read again."""

leftovers = Table(
    "leftovers",
    metadata,
    Column("shelf", Integer),
    Column("batch", Integer),
    Column("slot", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    PrimaryKeyConstraint("shelf", "batch"),
)
"""Batches that are gone, but whose visitors still have rows from ``slot`` on."""

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
"""Slots that one process, ``holder``, gives out; ``anonymous``: arrivals without a person id."""

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
"""Raw data of unreleased visitors. ``answer``: place of the item chosen, -1 for none, -3 once erased; on shelves whose
offers are made on devices, where ``items`` is null, a hash of the contribution."""
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
    """The column ``arrivals`` or ``anonymous`` of shelves, including visitors in running leases."""
    held = leases.c["taken" if name == "arrivals" else name]
    more = select(func.sum(held)).where(leases.c.shelf == shelves.c.shelf).scalar_subquery()
    return (shelves.c[name] + func.coalesce(more, 0)).label(name)


COUNTED = select(*(counted(each.name) if each.name in ("arrivals", "anonymous") else each for each in shelves.c))
"""Shelves with up-to-date counts. Writes under a shelf's lock use ``shelves`` itself."""
