"""Tables of what a shop has: shelves, their items, and uploads that are under way."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text, false

from quietshelf.serving.service.database.schema.base import Version, metadata

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

published = Table(
    "published",
    metadata,
    Column("shelf", Integer, primary_key=True, autoincrement=False),
    Column("since", Double, nullable=False),
)
"""Shelves whose privacy statement anybody may read."""
