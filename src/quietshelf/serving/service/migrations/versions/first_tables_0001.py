"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create them."""
    _shelves()
    _items_and_batches()
    _visitors()
    _releases()
    _keys()
    live, named = sa.text("deleted IS NULL"), sa.text("person IS NOT NULL")
    op.create_index("shelves_live", "shelves", ["name"], unique=True, sqlite_where=live, postgresql_where=live)
    op.create_index("offers_person", "offers", ["shelf", "person"], sqlite_where=named, postgresql_where=named)
    op.create_index("releases_once", "releases", ["shelf", "batch"], unique=True)


def _shelves() -> None:
    """The store, and its shelves."""
    op.create_table(
        "store",
        sa.Column("one", sa.Integer, primary_key=True),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("key_check", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("dropped", sa.Integer, nullable=False),
    )
    op.create_table(
        "shelves",
        sa.Column("shelf", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("config", sa.Text, nullable=False),
        sa.Column("config_version", sa.Integer, nullable=False),
        sa.Column("stock_version", sa.Integer, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("deleted", sa.Double),
        sa.Column("moment", sa.Double, nullable=False),
        sa.Column("arrivals", sa.Integer, nullable=False),
        sa.Column("anonymous", sa.Integer, nullable=False),
        sa.Column("releases", sa.Integer, nullable=False),
        sa.Column("opened", sa.Integer, nullable=False),
        sa.Column("last_size", sa.Integer),
        sa.Column("next_size", sa.Integer),
        sa.Column("open", sa.Boolean, nullable=False),
        sa.Column("visitor_dim", sa.Integer),
        sa.Column("declared", sa.Boolean),
        sa.Column("curvature", sa.LargeBinary),
        sa.Column("prior_theta", sa.LargeBinary),
        sa.Column("prior_precision", sa.LargeBinary),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("estranged", sa.Boolean, nullable=False, server_default=sa.false()),
    )


def _items_and_batches() -> None:
    """Items and batches."""
    op.create_table(
        "items",
        sa.Column("shelf", sa.Integer),
        sa.Column("number", sa.Integer),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("features", sa.LargeBinary, nullable=False),
        sa.Column("revenue", sa.Double, nullable=False),
        sa.Column("available", sa.Boolean, nullable=False),
        sa.Column("retired", sa.Boolean, nullable=False),
        sa.Column("group", sa.Text),
        sa.PrimaryKeyConstraint("shelf", "number"),
    )
    op.create_table(
        "batches",
        sa.Column("shelf", sa.Integer),
        sa.Column("batch", sa.Integer),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("taken", sa.Integer, nullable=False),
        sa.Column("theta", sa.LargeBinary, nullable=False),
        sa.Column("coordinates", sa.LargeBinary, nullable=False),
        sa.Column("score_scale", sa.Double, nullable=False),
        sa.Column("information_scale", sa.Double, nullable=False),
        sa.Column("grid", sa.Double, nullable=False),
        sa.Column("window", sa.Double, nullable=False),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("full_at", sa.Double),
        sa.PrimaryKeyConstraint("shelf", "batch"),
    )


def _visitors() -> None:
    """Offers, Idempotency-Keys and persons."""
    op.create_table(
        "offers",
        sa.Column("shelf", sa.Integer),
        sa.Column("batch", sa.Integer),
        sa.Column("slot", sa.Integer),
        sa.Column("nonce", sa.LargeBinary, nullable=False),
        sa.Column("made", sa.Double, nullable=False),
        sa.Column("release", sa.Integer, nullable=False),
        sa.Column("items", sa.Text, nullable=False),
        sa.Column("rows", sa.LargeBinary),
        sa.Column("answer", sa.Integer),
        sa.Column("contribution", sa.LargeBinary),
        sa.Column("person", sa.Text),
        sa.PrimaryKeyConstraint("shelf", "batch", "slot"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "retries",
        sa.Column("shelf", sa.Integer),
        sa.Column("key", sa.Text),
        sa.Column("batch", sa.Integer, nullable=False),
        sa.Column("slot", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.Text),
        sa.Column("made", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("shelf", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "persons",
        sa.Column("shelf", sa.Integer),
        sa.Column("person", sa.Text),
        sa.Column("counted", sa.Integer, nullable=False),
        sa.Column("last_batch", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("shelf", "person"),
        sqlite_with_rowid=False,
    )


def _releases() -> None:
    """Releases, and the ledger."""
    op.create_table(
        "releases",
        sa.Column("shelf", sa.Integer),
        sa.Column("number", sa.Integer),
        sa.Column("batch", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("score_scale", sa.Double, nullable=False),
        sa.Column("information_scale", sa.Double, nullable=False),
        sa.Column("grid", sa.Double, nullable=False),
        sa.Column("evaluated_at", sa.LargeBinary, nullable=False),
        sa.Column("coordinates", sa.LargeBinary, nullable=False),
        sa.Column("score", sa.LargeBinary, nullable=False),
        sa.Column("vectors", sa.LargeBinary, nullable=False),
        sa.Column("values", sa.LargeBinary, nullable=False),
        sa.Column("theta", sa.LargeBinary, nullable=False),
        sa.Column("precision", sa.LargeBinary, nullable=False),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("full_at", sa.Double, nullable=False),
        sa.Column("released_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("shelf", "number"),
    )
    op.create_table(
        "events",
        sa.Column("shelf", sa.Integer),
        sa.Column("number", sa.Integer),
        sa.Column("batch", sa.Integer, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("shelf", "number"),
    )


def _keys() -> None:
    """API keys."""
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("shelf", sa.Text),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("revoked", sa.Double),
    )
