"""Tables of what is released, and the ledger of its budget."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Double, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text

from quietshelf.serving.service.database.schema.base import metadata

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
