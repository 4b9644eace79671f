"""Shared by both clients: requests as data, typed replies, retries, and the fallback if the service is down."""

from __future__ import annotations

import json
import math
import random
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from httpx import Response

RETRIED = (502, 503, 504)
NDJSON = {"Content-Type": "application/x-ndjson"}
MANY = 1000
"""Most items sent in one document; more are streamed."""
PART = 65_536
"""Least bytes per part of a stream."""


class Refused(ValueError):  # noqa: N818 - says what happened
    """The service refused a request. ``kind`` is its type, such as ``offer-expired``; ``status`` is HTTP's."""

    def __init__(self, problem: Mapping[str, Any], status: int) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"status {status}"))
        self.status = status
        self.kind = str(problem.get("type", "")).rpartition(":")[2]
        self.problem = dict(problem)


class ServiceDown(ConnectionError):  # noqa: N818 - says what happened
    """Every attempt failed: the service could not be reached, or could not write."""


@dataclass(frozen=True)
class Offer:
    """What to show.

    Attributes:
        id: Identifies the offer in the answer; None for a random fallback offer.
        items: Item ids, in order.
        release: The release that the offer uses; 0 before the first.
        expires: When answers stop counting (ISO 8601).
    """

    id: str | None
    items: tuple[str, ...]
    release: int = 0
    expires: str | None = None

    @property
    def fallback(self) -> bool:
        """Whether the items are random because the service was down."""
        return self.id is None


@dataclass(frozen=True)
class Call:
    """One request."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    repeated: bool = field(default=True, kw_only=True)
    """Whether repeating the request is harmless, so that it is sent again if the reply was lost."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and how long to try again.

    Attributes:
        retries: Further attempts after the first.
        pause: Seconds before the first of them; each later pause is twice as long, with random jitter.
        fallback: Items to show at random if the service is down and the offer names no candidates.
        fallback_capacity: How many of them to show; required with ``fallback``. Without it, `ServiceDown` is raised.
    """

    retries: int = 3
    pause: float = 0.1
    fallback: Sequence[str] = ()
    fallback_capacity: int | None = None

    def __post_init__(self) -> None:
        if self.fallback and self.fallback_capacity is None:
            raise ValueError("fallback_capacity must say how many items of fallback are shown, got None")

    def wait(self, attempt: int) -> float:
        """Seconds before attempt number ``attempt``, from 1 on."""
        return self.pause * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, hides nothing

    def by_chance(self, call: Call) -> Offer | None:
        """A random offer in place of the service's, if that was asked for."""
        if self.fallback_capacity is None:
            return None
        body = call.body or {}
        barred = set(body.get("exclude", ()))
        required = [item for item in body.get("required", ()) if item not in barred]
        free = [item for item in body.get("candidates", self.fallback) if item not in barred and item not in required]
        room = min(body.get("capacity", self.fallback_capacity), self.fallback_capacity)
        more = random.SystemRandom().sample(free, min(len(free), max(0, room - len(required))))
        return Offer(None, (*required, *more))


def offer_call(shelf: str, **asked: Any) -> Call:
    """Request an offer. The key makes every retry of this call the same visitor."""
    body = {name: value for name, value in asked.items() if value is not None}
    given = body.pop("features", ())
    body |= {"attributes": _attributes(given)} if isinstance(given, Mapping) else {"features": _features(given)}
    key = {"Idempotency-Key": secrets.token_urlsafe(18)}
    return shelf_call("POST", shelf, "/offers", body, key)


def _features(given: Sequence[float]) -> list[float]:
    features = [float(value) for value in given]
    if not all(map(math.isfinite, features)):
        raise ValueError(f"features must be finite, got features={features}")
    return features


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes for JSON, with NaN as null."""
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in given.items()}


def shelf_call(method: str, shelf: str, part: str = "", *sent: Mapping[str, Any]) -> Call:
    """A request about a shelf, or a part of it such as ``/items``, with a body and headers if there are any."""
    return Call(method, f"/v1/shelves/{_segment(shelf)}{part}", *sent)


def upload_call(shelf: str) -> Call:
    """Stream items to a shelf, without retries: a stream cannot be sent again."""
    return replace(shelf_call("PUT", shelf, "/items"), headers=NDJSON, repeated=False)


def key_call(method: str, key: str = "", body: Mapping[str, Any] | None = None) -> Call:
    """A request about keys. Creating one is not retried, or there could be two."""
    return Call(method, f"/v1/keys/{_segment(key)}" if key else "/v1/keys", body, repeated=method != "POST")


def lines(items: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Items as lines of JSON, in parts worth sending."""
    part = bytearray()
    for item in items:
        part += json.dumps(item, allow_nan=False).encode() + b"\n"
        if len(part) >= PART:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)


async def each(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same parts, asynchronously."""
    for part in parts:
        yield part


def address(url: str) -> str:
    """Check the URL, so that a mistake does not look like a service that is down."""
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"url must start with http:// or https://, got url={url!r}")
    return url


def down(url: str, attempts: int, reason: object) -> ServiceDown:
    """The error to raise when all attempts have failed."""
    return ServiceDown(f"the service at {url} must answer, got no answer in {attempts} attempts: {reason}")


def choice_call(offer: str, item: str | None) -> Call:
    """Answer an offer. Repeating the same answer is harmless."""
    return Call("POST", f"/v1/offers/{_segment(offer)}/choice", {"item": item})


def offer_of(reply: Any) -> Offer:
    """The offer in a reply."""
    return Offer(reply["offer"], tuple(reply["items"]), reply["release"], reply["expires"])


def read(response: Response) -> Any:
    """The JSON of a reply, or None if it is empty; raises a refusal."""
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    raise Refused(problem if isinstance(problem, dict) else {}, response.status_code)


def _segment(name: str) -> str:
    """Escape a name as one path segment, so that it can never lead to another address."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")
