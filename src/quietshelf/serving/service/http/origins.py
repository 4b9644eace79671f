"""CORS for visitors' devices: pages of the origins in the setting ``origins`` may read what a ticket allows.

Tickets decide who may do what; these headers only tell browsers which pages may read the reply. Other paths and origins
get no such header, and browsers refuse them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATHS = re.compile(
    r"/v1/(signing-key|shelves/[^/]+/(slots|(models|catalogues|batches)/[0-9]+)|offers/[^/]+/contribution)"
)
"""The paths that devices use."""
ALLOWED = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"3600"),
)
_VARY = (b"vary", b"origin")


class Origins:
    """Middleware in front of everything else: pages must be able to read refusals too."""

    def __init__(self, app: ASGIApp, *, origins: Iterable[str]) -> None:
        self._app, self._origins = app, frozenset(each.encode() for each in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight request, or add the headers to a reply."""
        if not self._origins or scope["type"] != "http" or PATHS.fullmatch(scope["path"]) is None:
            await self._app(scope, receive, send)
            return
        origin = next((value for name, value in scope["headers"] if name == b"origin"), None)
        told = [_VARY, (b"access-control-allow-origin", origin)] if origin in self._origins else [_VARY]
        asks = any(name == b"access-control-request-method" for name, _ in scope["headers"])
        if scope["method"] == "OPTIONS" and asks:
            more = ALLOWED if len(told) > 1 else ()
            await send({"type": "http.response.start", "status": 204, "headers": [*told, *more]})
            await send({"type": "http.response.body", "body": b""})
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *told]
            await send(message)

        await self._app(scope, receive, sent)
