"""The databases of the service's own tests."""

from tests.service.conftest import database, postgres

__all__ = ["database", "postgres"]
