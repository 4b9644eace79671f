"""Tables of who may do what, and of what admins did."""

from __future__ import annotations

from sqlalchemy import Column, Double, Index, Table, Text

from quietshelf.serving.service.database.schema.base import Version, metadata

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
