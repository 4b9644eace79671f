"""Replies as pages or as their JSON twins, with security headers; refusals as pages if a browser asked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response

from quietshelf.report.document import look
from quietshelf.serving.service.pages import charts, rows
from quietshelf.serving.service.pages.entry import Viewer, root_path, viewer
from quietshelf.serving.service.pages.wording import FILTERS
from quietshelf.serving.service.problems import Forbidden, NotFound, Problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of a page, beside those of every reply (`middleware.GUARDS`)."""
LOOK = frozenset({"sheet.css", "icon.svg"})
"""Files that the dashboard shares with reports."""
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Page(APIRoute):
    """A route that shows refusals as pages and adds the page headers to every reply."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handle = super().get_route_handler()

        async def wrapped(request: Request) -> Response:
            try:
                return ours(await handle(request))
            except Problem as problem:
                return await refusal(request, problem)

        return wrapped


def ours(response: Response) -> Response:
    """Add the page headers."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def reply(request: Request, who: Viewer, view: dict[str, Any]) -> Response:
    """The view as a page, or as JSON if that was asked for."""
    if wants_json(request):
        return JSONResponse(view, headers={"Vary": "Accept"})
    return html(request, who, view)


def html(request: Request, who: Viewer, view: dict[str, Any], *, status: int = 200) -> HTMLResponse:
    """Render the page's template."""
    demo = getattr(request.app.state, "demo", None)
    run_by = request.app.state.room.service.settings
    given = {"view": view, "who": who, "base": root_path(request), "path": request.url.path, "demo": demo}
    given["run_by"] = {"operator": run_by.operator, "contact": run_by.contact}
    page = templates().get_template(f"{view['page']}.html")
    return HTMLResponse(page.render(given), status, {"Vary": "Accept"})


async def refusal(request: Request, problem: Problem) -> Response:
    """Show a refusal as a page, or lead to the sign-in page if no key was given."""
    if wants_json(request):
        return ours(problem.response())
    if problem.status == 401 and request.method == "GET":
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return ours(RedirectResponse(f"/sign-in?next={quote(wanted)}", HTTPStatus.SEE_OTHER))
    by_cookie = isinstance(problem, Forbidden | NotFound) and "authorization" not in request.headers
    who = await viewer(request) if by_cookie else Viewer()
    view = {"page": "refusal", "status": problem.status, "title": problem.title, "detail": problem.detail}
    return ours(html(request, who, view, status=problem.status))


def wants_page(request: Request) -> bool:
    """Whether a browser is asking. Programs that accept anything get JSON."""
    return "text/html" in request.headers.get("accept", "") and not wants_json(request)


def wants_json(request: Request) -> bool:
    """Whether JSON was asked for, by ``?format=json`` or by accepting JSON and not HTML."""
    accepted = request.headers.get("accept", "")
    return request.query_params.get("format") == "json" or ("json" in accepted and "text/html" not in accepted)


@cache
def templates() -> Environment:
    """The templates. A name that is missing in a view raises an error."""
    found = Environment(
        loader=PackageLoader("quietshelf.serving.service.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(FILTERS)
    found.globals.update(charts=charts, rows=rows, asset=lambda name: f"/static/{name}?v={asset(name)[1]}")
    return found


@cache
def asset(name: str) -> tuple[bytes, str]:
    """A static file, and a hash of its content."""
    content = look(name) if name in LOOK else _folder().joinpath(name).read_bytes()
    return content, hashlib.sha256(content).hexdigest()[:12]


@cache
def assets() -> frozenset[str]:
    """The names of the static files."""
    return frozenset(each.name for each in _folder().iterdir()) | LOOK


def _folder() -> Traversable:
    return files("quietshelf.serving.service.pages").joinpath("static")


def static(name: str) -> Response:
    """Serve a static file. Caches may keep it for ever, since its address changes with its content."""
    content, _ = asset(name)
    kind = KINDS[name[name.rindex(".") :]]
    return Response(content, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})
