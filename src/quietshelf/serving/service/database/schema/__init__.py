"""The tables. What was seen of a visitor lives in ``offers`` only, and only until its batch is released.

Numbers of shelves, batches and slots say who came when, which is public; arrays are float64 bytes; times are seconds.
"""

from __future__ import annotations

from quietshelf.serving.service.database.schema.access import admin_log, keys, sessions
from quietshelf.serving.service.database.schema.base import metadata
from quietshelf.serving.service.database.schema.catalogue import items, published, shelves, staged, uploads
from quietshelf.serving.service.database.schema.ledger import events, releases
from quietshelf.serving.service.database.schema.process import announcements, releaser, store, witnesses
from quietshelf.serving.service.database.schema.visitors import (
    COUNTED,
    RELEASED,
    SEALED,
    TAKING,
    batches,
    counted,
    leases,
    leftovers,
    offers,
    persons,
    retries,
)

__all__ = [
    "COUNTED",
    "RELEASED",
    "SEALED",
    "TAKING",
    "admin_log",
    "announcements",
    "batches",
    "counted",
    "events",
    "items",
    "keys",
    "leases",
    "leftovers",
    "metadata",
    "offers",
    "persons",
    "published",
    "releaser",
    "releases",
    "retries",
    "sessions",
    "shelves",
    "staged",
    "store",
    "uploads",
    "witnesses",
]
