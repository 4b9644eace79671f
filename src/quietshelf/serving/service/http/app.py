"""The routes and the lifespan of the app. Handlers parse, call and reply; the rules live elsewhere."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from quietshelf.__about__ import __version__
from quietshelf.privacy.accounting import DELTA
from quietshelf.privacy.release.noise import DiscreteGaussian
from quietshelf.serving.service import logs, models, old_rows, queries, settings
from quietshelf.serving.service.access.keys import Key
from quietshelf.serving.service.catalogue import uploads
from quietshelf.serving.service.database.store import SteadyClock
from quietshelf.serving.service.health import Probe
from quietshelf.serving.service.http import admin, device_routes, listing, uploading
from quietshelf.serving.service.http.dependencies import Admin, OfferId, Serving, Shelf, may
from quietshelf.serving.service.http.fast_path import FastPath
from quietshelf.serving.service.http.middleware import Gate
from quietshelf.serving.service.http.origins import Origins
from quietshelf.serving.service.http.refusals import PROBLEMS, refuse
from quietshelf.serving.service.http.sub_path import SubPath
from quietshelf.serving.service.http.uploading import NDJSON
from quietshelf.serving.service.http.visits import CHOICE, OFFER, VISITS, Visits
from quietshelf.serving.service.pages.routes import add_pages, pages
from quietshelf.serving.service.problems import Unavailable
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.tracing import tracer

CLOCK = "QUIETSHELF_CLOCK_OFFSET"
"""Passes the clock of `quietshelf serve` to its workers; not a setting."""
SWITCH_SECONDS = 1e-3
"""The writer gives up the interpreter lock at every statement; by default it could wait 5 ms to get it back."""
READERS = 4
"""Requests that may read the database at once, visitors' aside. More would only compete for the interpreter lock."""
TEND_SECONDS = 2.0
"""Pause between two checks for abandoned uploads."""
TAGS = [
    {"name": "shop", "description": "Shelves and their items. Needs a key with the scope `admin`."},
    {
        "name": "visitors",
        "description": "What each visitor is shown and chooses. Scopes `offer` and `choose`; erasures `admin`.",
    },
    {
        "name": "devices",
        "description": "Offers made on visitors' own devices. Needs a visitor ticket, or a key with the scope `offer`.",
    },
    {"name": "read", "description": "Settings, releases and privacy promises. Needs a key with the scope `read`."},
    {"name": "admin", "description": "Keys, and what admins did. Needs a key with the scope `admin`."},
    {"name": "about", "description": "Whether the service is alive and ready, and its metrics."},
]
"""The groups on the API page, in order."""
public = APIRouter(tags=["about"])
routes = APIRouter(prefix="/v1", responses=PROBLEMS)
Delta = Annotated[float, Query(ge=1e-300, lt=1, description="The delta that epsilon is stated for.")]
After = Annotated[int, Query(ge=-1, le=2**31 - 1, description="The `next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=queries.LARGEST_PAGE, description="The most items in the reply.")]
Retry = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=models.LONGEST_RETRY,
                                     description="The same key and request again get the same offer.")]  # fmt: skip


@routes.put("/shelves/{shelf}", responses={201: {"description": "Created"}}, tags=["shop"])
async def put_shelf(
    shelf: Shelf, body: models.ShelfBody, service: Serving, response: Response, key: Admin
) -> models.Plain:
    """Create or change a shelf. The first offer fixes every setting that alters the guarantee."""
    new = await service.put_shelf(shelf, body, key.id)
    response.status_code = 201 if new else 200
    return {"shelf": shelf, "created": new}


@routes.get("/shelves/{shelf}", dependencies=[Depends(may("read"))], tags=["read"])
def get_shelf(shelf: Shelf, service: Serving) -> models.Plain:
    """A shelf's settings and figures, and the names of its coordinates."""
    with service.store.read() as connection:
        return queries.shelf(connection, queries.latest_row(connection, shelf))


@routes.delete("/shelves/{shelf}", status_code=204, tags=["shop"])
async def delete_shelf(shelf: Shelf, service: Serving, key: Admin) -> None:
    """Delete a shelf, and the data of visitors who are in no release yet. Its ledger remains."""
    await service.delete_shelf(shelf, key.id)


