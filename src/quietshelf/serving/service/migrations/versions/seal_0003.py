"""Which epoch file announced the last release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the seal; the first release sets it."""
    op.add_column("store", sa.Column("seal", sa.Text))
