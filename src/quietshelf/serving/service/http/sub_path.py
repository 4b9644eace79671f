"""Serves under a sub-path of another site: addresses come in with or without that path, and go out with it."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from quietshelf.model.types import require


class SubPath:
    """Outermost middleware: everything behind it, keys and limits included, sees addresses without the path.

    A proxy may strip the path or pass it on. The path is a setting, never a request header: a client who could set it
    would decide where redirects lead.
    """

    def __init__(self, app: ASGIApp, *, root: str, routers: Iterable[APIRouter]) -> None:
        paths = [route.path for router in routers for route in router.routes if isinstance(route, Route)]
        taken = {path.split("/")[1] for path in paths} - {""}
        rule = f"root_path must not begin with a part of the service's own addresses: {', '.join(sorted(taken))}"
        require(root.split("/")[1] not in taken, rule, root_path=root)
        self._app, self._root = app, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Strip the path from a request, and prepend it to redirects."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [self._outward(*pair) for pair in message["headers"]]
            await send(message)

        await self._app({**scope, "path": self._inward(scope["path"])}, receive, sent)

    def _inward(self, path: str) -> str:
        inside = path == self._root or path.startswith(self._root + "/")
        return path[len(self._root) :] or "/" if inside else path

    def _outward(self, name: bytes, value: bytes) -> tuple[bytes, bytes]:
        return name, self._root.encode() + value if name == b"location" and value.startswith(b"/") else value