@routes.get("/shelves", dependencies=[Depends(may("read"))], tags=["read"])
def list_shelves(service: Serving) -> models.Plain:
    """All shelves, deleted ones included."""
    with service.store.read() as connection:
        return {"shelves": [queries.summary(row) for row in queries.shelf_rows(connection)]}


@routes.put("/shelves/{shelf}/items", tags=["shop"])
async def put_items(shelf: Shelf, body: models.ItemsBody, service: Serving, key: Admin) -> models.Plain:
    """Add items, and change known ones: all or none. Stream large catalogues as application/x-ndjson or Parquet."""
    if len(body.items) <= uploads.CHUNK:
        return await service.put_items(shelf, body.items, key.id)
    return await uploading.put(service, shelf, uploading.numbered(body.items), key.id)


@routes.get("/shelves/{shelf}/items", dependencies=[Depends(may("read"))], tags=["read"])
async def get_items(
    shelf: Shelf, service: Serving, request: Request, after: After = -1, limit: Limit = queries.PAGE
) -> Response:
    """Items by number, paged, retired ones included; with application/x-ndjson all of them, one per line."""
    if request.headers.get("accept", "").partition(";")[0] == NDJSON:
        return StreamingResponse(await listing.lines(service, shelf, after), media_type=NDJSON)
    return Response(await listing.page(service, shelf, after, limit), media_type="application/json")


@routes.post("/shelves/{shelf}/items/retire", tags=["shop"])
async def retire_items(shelf: Shelf, body: models.RetireBody, service: Serving, key: Admin) -> models.Plain:
    """Never show these items again."""
    return await service.retire(shelf, body.items, key.id)


@routes.post(
    "/shelves/{shelf}/offers",
    dependencies=[Depends(may(OFFER.scope))],
    responses={200: {"model": models.OfferReply}},
    tags=["visitors"],
)
async def make_offer(
    shelf: Shelf, body: models.OfferBody, service: Serving, request: Request, retry: Retry = None
) -> Response:
    """Request what to show one visitor. An invalid request does not count as a visit."""
    return JSONResponse(await service.offer(shelf, body, retry, request.scope["receipt"]))


@routes.post("/offers/{offer}/choice", status_code=204, tags=["visitors"])
async def choose(
    offer: OfferId,
    body: models.ChoiceBody,
    service: Serving,
    request: Request,
    key: Annotated[Key, Depends(may(CHOICE.scope))],
) -> Response:
    """Send what the visitor chose. Repeating the same answer is harmless."""
    await service.choose(offer, body.item, key, request.scope["receipt"])
    return Response(status_code=204)


@routes.post("/shelves/{shelf}/erasures", tags=["visitors"])
async def erase_person(
    shelf: Shelf, body: models.ErasureBody, service: Serving, request: Request, key: Admin
) -> models.Plain:
    """Erase a person: visits that are in no release yet contribute nothing."""
    return {"erased": await service.erase(shelf, body.person, request.scope["receipt"], key.id)}


@routes.get("/shelves/{shelf}/privacy", dependencies=[Depends(may("read"))], tags=["read"])
def get_privacy(shelf: Shelf, service: Serving, delta: Delta = DELTA) -> models.Plain:
    """The promise in words and numbers, and the ledger. Deleted shelves keep theirs."""
    with service.store.read() as connection:
        return queries.promise(connection, queries.latest_row(connection, shelf), delta)


@routes.get("/shelves/{shelf}/releases", dependencies=[Depends(may("read"))], tags=["read"])
async def get_releases(shelf: Shelf, service: Serving) -> Response:
    """Every release and the estimate it led to."""
    return StreamingResponse(await listing.releases(service, shelf), media_type="application/json")


@routes.get("/shelves/{shelf}/comparison", dependencies=[Depends(may("read"))], tags=["read"])
def get_comparison(shelf: Shelf, service: Serving) -> models.Plain:
    """The learned policy against what you show today: estimates, a verdict, and intervals that hold for all looks."""
    with service.store.read() as connection:
        return queries.comparison(connection, queries.latest_row(connection, shelf))


