"""FastAPI dependencies: the service, and the caller's key if it has the scope that the route needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, Path, Request
from fastapi.security import HTTPBearer

from quietshelf.serving.service.access.keys import Key, Scope
from quietshelf.serving.service.models import LONGEST_OFFER_ID, Name
from quietshelf.serving.service.service import Service

Shelf = Annotated[Name, Path(description="Name of the shelf.")]
OfferId = Annotated[str, Path(max_length=LONGEST_OFFER_ID)]
bearer = HTTPBearer(auto_error=False, description="An API key, made by `quietshelf keys create`.")


async def service_of(request: Request) -> Service:
    """The service behind the app. Async, because FastAPI would run a plain function in another thread every time."""
    found: Service = request.app.state.service
    return found


Serving = Annotated[Service, Depends(service_of)]


def may(scope: Scope) -> Callable[..., Awaitable[Key]]:
    """Make a dependency: the caller's key, if it has that scope and covers the shelf in the path."""

    async def check(request: Request, _: Annotated[Any, Depends(bearer)]) -> Key:
        key: Key = request.scope["key"]  # the gate has checked it
        shelf = key.shelf if "offer" in request.path_params else request.path_params.get("shelf")
        key.may(scope, shelf)
        return key

    return check


Admin = Annotated[Key, Depends(may("admin"))]
"""The key of an admin."""
