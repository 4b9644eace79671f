"""Every refusal as problem details: the service's own, the framework's, and requests that do not fit their model."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from quietshelf.service.models import ProblemReply
from quietshelf.service.pages.replies import refusal, wants_page
from quietshelf.service.problems import Invalid, NotFound, Problem

WORDS = {
    400: "Malformed",
    401: "No valid key",
    403: "Wrong scope",
    404: "Not found",
    409: "Refused as things stand",
    413: "Too large",
    422: "Breaks a rule",
    503: "Try again",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": words,
        "content": {"application/problem+json": {"schema": ProblemReply.model_json_schema()}},
    }
    for status, words in WORDS.items()
}
"""For the OpenAPI page: what each route may refuse."""


def refuse(app: FastAPI) -> None:
    """Teach an app to refuse."""
    app.add_exception_handler(Problem, _ours)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(HTTPException, _framework)


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)  # noqa: S101 - registered for it
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(error.status)
    return _reply(error.body(), error.status, headers)


async def _unfit(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    kind = request.headers.get("content-type", "none")
    if isinstance(error.body, bytes) and "json" not in kind:
        problem = Invalid(f"the header must be `Content-Type: application/json`, got {kind}")
        return _reply(problem.body(), problem.status)
    found = [{"where": ".".join(map(str, each["loc"])), "rule": each["msg"]} for each in error.errors()]
    first = found[0] if found else {"where": "request", "rule": "must fit its model"}
    problem = Invalid(f"{first['where']}: {first['rule']}", errors=found[:20])
    return _reply(problem.body(), problem.status)


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    if isinstance(error.__cause__, Problem):  # met while the body was read
        return _reply(error.__cause__.body(), error.__cause__.status)
    if error.status_code == HTTPStatus.NOT_FOUND:
        problem = NotFound("no page and no part of the API has this address: shelves are at /, the API is at /docs")
        return await refusal(request, problem) if wants_page(request) else _reply(problem.body(), problem.status)
    title = HTTPStatus(error.status_code).phrase
    kind = title.lower().replace(" ", "-")
    body = {"type": f"urn:quietshelf:problem:{kind}", "title": title, "status": error.status_code}
    headers = dict(error.headers) if error.headers else None
    return _reply({**body, "detail": str(error.detail)}, error.status_code, headers)


def _reply(body: dict[str, Any], status: int, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(body, status, headers, media_type="application/problem+json")
