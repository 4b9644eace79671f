"""A typed client of the service, importable alone: sync and async, with retries that cannot count anybody twice."""

from quietshelf.client.asynchronous import AsyncClient
from quietshelf.client.synchronous import Client
from quietshelf.client.tickets import ticket
from quietshelf.client.words import Offer, Refused, Retry, ServiceDown

__all__ = ["AsyncClient", "Client", "Offer", "Refused", "Retry", "ServiceDown", "ticket"]
