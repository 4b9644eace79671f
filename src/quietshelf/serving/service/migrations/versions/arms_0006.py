"""Compare two arms: batches count visitors per arm, releases hold what each sold, items have a rank."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Open batches have no comparison, and keep none."""
    op.add_column("batches", sa.Column("arms_scale", sa.Double))
    op.add_column("batches", sa.Column("present", sa.Integer, nullable=False, server_default="0"))
    for name, kind in (("learned", sa.Integer), ("present", sa.Integer), ("outcomes", sa.LargeBinary)):
        op.add_column("releases", sa.Column(name, kind))
    op.add_column("batches", sa.Column("share", sa.Double))
    op.add_column("releases", sa.Column("arms_scale", sa.Double))
    op.add_column("releases", sa.Column("steady", sa.Boolean))
    op.add_column("items", sa.Column("rank", sa.Double))
