"""Routes for visitors' own devices, which present a ticket signed by the shop's back end."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import JSONResponse, Response

from quietshelf.serving.service import models
from quietshelf.serving.service.access import signing, tickets
from quietshelf.serving.service.catalogue.documents import Document
from quietshelf.serving.service.http.dependencies import OfferId, Serving, Shelf, service_of
from quietshelf.serving.service.http.refusals import PROBLEMS
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors.contributed import ContributionBody, SlotBody

FOREVER, NEVER = "public, max-age=31536000, immutable", "no-store"
routes = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["devices"])
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]
Version = Annotated[int, Path(ge=0, le=2**63 - 1)]
Edition = Annotated[str, Query(max_length=100, description="The slot's `edition`; without it, do not cache the reply.")]


async def visiting(request: Request, service: Annotated[Service, Depends(service_of)]) -> Service:
    """The service, if the caller may now read this shelf's documents; no other request can change that."""
    tickets.may_visit(request.scope["key"], request.path_params["shelf"], service.time.stamp())
    return service


Visiting = Annotated[Service, Depends(visiting)]


@routes.get("/signing-key")
async def signing_key(service: Serving) -> models.Plain:
    """The public key that verifies documents for devices."""
    return {"algorithm": "Ed25519", "key": signing.public_key(service.vault)}


@routes.get("/shelves/{shelf}/models/{release}")
def get_model(shelf: Shelf, release: Number, service: Visiting, request: Request, edition: Edition = "") -> Response:
    """A release, and everything needed to choose items from it."""
    return _signed(request, service.documents.model(shelf, release), edition)


@routes.get("/shelves/{shelf}/catalogues/{version}")
def get_catalogue(
    shelf: Shelf, version: Version, service: Visiting, request: Request, edition: Edition = ""
) -> Response:
    """The items at this version. If it is gone, the current items, which must not be cached."""
    return _signed(request, service.documents.catalogue(shelf, version), edition)


@routes.get("/shelves/{shelf}/batches/{batch}")
def get_batch(shelf: Shelf, batch: Number, service: Visiting, request: Request, edition: Edition = "") -> Response:
    """Everything a device needs to compute a contribution to this batch."""
    return _signed(request, service.documents.batch(shelf, batch), edition)


@routes.post("/shelves/{shelf}/slots")
async def take_slot(shelf: Shelf, body: SlotBody, service: Serving, request: Request) -> Response:  # noqa: ARG001
    """Take a slot for one visitor. The same ticket gets the same slot again."""
    visitor, receipt = tickets.visitor(request.scope["key"]), request.scope["receipt"]
    tickets.may_visit(visitor, shelf, receipt.time)  # R1: by its own stamp, not by how long other requests wait
    return JSONResponse(await service.slot(visitor, receipt))


@routes.post("/offers/{offer}/contribution", status_code=204)
async def contribute(offer: OfferId, body: ContributionBody, service: Serving, request: Request) -> Response:
    """Send the contribution computed on the device. It counts until the offer expires, even if the ticket has."""
    visitor = tickets.visitor(request.scope["key"])
    await service.contribute(offer, body, visitor, request.scope["receipt"])
    return Response(status_code=204)


def _signed(request: Request, found: Document, edition: str) -> Response:
    """Allow caching only at an address that names this edition, where the reply stays right for ever."""
    content, kept = found.content, FOREVER if found.same and found.edition == edition else NEVER
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers: dict[str, Any] = {"ETag": tag, "Cache-Control": kept}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)
