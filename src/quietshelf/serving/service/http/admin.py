"""Routes for admins: create, list and revoke keys; read the admin log. They need a key that covers all shelves."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field
from sqlalchemy import Connection

from quietshelf.serving.service import models
from quietshelf.serving.service.access import admin_log, keys
from quietshelf.serving.service.database.timestamps import seconds
from quietshelf.serving.service.http.dependencies import Admin, Serving
from quietshelf.serving.service.http.refusals import PROBLEMS
from quietshelf.serving.service.problems import Invalid, NotFound

routes = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["admin"])
Before = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="The `next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=admin_log.LARGEST_PAGE, description="The most entries in the reply.")]


class KeyBody(models.Strict):
    """A key to create."""

    scopes: list[keys.Scope] = Field(min_length=1, max_length=len(keys.SCOPES))
    name: str = Field("", max_length=200, pattern=r"^[^\x00]*$", description="What it is for.")
    shelf: models.Name | None = Field(None, description="The only shelf it may use.")
    expires: str | None = Field(None, max_length=40, description="When it expires, such as 2027-01-31.")


@routes.post("/keys", status_code=201)
async def create_key(body: KeyBody, service: Serving, key: Admin) -> models.Plain:
    """Create a key. Only this reply ever shows it."""

    def step(connection: Connection) -> str:
        about: dict[str, Any] = {**body.model_dump(exclude={"expires"}), "expires": until, "by": key.id}
        try:
            return keys.create(connection, **about, now=service.store.now(connection))
        except ValueError as error:
            raise Invalid(str(error)) from None

    try:
        until = None if body.expires is None else seconds(body.expires)
    except ValueError as error:
        raise Invalid(f"expires: {error}") from None
    made = await service.write(step)
    service.following.keys_changed()
    return {"key": made, "id": made.split("_")[1]}


@routes.get("/keys")
def list_keys(service: Serving, _: Admin) -> models.Plain:
    """All keys, without their secrets: valid, expired or revoked."""
    with service.store.read() as connection:
        return {"keys": keys.listed(connection, service.store.now(connection))}


@routes.delete("/keys/{key_id}", status_code=204)
async def revoke_key(key_id: Annotated[str, Path(max_length=100)], service: Serving, key: Admin) -> None:
    """Revoke a key: at once in this process, within a poll in others. Repeating it is harmless."""

    def step(connection: Connection) -> None:
        try:
            keys.revoke(connection, key_id, service.store.now(connection), key.id)
        except ValueError:
            if not keys.exists(connection, key_id):
                raise NotFound("key must be one that was made here (/v1/keys lists them)") from None
        service.following.keyring.forget(key_id)

    await service.write(step)


@routes.get("/admin-log")
def read_log(service: Serving, _: Admin, before: Before = None, limit: Limit = admin_log.PAGE) -> models.Plain:
    """What admins did, latest first, paged. Erasures appear without a name."""
    with service.store.read() as connection:
        return admin_log.entries(connection, before=before, most=limit)
