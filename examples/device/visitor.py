"""A visitor's device in Python: it chooses what to show, and sends a bounded contribution instead of a choice.

It takes the same steps as the TypeScript client, with the functions that the service itself uses: for front ends in
Python, and to see how it works. It only ever sends its ticket, and a score and rows that are bounded and rounded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from quietshelf.curation.device import Wishes, choose, contribute


class Device:
    """One visitor at one shelf.

    Args:
        url: URL of the service.
        shelf: Name of the shelf.
        ticket: The ticket that the shop's back end signed for this visit.
    """

    def __init__(self, url: str, shelf: str, ticket: str) -> None:
        self._http = httpx.Client(base_url=url, headers={"Authorization": f"Ticket {ticket}"}, timeout=10)
        self._shelf = f"/v1/shelves/{shelf}"
        self._slot: Mapping[str, Any] = {}
        self._shown: Sequence[str] = ()
        self._rows: Any = None

    def offer(self, features: Sequence[float] = (), **wishes: Any) -> Sequence[str]:
        """Ids of the items to show; features and wishes never leave the device."""
        self._slot = self._checked(self._http.post(f"{self._shelf}/slots", json={})).json()
        model, catalogue = self._told("models", "release"), self._told("catalogues", "catalogue")
        decision = choose(model, catalogue, self._slot, Wishes(features, **wishes))
        self._shown, self._rows = [catalogue["ids"][item] for item in decision.items.tolist()], decision.rows
        return self._shown

    def choose(self, item: str | None) -> None:
        """Send the contribution of a choice, None for nothing."""
        place = -1 if item is None else list(self._shown).index(item)
        part = contribute(self._told("batches", "batch"), self._rows, place)
        self._checked(self._http.post(f"/v1/offers/{self._slot['offer']}/contribution", json=part))

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _told(self, kind: str, named: str) -> Mapping[str, Any]:
        """Fetch a public document; a real front end caches it and checks its signature."""
        path, edition = f"{self._shelf}/{kind}/{self._slot[named]}", self._slot["edition"]
        reply = self._checked(self._http.get(path, params={"edition": edition}))
        found: Mapping[str, Any] = json.loads(reply.json()["signed"])
        if found["edition"] != edition:
            raise ValueError(f"a document must be of the slot's edition {edition}, got {found['edition']}")
        return found

    @staticmethod
    def _checked(reply: httpx.Response) -> httpx.Response:
        if reply.is_error:
            raise ValueError(f"the service must take it, got {reply.status_code}: {reply.text}")
        return reply