@routes.get("/privacy", dependencies=[Depends(may("read"))], tags=["read"])
def get_everything(service: Serving, delta: Delta = DELTA) -> models.Plain:
    """Every promise, including those of deleted shelves, and their sum."""
    with service.store.read() as connection:
        return queries.everything(connection, delta)


@public.get("/healthz", responses={503: PROBLEMS[503]})
async def health(request: Request, service: Serving) -> models.Plain:
    """Whether this process and its threads are alive."""
    threads = (service.writer, service.beside, service.releasing.work, request.app.state.room.activity)
    if not all(each.alive for each in threads):
        raise Unavailable("a thread of this process has ended; restart the process")
    return {"status": "alive", "version": __version__}


@public.get("/readyz", responses={503: PROBLEMS[503]})
async def ready(request: Request) -> models.Plain:
    """Whether the service can write to its database, checked at most once per second."""
    return {"status": "ready", **await request.app.state.readiness.answer()}


@public.get("/metrics", response_class=Response, dependencies=[Depends(may("read"))], responses=PROBLEMS)
def metrics(service: Serving) -> Response:
    """Figures for Prometheus: requests, latencies, arrivals, releases."""
    with service.store.read() as connection:
        late = queries.late(connection, service.time.now(connection))
        text = service.metrics.text(queries.shelf_rows(connection), late)
    return Response(text, media_type="text/plain; version=0.0.4")


def make_app(service: Service) -> FastAPI:
    """Build the app around a service, which the app starts and stops."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        logs.level(service.settings.log_level)
        current_default_thread_limiter().total_tokens = READERS
        service.start()
        room.activity.start()
        tending = asyncio.create_task(_tend(service))
        logs.say("info", "started", version=__version__)
        yield {VISITS: Visits(service)}
        tending.cancel()
        room.activity.stop()
        service.stop()
        logs.say("info", "stopped")

    app = FastAPI(
        title="Quietshelf", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
        summary="Choose what to show each visitor, learn from what they choose, and prove a limit to what it reveals.",
        openapi_tags=TAGS, servers=[{"url": service.settings.root_path or "/"}],
        redirect_slashes=False,  # it would lead from https to http behind a proxy, with the key
    )  # fmt: skip
    app.state.service, app.state.readiness = service, Probe(service.ready)
    if service.settings.traces:
        service.metrics.trace = tracer()
    app.include_router(public)
    app.include_router(routes)
    app.include_router(device_routes.routes)
    app.include_router(admin.routes)
    room = add_pages(app, service)
    refuse(app)
    _wrap(app, service)
    return app


def _wrap(app: FastAPI, service: Service) -> None:
    """Add the middleware. The last one added sees a request first."""
    app.add_middleware(FastPath, service=service)
    app.add_middleware(
        Gate,
        authenticate=service.following.keyring.find,
        stamp=service.inbox.stamp,
        let_go=service.let_go,
        metrics=service.metrics,
        settings=service.settings,
    )
    app.add_middleware(Origins, origins=service.settings.allowed_origins)
    if root := service.settings.root_path:
        routers = (public, routes, pages, device_routes.routes, admin.routes)
        app.add_middleware(SubPath, root=root, routers=routers)


async def _tend(service: Service) -> None:
    """Clean up after abandoned uploads and delete old rows, again and again."""
    while True:
        try:
            await uploading.tend(service)
            await old_rows.tend(service)
        except Exception as error:  # the next round tries again
            logs.failed("tidying", error)
        await asyncio.sleep(max(service.settings.poll_seconds, TEND_SECONDS))


def warm() -> None:
    """Load the noise generator before the first release, and exempt imported modules from garbage collection.

    Otherwise a full collection scans every imported object, and every visitor waits a tenth of a second for it.
    """
    DiscreteGaussian().draw(1.0, (1,))  # thrown away
    gc.collect()
    gc.freeze()


def from_environment() -> FastAPI:
    """Build the app that `quietshelf serve` runs: settings from the environment, noise from the operating system."""
    logs.take_over()
    sys.setswitchinterval(SWITCH_SECONDS)
    table, offset = settings.read(), os.environ.get(CLOCK)
    clock = SteadyClock(float(offset)) if offset is not None and table.url.startswith("sqlite") else None
    threading.Thread(target=warm, name="quietshelf-warm", daemon=True).start()
    return make_app(Service(table, clock=clock))
