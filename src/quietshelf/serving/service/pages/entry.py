"""Who is looking: a key in the Authorization header, or a session's cookie; and which forms are believed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from quietshelf.serving.service.access.keyring import address
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.pages import sessions
from quietshelf.serving.service.problems import Forbidden, TooLarge, Unauthorised
from quietshelf.serving.service.service import Service

SECURE, SECURE_BELOW, PLAIN = "__Host-quietshelf", "__Secure-quietshelf", "quietshelf"
"""Names of the cookie. A browser refuses the first one unless it is Secure and of this host alone. Under a sub-path,
whose cookie is not sent to the rest of the site, the second one takes its place."""
FORM_LIMIT = 10_000


class FormRefused(Forbidden):
    """The form did not come from a page of ours."""

    title = "The form was not sent from this site"


@dataclass(frozen=True)
class Viewer:
    """Whoever asks for a page.

    Attributes:
        key: What they may do; None before they sign in.
        cookie: The session, if that is where the key came from.
    """

    key: Key | None = None
    cookie: str | None = None

    @property
    def form_token(self) -> str | None:
        """What the forms on their pages carry."""
        return None if self.cookie is None else sessions.form_token(self.cookie)

    def may(self, scope: str, shelf: str | None = None) -> None:
        """Refuse those who may not; those who have not signed in are asked to."""
        if self.key is None:
            raise Unauthorised("sign in with a key, or send `Authorization: Bearer qs_...`")
        self.key.may(scope, shelf)

    def has(self, scope: str) -> bool:
        """Whether the key has that scope."""
        return self.key is not None and self.key.has(scope)

    @property
    def shelf(self) -> str | None:
        """The only shelf they may look at; None for all."""
        return None if self.key is None else self.key.shelf


async def viewer(request: Request) -> Viewer:
    """The one who asks."""
    service, header = request.app.state.service, request.headers.get("authorization")
    if header is not None:
        return Viewer(await service.following.keyring.find(header, address(request.scope)))
    cookie = next((request.cookies[name] for name in _names(request) if name in request.cookies), None)
    if cookie is None:
        return Viewer()
    key = await run_in_threadpool(sessions.key_of, service.store, cookie)
    return Viewer() if key is None else Viewer(key, cookie)


Looking = Annotated[Viewer, Depends(viewer)]


async def form(request: Request, who: Viewer) -> dict[str, str]:
    """The fields of a form, if a page of ours sent it. Another site cannot forge a header; a cookie rides along."""
    if "authorization" not in request.headers and not _same_site(request):
        raise FormRefused("a form must be sent from a page of this service")
    body = await request.body()
    if len(body) > FORM_LIMIT:
        raise TooLarge(f"a form must have at most {FORM_LIMIT} bytes")
    fields = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    expected = who.form_token
    if expected is not None and not secrets.compare_digest(fields.get("form_token", "").encode(), expected.encode()):
        raise FormRefused("a form must carry the token of its session: load the page again")
    return fields


async def sign_in(service: Service, key: Key) -> str:
    """A session for the key; its cookie."""
    return str(await service.write(lambda c: sessions.begin(c, key, service.store.now(c))))


async def sign_out(service: Service, who: Viewer) -> None:
    """End the session."""
    cookie = who.cookie
    if cookie is not None:
        await service.write(lambda c: sessions.end(c, cookie))


def set_cookie(request: Request, response: Response, token: str | None) -> None:
    """Give the browser its cookie, or take it back; Secure wherever the browser says it came by https."""
    secure = urlsplit(request.headers.get("origin", "")).scheme == "https" or request.url.scheme == "https"
    path, names = root_path(request) or "/", _names(request)
    if token is None:
        for name in names:
            response.delete_cookie(name, path=path, httponly=True, samesite="strict", secure=name != PLAIN)
        return
    response.set_cookie(
        names[0] if secure else PLAIN,
        token,
        max_age=sessions.SECONDS,
        path=path,
        httponly=True,
        samesite="strict",
        secure=secure,
    )


def root_path(request: Request) -> str:
    """The sub-path under which the pages are served, empty for the whole site."""
    return str(request.app.state.service.settings.root_path)


def _names(request: Request) -> tuple[str, str]:
    """The cookies that are believed: the one for https, and the one for http."""
    return (SECURE_BELOW if root_path(request) else SECURE), PLAIN


def local(path: str) -> str:
    """A path of ours to go to after signing in; anything else leads to the first page.

    >>> local("/shelves/teas"), local("//elsewhere.example/"), local("https://elsewhere.example/")
    ('/shelves/teas', '/', '/')
    """
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isascii() and path.isprintable()
    return path if plain and "\\" not in path else "/"


def _same_site(request: Request) -> bool:
    """Browsers say where a form came from; on plain http from other machines only by its origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
