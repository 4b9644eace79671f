"""Databases as tests of the service have them."""

from __future__ import annotations

from tests.serving.service.conftest import database, postgres

__all__ = ["database", "postgres"]
