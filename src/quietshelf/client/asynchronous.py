"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
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
    each,
    key_call,
    lines,
    offer_call,
    offer_of,
    read,
    shelf_call,
    upload_call,
)


class AsyncClient:
    """An asynchronous client of one service.

    Args:
        url: The address of the service.
        key: An API key.
        timeout: Seconds for one attempt.
        retry: Retries, and what to show when the service is down.
    """

    def __init__(self, url: str, key: str, *, timeout: float = 5.0, retry: Retry | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(base_url=address(url), headers=headers, timeout=timeout)
        self._retry = retry or Retry()
        self._patient = httpx.Timeout(timeout, read=None)  # the reply comes after all items are written

    async def offer(
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
            return offer_of(await self._call(call))
        except ServiceDown:
            chance = self._retry.by_chance(call)
            if chance is None:
                raise
            return chance

    async def choose(self, offer: Offer | str, item: str | None) -> None:
        """Answer an offer: the item chosen, or None. Sends nothing for a random fallback offer."""
        name = offer.id if isinstance(offer, Offer) else offer
        if name is not None:
            await self._call(choice_call(name, item))

    async def put_shelf(self, shelf: str, **settings: Any) -> bool:
        """Create or change a shelf; returns whether it is new."""
        return bool((await self._call(shelf_call("PUT", shelf, "", settings)))["created"])

    async def shelf(self, shelf: str) -> Mapping[str, Any]:
        """A shelf's settings and figures, and the names of its coordinates."""
        return dict(await self._call(shelf_call("GET", shelf)))

    async def put_items(self, shelf: str, items: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
        """Add and change items; `quietshelf.data.tables.service_items` makes them from a product table."""
        if len(items) > MANY:
            return await self.upload_items(shelf, items)
        return dict(await self._call(shelf_call("PUT", shelf, "/items", {"items": list(items)})))

    async def upload_items(self, shelf: str, items: Iterable[Mapping[str, Any]]) -> Mapping[str, int]:
        """Stream any number of items, shown once all have arrived; not retried."""
        return dict(await self._call(upload_call(shelf), content=each(lines(items)), timeout=self._patient))

    async def items(self, shelf: str) -> AsyncIterator[Mapping[str, Any]]:
        """All items of a shelf, retired ones included, read a page at a time."""
        after: int | None = -1
        while after is not None:
            page = await self._call(shelf_call("GET", shelf, f"/items?after={after}"))
            for item in page["items"]:
                yield item
            after = page["next"]

    async def retire(self, shelf: str, items: Sequence[str]) -> None:
        """Never show these items again."""
        await self._call(shelf_call("POST", shelf, "/items/retire", {"items": list(items)}))

    async def erase(self, shelf: str, person: str) -> int:
        """Erase a person: visits that are in no release yet contribute nothing. Returns how many there were."""
        return int((await self._call(shelf_call("POST", shelf, "/erasures", {"person": person})))["erased"])

    async def privacy(self, shelf: str) -> Mapping[str, Any]:
        """The promise in words and numbers, and the ledger."""
        return dict(await self._call(shelf_call("GET", shelf, "/privacy")))

    async def comparison(self, shelf: str) -> Mapping[str, Any]:
        """Compare the learned policy with what you show today, from releases alone."""
        return dict(await self._call(shelf_call("GET", shelf, "/comparison")))

    async def releases(self, shelf: str) -> Sequence[Mapping[str, Any]]:
        """Every release and the estimate it led to."""
        return list((await self._call(shelf_call("GET", shelf, "/releases")))["releases"])

    async def create_key(
        self, scopes: Sequence[str], *, name: str = "", shelf: str | None = None, expires: str | None = None
    ) -> str:
        """Create a key, shown only once; not retried. ``expires`` is a day or a time, such as 2027-01-31."""
        body = {"scopes": list(scopes), "name": name, "shelf": shelf, "expires": expires}
        return str((await self._call(key_call("POST", body=body)))["key"])

    async def list_keys(self) -> Sequence[Mapping[str, Any]]:
        """All keys, without their secrets."""
        return list((await self._call(key_call("GET")))["keys"])

    async def revoke_key(self, key: str) -> None:
        """Revoke a key by its id."""
        await self._call(key_call("DELETE", key))

    async def admin_log(self) -> AsyncIterator[Mapping[str, Any]]:
        """What admins did, latest first, read a page at a time."""
        part: str | None = ""
        while part is not None:
            page = await self._call(Call("GET", f"/v1/admin-log{part}"))
            for entry in page["entries"]:
                yield entry
            part = None if page["next"] is None else f"?before={page['next']}"

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _call(self, call: Call, **upload: Any) -> Any:
        """Send a request; retries if the service cannot be reached or cannot write."""
        reason: object = None
        attempts = 1 + self._retry.retries * call.repeated
        for attempt in range(attempts):
            if attempt:
                await asyncio.sleep(self._retry.wait(attempt))
            try:
                response = await self._http.request(
                    call.method, call.path, json=call.body, headers=call.headers, **upload
                )
            except httpx.TransportError as error:
                reason = error
                continue
            if response.status_code not in RETRIED:
                return read(response)
            reason = f"status {response.status_code}"
        cause = reason if isinstance(reason, Exception) else None
        raise down(str(self._http.base_url), attempts, reason) from cause
