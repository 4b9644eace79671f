"""The tables. What was seen of a visitor lives in ``offers`` only, and only until its batch is released.

Numbers of shelves, batches and slots say who came when, which is public; arrays are float64 bytes; times are seconds.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    func,
    select,
)

metadata = MetaData()
Version = BigInteger().with_variant(Integer, "sqlite")
"""Changes are counted in its lower half, uploads in its upper half (`uploads`)."""

store = Table(
    "store",
    metadata,
    Column("one", Integer, primary_key=True),
    Column("identity", Text, nullable=False),
    Column("key_check", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("dropped", Integer, nullable=False),
    Column("releaser_id", Text),
)
"""One row: which database this is, which key its hashes need, how often it was restored, who was left out then, and
the id of the last announcement: an epoch file that has it knows of every release."""

releaser = Table(
    "releaser",
    metadata,
    Column("one", Integer, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Double, nullable=False),
)
"""One row, where several processes share a PostgreSQL: which of them makes the releases, and until when."""

announcements = Table(
    "announcements",
    metadata,
    Column("id", Text, primary_key=True),
    Column("previous", Text),
    Column("shelf", Integer, nullable=False),
    Column("batch", Integer, nullable=False),
)
"""The release that is under way on PostgreSQL, at most one, perhaps drawn; ``previous``: the announcement before."""

witnesses = Table(
    "witnesses",
    metadata,
    Column("process", Text, primary_key=True),
    Column("until", Double, nullable=False),
    Column("noted", Text),
    Column("file", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("member", Boolean, nullable=False),
    Column("view", Text, nullable=False),
    Column("heard", Text, nullable=False),
)
"""Processes on PostgreSQL that may release, until when they count as alive, and the announcement that their epoch
``file``, kept in ``place``, has ``noted``. ``member``: it knows of every release; ``view``: files that may know of one
that it does not; ``heard``: processes whose files are in it."""

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
"""``rank``: place in the shop's present ranking, lowest first; null for items not in it. ``version``: that of the stock
with the item's last change; one that is larger than the shelf's ``stock_version`` is not on offer yet."""
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
"""Uploads of items under way, and when each last went on. Once one is complete it has a ``version``, that of the stock
which will show it, and ``base``, how many items there were: from then on it is taken in, whatever happens."""

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
"""Items of uploads that are not taken in yet, as they were sent."""
Index("staged_id", staged.c.upload, staged.c.id, unique=True)

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

releases = Table(
    "releases",
    metadata,
    Column("shelf", Integer),
    Column("number", Integer),
    Column("batch", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("score_scale", Double, nullable=False),
    Column("information_scale", Double, nullable=False),
    Column("grid", Double, nullable=False),
    Column("evaluated_at", LargeBinary, nullable=False),
    Column("coordinates", LargeBinary, nullable=False),
    Column("score", LargeBinary, nullable=False),
    Column("vectors", LargeBinary, nullable=False),
    Column("values", LargeBinary, nullable=False),
    Column("theta", LargeBinary, nullable=False),
    Column("precision", LargeBinary, nullable=False),
    Column("opened_at", Double, nullable=False),
    Column("full_at", Double, nullable=False),
    Column("released_at", Double, nullable=False),
    Column("bound", Double),
    Column("kept", Double),
    Column("spread", Double),
    Column("fit", LargeBinary),
    Column("learned", Integer),
    Column("present", Integer),
    Column("outcomes", LargeBinary),
    Column("arms_scale", Double),
    Column("steady", Boolean),
    PrimaryKeyConstraint("shelf", "number"),
)
"""``bound`` to ``fit`` are null for releases made before score and information were bounded together, ``learned`` and
what follows it where arms are not compared."""
Index("releases_once", releases.c.shelf, releases.c.batch, unique=True)

events = Table(
    "events",
    metadata,
    Column("shelf", Integer),
    Column("number", Integer),
    Column("batch", Integer, nullable=False),
    Column("event", Text, nullable=False),
    PrimaryKeyConstraint("shelf", "number"),
)
"""The ledger. Rows are added in the transaction of their release, and never changed or deleted."""

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("shelf", Text),
    Column("created", Double, nullable=False),
    Column("revoked", Double),
    Column("expires", Double),
)

admin_log = Table(
    "admin_log",
    metadata,
    Column("number", Version, primary_key=True),
    Column("time", Double, nullable=False),
    Column("key", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("shelf", Text),
    Column("details", Text, nullable=False),
)
"""What admins did. Rows are added in the transaction of the act, never changed, and deleted when they are old.
``key``: the id of the key that was used, empty where a command did it."""
Index("admin_log_time", admin_log.c.time)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("expires", Double, nullable=False),
)
"""Who is signed in to the pages: the hash of a cookie, the key it stands for, and until when."""

published = Table(
    "published",
    metadata,
    Column("shelf", Integer, primary_key=True, autoincrement=False),
    Column("since", Double, nullable=False),
)
"""Shelves whose privacy statement anybody may read."""


def counted(name: str) -> ColumnElement[int]:
    """The column ``arrivals`` or ``anonymous`` of shelves, with those who came to leases that have not ended."""
    held = leases.c["taken" if name == "arrivals" else name]
    more = select(func.sum(held)).where(leases.c.shelf == shelves.c.shelf).scalar_subquery()
    return (shelves.c[name] + func.coalesce(more, 0)).label(name)


COUNTED = select(*(counted(each.name) if each.name in ("arrivals", "anonymous") else each for each in shelves.c))
"""Shelves as they are at this moment; what is written under a shelf's lock reads ``shelves`` itself."""
