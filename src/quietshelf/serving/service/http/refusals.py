"""Turns every error into problem details: the service's own, the framework's, and requests that fail validation."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import InterfaceError, OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from quietshelf.serving.service import logs
from quietshelf.serving.service.models import ProblemReply
from quietshelf.serving.service.pages.replies import refusal, wants_page
from quietshelf.serving.service.problems import MEDIA_TYPE, Invalid, NotFound, Problem, Unavailable, details

WORDS = {
    400: "Malformed",
    401: "No valid key",
    403: "Wrong scope",
    404: "Not found",
    409: "Conflict",
    413: "Too large",
    422: "Breaks a rule",
    429: "Too many failed attempts",
    503: "Try again",
}
MOST = 20
"""Most mistakes listed in one reply."""
SHORT = 60
"""Longest value that a refusal repeats, in characters."""
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": words,
        "content": {MEDIA_TYPE: {"schema": ProblemReply.model_json_schema()}},
    }
    for status, words in WORDS.items()
}
"""For the OpenAPI page: the errors that each route may return."""


def refuse(app: FastAPI) -> None:
    """Install the exception handlers."""
    app.add_exception_handler(Problem, _ours)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _framework)
    for away in (OperationalError, InterfaceError):
        app.add_exception_handler(away, _away)


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)  # noqa: S101 - registered for it
    return error.response()


async def _away(_: Request, error: Exception) -> JSONResponse:
    logs.failed("read", error)
    return Unavailable("the store cannot be read now; try again").response()


async def _unfit(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    kind = request.headers.get("content-type", "none")
    if isinstance(error.body, bytes) and "json" not in kind:
        return Invalid(f"the header must be `Content-Type: application/json`, got {kind}").response()
    found = unfit(error.errors())
    return Invalid(f"{found[0]['where']}: {found[0]['rule']}", errors=found).response()


def unfit(errors: Sequence[Any]) -> list[dict[str, str]]:
    """Where a request does not fit its model and why, for the first few mistakes."""
    found = [{"where": ".".join(map(str, each["loc"])), "rule": _rule(each)} for each in errors[:MOST]]
    return found or [{"where": "request", "rule": "must fit its model"}]


def _rule(each: Any) -> str:
    """The rule that was broken, and the value if it is short. It goes back to the sender and nowhere else."""
    if each["type"] == "extra_forbidden":
        return "there is no such field"
    given = each.get("input")
    plain = isinstance(given, (bool, int, float)) or (isinstance(given, str) and len(given) <= SHORT)
    return f"{each['msg']}, got {given!r}" if plain else str(each["msg"])


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    if isinstance(error.__cause__, Problem):  # raised while the body was read
        return error.__cause__.response()
    if error.status_code == HTTPStatus.NOT_FOUND:
        problem = NotFound("nothing has this address: shelves are at /, the API is at /docs")
        return await refusal(request, problem) if wants_page(request) else problem.response()
    title = HTTPStatus(error.status_code).phrase
    body = details(title.lower().replace(" ", "-"), title, error.status_code, str(error.detail))
    return JSONResponse(body, error.status_code, error.headers, MEDIA_TYPE)
