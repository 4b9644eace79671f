"""Who is asking for a page, by Authorization header or session cookie, and which forms to accept."""

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
"""Names of the cookie. Browsers accept the first one only if it is Secure and limited to this host. Under a sub-path
the second one takes its place, and is not sent to the rest of the site."""
FORM_LIMIT = 10_000


class FormRefused(Forbidden):
    """The form did not come from one of our pages."""

    title = "The form was not sent from this site"


@dataclass(frozen=True)
class Viewer:
    """The person or program asking for a page.

    Attributes:
        key: Their key; None before they sign in.
        cookie: The session, if that is where the key came from.
    """

    key: Key | None = None
    cookie: str | None = None

    @property
    def form_token(self) -> str | None:
        """The token in the forms on their pages."""
        return None if self.cookie is None else sessions.form_token(self.cookie)

    def may(self, scope: str, shelf: str | None = None) -> None:
        """Refuse if the key lacks the scope; ask for a key if there is none."""
        if self.key is None:
            raise Unauthorised("sign in with a key, or send `Authorization: Bearer qs_...`")
        self.key.may(scope, shelf)

    def has(self, scope: str) -> bool:
        """Whether the key has that scope."""
        return self.key is not None and self.key.has(scope)

    @property
    def shelf(self) -> str | None:
        """The only shelf they may see; None for all."""
        return None if self.key is None else self.key.shelf


async def viewer(request: Request) -> Viewer:
    """Identify who is asking."""
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
    """Read a form that one of our pages sent. Other sites cannot forge a header, but browsers attach cookies."""
    if "authorization" not in request.headers and not _same_site(request):
        raise FormRefused("a form must be sent from a page of this service")
    body = await request.body()
    if len(body) > FORM_LIMIT:
        raise TooLarge(f"a form must have at most {FORM_LIMIT} bytes")
    fields = {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
    expected = who.form_token
    if expected is not None and not secrets.compare_digest(fields.get("form_token", "").encode(), expected.encode()):
        raise FormRefused("a form must carry the token of its session (reload the page)")
    return fields


async def sign_in(service: Service, key: Key) -> str:
    """Start a session for the key; returns its cookie."""
    return str(await service.write(lambda c: sessions.begin(c, key, service.store.now(c))))


async def sign_out(service: Service, who: Viewer) -> None:
    """End the session."""
    cookie = who.cookie
    if cookie is not None:
        await service.write(lambda c: sessions.end(c, cookie))


def set_cookie(request: Request, response: Response, token: str | None) -> None:
    """Set the cookie, or delete it. It is Secure if the browser came by https."""
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
    """The sub-path of the pages; empty at the root of the site."""
    return str(request.app.state.service.settings.root_path)


def _names(request: Request) -> tuple[str, str]:
    """The accepted cookies: one for https, one for http."""
    return (SECURE_BELOW if root_path(request) else SECURE), PLAIN


def local(path: str) -> str:
    """A path on this service to go to after signing in; anything else becomes the first page.

    >>> local("/shelves/teas"), local("//elsewhere.example/"), local("https://elsewhere.example/")
    ('/shelves/teas', '/', '/')
    """
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isascii() and path.isprintable()
    return path if plain and "\\" not in path else "/"


def _same_site(request: Request) -> bool:
    """Whether a form came from this site, by what browsers say; over plain http some send only the origin."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")
