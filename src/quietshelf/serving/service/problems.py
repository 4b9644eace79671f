"""Refusals as problem details (RFC 9457): a type for programs, a sentence for people."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "60"}, 503: {"Retry-After": "1"}}
"""Headers that HTTP requires with a status."""


class Problem(Exception):  # noqa: N818 - it says what went wrong
    """A refusal. Nothing was changed. ``detail`` goes to the caller, never to a log."""

    status = 400
    title = "Bad request"

    def __init__(self, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.detail, self.more = detail, more

    @property
    def kind(self) -> str:
        """The name of the type, such as ``offer-expired``."""
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in type(self).__name__)[1:]

    def response(self) -> JSONResponse:
        """The problem as a reply."""
        body = {**details(self.kind, self.title, self.status, self.detail), **self.more}
        return JSONResponse(body, self.status, HEADERS.get(self.status), MEDIA_TYPE)


class Invalid(Problem):
    """The request breaks a rule of the shelf, and does not count as a visit."""

    status, title = 422, "The request breaks a rule"


class Unauthorised(Problem):
    """No valid key."""

    status, title = 401, "A valid API key is needed"


class TooManyFailures(Problem):
    """Too many failed attempts from one address."""

    status, title = 429, "Too many failed attempts"


class Forbidden(Problem):
    """The key lacks the scope."""

    status, title = 403, "The API key lacks the scope"


class NotFound(Problem):
    """No such shelf, offer or item for this key."""

    status, title = 404, "Not found"


class OfferExpired(Problem):
    """The offer's feedback window is over. The answer does not count."""

    status, title = 409, "The offer has expired"


class AnswerConflict(Problem):
    """The offer was answered differently before. The first answer stands."""

    status, title = 409, "The offer was answered differently"


class OfferErased(Problem):
    """The person asked for erasure."""

    status, title = 409, "The offer was erased"


class Frozen(Problem):
    """The setting alters the guarantee, and the first offer has fixed it."""

    status, title = 409, "Fixed since the first offer"


class Conflict(Problem):
    """Something that the request needs is gone."""

    status, title = 409, "Conflict"


class NoItems(Problem):
    """A shelf without items has nothing to offer and no geometry to freeze."""

    status, title = 409, "The shelf has no items yet"


class KeyReused(Problem):
    """The Idempotency-Key was used for another request."""

    status, title = 422, "The Idempotency-Key belongs to another request"


class TooLarge(Problem):
    """The body is larger than the limit."""

    status, title = 413, "The request is too large"


class TooSlow(Problem):
    """The request took too long. Try again with the same Idempotency-Key."""

    status, title = 503, "The request took too long"


class Unavailable(Problem):
    """The database cannot be reached or written. Nothing was acknowledged."""

    status, title = 503, "The store is not available"


class Failure(Problem):
    """A bug or a failure on our side. The log says where it happened, without any values."""

    status, title = 500, "Internal error"

    def __init__(self) -> None:
        super().__init__("something went wrong on our side; the log says where, without any data of the request")


def details(kind: str, title: str, status: int, detail: str) -> dict[str, Any]:
    """The fields of every problem."""
    return {"type": f"urn:quietshelf:problem:{kind}", "title": title, "status": status, "detail": detail}
