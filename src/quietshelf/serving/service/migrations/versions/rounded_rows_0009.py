"""Store contributions as rounded rows and sum them exactly: open batches, stored as matrices, are dropped.

Contributions to open batches were rounded for other noise than a release now draws, so they may not be released.
Dropping costs no privacy: contributions and features are deleted, offers expire, and the next batch has the size of the
first dropped one.
"""

from __future__ import annotations

from alembic import op

from quietshelf.serving.service.migrations.dropping import drop_open_batches

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Drop open batches."""
    drop_open_batches(op.get_bind(), "rounds")
