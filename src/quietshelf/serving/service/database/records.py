"""Tables of what is published, and of who may release or ask: releases, the ledger, the election, keys, sessions.

`schema` has them all; raw data of visitors is in none of these.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)

metadata = MetaData()
Version = BigInteger().with_variant(Integer, "sqlite")
"""Its lower half counts changes, its upper half uploads (`uploads`)."""

# What is released, and the ledger of its budget

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
"""``bound`` to ``fit`` are null for releases made before score and information were bounded together; ``learned`` and
the columns after it are null if arms are not compared."""
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

# The service itself: which database this is, and which process may release

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
"""One row: the database's identity, a check of its key, how often it was restored, how many visitors were left out, and
the id of the last announcement, which only an up-to-date epoch file has."""

releaser = Table(
    "releaser",
    metadata,
    Column("one", Integer, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", Double, nullable=False),
)
"""One row on PostgreSQL: which process makes the releases, and until when."""

announcements = Table(
    "announcements",
    metadata,
    Column("id", Text, primary_key=True),
    Column("previous", Text),
    Column("shelf", Integer, nullable=False),
    Column("batch", Integer, nullable=False),
)
"""On PostgreSQL, at most one row: the release under way, perhaps drawn; ``previous``: the announcement before it."""

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
"""On PostgreSQL, processes that may release, until when each counts as alive, and the announcement that its epoch
``file``, stored in ``place``, has ``noted``. ``member``: the file knows of every release; ``view``: files that may know
of a release that this one does not; ``heard``: processes whose files are in it."""

# Who may do what, and what admins did

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
"""What admins did. Rows are added in the transaction of the act, never changed, and deleted when old. ``key``: the id
of the key used, empty for a command."""
Index("admin_log_time", admin_log.c.time)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("expires", Double, nullable=False),
)
"""Sessions of the pages: the hash of a cookie, the key it stands for, and until when."""
