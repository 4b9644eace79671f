"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from quietshelf.client.messages import (
    MANY,
    RETRIED,
    Call,
    Offer,
    Retry,
    ServiceDown,
    address,
    choice_call,
    down,
    key_call,
    lines,
    offer_call,
    offer_of,
    read,
    shelf_call,
    upload_call,
)


class Client:
    """A client of one service.

    Args:
        url: The address of the service.
        key: An API key.
        timeout: Seconds for one attempt.
        retry: Retries, and what to show when the service is down.
    """

    def __init__(self, url: str, key: str, *, timeout: float = 5.0, retry: Retry | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(base_url=address(url), headers=headers, timeout=timeout)
        self._retry = retry or Retry()
        self._patient = httpx.Timeout(timeout, read=None)  # the reply comes after all items are written

    def offer(
        self,
        shelf: str,
        features: Sequence[float] | Mapping[str, Any] = (),
        *,
        person: str | None = None,
        candidates: Sequence[str] | None = None,
        required: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        capacity: int | None = None,
        ranking: Sequence[str] | None = None,
    ) -> Offer:
        """Request what to show one visitor; a retry after a lost reply is the same visitor.

        ``features`` may be attributes by name, where the shelf has a schema.
        """
        call = offer_call(
            shelf,
            features=features,
            person=person,
            candidates=candidates,
            required=required,
            exclude=exclude,
            capacity=capacity,
            ranking=ranking,
        )
        try:
            return offer_of(self._call(call))
        except ServiceDown:
            chance = self._retry.by_chance(call)
            if chance is None:
                raise
            return chance

    def choose(self, offer: Offer | str, item: str | None) -> None:
        """Answer an offer: the item chosen, or None. Sends nothing for a random fallback offer."""
        name = offer.id if isinstance(offer, Offer) else offer
        if name is not None:
            self._call(choice_call(name, item))

    def put_shelf(self, shelf: str, **settings: Any) -> bool:
        """Create or change a shelf; returns whether it is new."""
        return bool(self._call(shelf_call("PUT", shelf, "", settings))["created"])

    def shelf(self, shelf: str) -> Mapping[str, Any]:
        """A shelf's settings and figures, and the names of its coordinates."""
        return dict(self._call(shelf_call("GET", shelf)))

    def put_items(self, shelf: str, items: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
        """Add and change items; `quietshelf.data.tables.service_items` makes them from a product table."""
        if len(items) > MANY:
            return self.upload_items(shelf, items)
        return dict(self._call(shelf_call("PUT", shelf, "/items", {"items": list(items)})))

    def upload_items(self, shelf: str, items: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
        """Stream any number of items, shown once all have arrived; not retried."""
        return dict(self._call(upload_call(shelf), content=lines(items), timeout=self._patient))

    def items(self, shelf: str) -> Iterator[Mapping[str, Any]]:
        """All items of a shelf, retired ones included, read a page at a time."""
        after: int | None = -1
        while after is not None:
            page = self._call(shelf_call("GET", shelf, f"/items?after={after}"))
            yield from page["items"]
            after = page["next"]

    def retire(self, shelf: str, items: Sequence[str]) -> None:
        """Never show these items again."""
        self._call(shelf_call("POST", shelf, "/items/retire", {"items": list(items)}))

    def erase(self, shelf: str, person: str) -> int:
        """Erase a person: visits that are in no release yet contribute nothing. Returns how many there were."""
        return int(self._call(shelf_call("POST", shelf, "/erasures", {"person": person}))["erased"])

    def privacy(self, shelf: str) -> Mapping[str, Any]:
        """The promise in words and numbers, and the ledger."""
        return dict(self._call(shelf_call("GET", shelf, "/privacy")))

    def comparison(self, shelf: str) -> Mapping[str, Any]:
        """Compare the learned policy with what you show today, from releases alone."""
        return dict(self._call(shelf_call("GET", shelf, "/comparison")))

    def releases(self, shelf: str) -> Sequence[Mapping[str, Any]]:
        """Every release and the estimate it led to."""
        return list(self._call(shelf_call("GET", shelf, "/releases"))["releases"])

    def create_key(
        self, scopes: Sequence[str], *, name: str = "", shelf: str | None = None, expires: str | None = None
    ) -> str:
        """Create a key, shown only once; not retried. ``expires`` is a day or a time, such as 2027-01-31."""
        body = {"scopes": list(scopes), "name": name, "shelf": shelf, "expires": expires}
        return str(self._call(key_call("POST", body=body))["key"])

    def list_keys(self) -> Sequence[Mapping[str, Any]]:
        """All keys, without their secrets."""
        return list(self._call(key_call("GET"))["keys"])

    def revoke_key(self, key: str) -> None:
        """Revoke a key by its id."""
        self._call(key_call("DELETE", key))

    def admin_log(self) -> Iterator[Mapping[str, Any]]:
        """What admins did, latest first, read a page at a time."""
        part: str | None = ""
        while part is not None:
            page = self._call(Call("GET", f"/v1/admin-log{part}"))
            yield from page["entries"]
            part = None if page["next"] is None else f"?before={page['next']}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, call: Call, **upload: Any) -> Any:
        """Send a request; retries if the service cannot be reached or cannot write."""
        reason: object = None
        attempts = 1 + self._retry.retries * call.repeated
        for attempt in range(attempts):
            if attempt:
                time.sleep(self._retry.wait(attempt))
            try:
                response = self._http.request(call.method, call.path, json=call.body, headers=call.headers, **upload)
            except httpx.TransportError as error:
                reason = error
                continue
            if response.status_code not in RETRIED:
                return read(response)
            reason = f"status {response.status_code}"
        cause = reason if isinstance(reason, Exception) else None
        raise down(str(self._http.base_url), attempts, reason) from cause
