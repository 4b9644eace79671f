"""A typed client of the service, importable alone: sync and async, with retries that cannot count anybody twice."""

from quietshelf.client.asynchronous import AsyncClient
from quietshelf.client.synchronous import Client
from quietshelf.client.words import Offer, Patience, Refused, ServiceDown

__all__ = ["AsyncClient", "Client", "Offer", "Patience", "Refused", "ServiceDown"]
