"""A typed client of the service, sync and async, with safe retries: nobody is counted twice."""

from quietshelf.client.asynchronous import AsyncClient
from quietshelf.client.messages import Offer, Refused, Retry, ServiceDown
from quietshelf.client.synchronous import Client
from quietshelf.client.tickets import ticket

__all__ = ["AsyncClient", "Client", "Offer", "Refused", "Retry", "ServiceDown", "ticket"]
