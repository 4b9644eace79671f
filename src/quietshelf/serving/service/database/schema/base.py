"""What all tables share."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, MetaData

metadata = MetaData()
Version = BigInteger().with_variant(Integer, "sqlite")
"""Changes are counted in its lower half, uploads in its upper half (`uploads`)."""
