"""What a visitor's own device asks for, with a ticket that the shop's back end signed."""

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
    """The service, for whoever may read what devices are told of this shelf now, whoever else waits for what."""
    tickets.may_visit(request.scope["key"], request.path_params["shelf"], service.time.stamp())
    return service


Visiting = Annotated[Service, Depends(visiting)]


@routes.get("/signing-key")
async def signing_key(service: Serving) -> models.Plain:
    """The public key that verifies documents for devices."""
    return {"algorithm": "Ed25519", "key": signing.public_key(service.vault)}


@routes.get("/shelves/{shelf}/models/{release}")
def get_model(shelf: Shelf, release: Number, service: Visiting, request: Request, edition: Edition = "") -> Response:
    """A release, and how to choose by it."""
    return _signed(request, service.documents.model(shelf, release), edition)


@routes.get("/shelves/{shelf}/catalogues/{version}")
def get_catalogue(
    shelf: Shelf, version: Version, service: Visiting, request: Request, edition: Edition = ""
) -> Response:
    """The items of a version; if it is gone, the present ones, which must not be cached."""
    return _signed(request, service.documents.catalogue(shelf, version), edition)


@routes.get("/shelves/{shelf}/batches/{batch}")
def get_batch(shelf: Shelf, batch: Number, service: Visiting, request: Request, edition: Edition = "") -> Response:
    """What a device needs to compute a contribution to a batch."""
    return _signed(request, service.documents.batch(shelf, batch), edition)


@routes.post("/shelves/{shelf}/slots")
async def take_slot(shelf: Shelf, body: SlotBody, service: Serving, request: Request) -> Response:  # noqa: ARG001
    """Take a slot for one visitor; the same ticket gets the same slot again."""
    visitor, receipt = tickets.visitor(request.scope["key"]), request.scope["receipt"]
    tickets.may_visit(visitor, shelf, receipt.time)  # R1: of its own stamp, not of what others' requests wait for
    return JSONResponse(await service.slot(visitor, receipt))


@routes.post("/offers/{offer}/contribution", status_code=204)
async def contribute(offer: OfferId, body: ContributionBody, service: Serving, request: Request) -> Response:
    """Send the contribution computed on the device; it counts until the offer expires, even after the ticket has."""
    visitor = tickets.visitor(request.scope["key"])
    await service.contribute(offer, body, visitor, request.scope["receipt"])
    return Response(status_code=204)


def _signed(request: Request, found: Document, edition: str) -> Response:
    """Kept under an address that it is right for, whatever becomes of the shelf."""
    content, kept = found.content, FOREVER if found.same and found.edition == edition else NEVER
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers: dict[str, Any] = {"ETag": tag, "Cache-Control": kept}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)
