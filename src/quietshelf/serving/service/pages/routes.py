"""The page routes. Each handler checks the key, reads one view, and replies with a page or JSON."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from quietshelf.serving.service import queries
from quietshelf.serving.service.access.admin_log import Act
from quietshelf.serving.service.access.keyring import address
from quietshelf.serving.service.pages import entry, views
from quietshelf.serving.service.pages.counts import counts
from quietshelf.serving.service.pages.entry import Looking, form, local, set_cookie
from quietshelf.serving.service.pages.operations import admins, operations
from quietshelf.serving.service.pages.replies import Page, assets, html, reply, static
from quietshelf.serving.service.pages.views import Room
from quietshelf.serving.service.problems import Forbidden, NotFound, Unauthorised
from quietshelf.serving.service.service import Service

pages = APIRouter(route_class=Page, include_in_schema=False)


async def room_of(request: Request) -> Room:
    """The state that the pages share."""
    found: Room = request.app.state.room
    return found


Shared = Annotated[Room, Depends(room_of)]


@pages.get("/")
def overview(request: Request, who: Looking, room: Shared) -> Response:
    """All shelves."""
    who.may("read", who.shelf)
    with room.service.store.read() as connection:
        return reply(request, who, views.overview(room, connection, who.shelf))


@pages.get("/shelves/{shelf}")
def shelf_page(request: Request, shelf: str, who: Looking, room: Shared) -> Response:
    """One shelf."""
    who.may("read", shelf)
    with room.service.store.read() as connection:
        view = views.shelf(room, connection, queries.latest_row(connection, shelf))
    return reply(request, who, view)


@pages.get("/shelves/{shelf}/privacy")
def statement(request: Request, shelf: str, who: Looking, room: Shared) -> Response:
    """The privacy statement, without a key if it was made public."""
    with room.service.store.read() as connection:
        try:
            view = views.statement(room, connection, queries.latest_row(connection, shelf))
        except NotFound:
            who.may("read", shelf)  # do not reveal which shelves exist
            raise
    if view["public_since"] is None or who.key is not None:
        who.may("read", shelf)
    return reply(request, who, view)


@pages.post("/shelves/{shelf}/privacy")
async def publish(request: Request, shelf: str, who: Looking, room: Shared) -> Response:
    """Make the statement public, or withdraw it."""
    who.may("admin", shelf)
    wanted = (await form(request, who)).get("public") == "yes"
    key = who.key.id if who.key else ""
    act = Act(key, "statement published" if wanted else "statement withdrawn", shelf)
    await room.service.write(lambda c: views.publish(room, c, shelf, wanted), act=act)
    return RedirectResponse(f"/shelves/{shelf}/privacy", HTTPStatus.SEE_OTHER)


@pages.get("/shelves/{shelf}/counts")
def counts_page(request: Request, shelf: str, who: Looking, room: Shared) -> Response:
    """Exact counts, outside the promise: for admins only."""
    who.may("admin", shelf)
    with room.service.store.read() as connection:
        return reply(request, who, counts(room, connection, queries.latest_row(connection, shelf)))


@pages.get("/operations")
def operations_page(request: Request, who: Looking, room: Shared) -> Response:
    """How the service runs; keys for a single shelf may not see it."""
    who.may("read")
    with room.service.store.read() as connection:
        administered = admins(room, connection) if who.key is not None and who.key.has("admin") else None
        return reply(request, who, {**operations(room, connection), "admins": administered})


@pages.get("/demo")
def demo_page(request: Request, who: Looking) -> Response:
    """The demo's contest. Its visitors are simulated, so it needs no key."""
    demo: Any = getattr(request.app.state, "demo", None)
    if demo is None:
        raise NotFound("this page exists only in `quietshelf serve --demo`")
    return reply(request, who, demo.view())


@pages.get("/docs")
async def api_page(request: Request, who: Looking) -> Response:
    """The API page, with examples to try; it needs no key."""
    return html(request, who, {"page": "api"})


@pages.get("/sign-in")
async def sign_in_page(request: Request, who: Looking) -> Response:
    """The sign-in form."""
    return html(request, who, _sign_in(request.query_params.get("next", "/"), None))


@pages.post("/sign-in")
async def sign_in(request: Request, room: Shared) -> Response:
    """Exchange a key for a session cookie."""
    nobody = entry.Viewer()
    fields = await form(request, nobody)
    wanted = local(fields.get("next", "/"))
    try:
        words = f"Bearer {fields.get('key', '').strip()}"
        key = await room.service.following.keyring.find(words, address(request.scope))
        key.may("read", key.shelf)
    except (Unauthorised, Forbidden) as problem:
        words = (
            "This key is not valid."
            if problem.status == 401
            else "This key cannot open pages: it needs the scope read."
        )
        return html(request, nobody, _sign_in(wanted, words), status=problem.status)
    response = RedirectResponse(wanted, HTTPStatus.SEE_OTHER)
    set_cookie(request, response, await entry.sign_in(room.service, key))
    return response


@pages.post("/sign-out")
async def sign_out(request: Request, who: Looking, room: Shared) -> Response:
    """End the session."""
    await form(request, who)
    await entry.sign_out(room.service, who)
    response = RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)
    set_cookie(request, response, None)
    return response


@pages.get("/static/{name}")
async def static_file(name: str) -> Response:
    """Style sheets, scripts and icons."""
    if name not in assets():
        raise NotFound("no such file")
    return static(name)


def add_pages(app: FastAPI, service: Service) -> Room:
    """Add the pages to an app."""
    room = Room.of(service)
    app.state.room = room
    app.include_router(pages)
    return room


def _sign_in(wanted: str, mistake: str | None) -> dict[str, Any]:
    return {"page": "sign_in", "next": local(wanted), "mistake": mistake}
