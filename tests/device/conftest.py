"""The databases and the clock of the service's own tests."""

from tests.serving.service.conftest import clock, database, postgres

__all__ = ["clock", "database", "postgres"]
