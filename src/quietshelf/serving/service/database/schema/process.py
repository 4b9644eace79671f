"""Tables of the service itself: which database this is, and which process may release."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, Integer, Table, Text

from quietshelf.serving.service.database.schema.base import metadata

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
