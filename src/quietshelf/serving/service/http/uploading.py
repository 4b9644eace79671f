"""Reads uploads of items: checks lines in small groups, off the writer's thread, and stages them in bounded memory."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from pydantic import ValidationError
from sqlalchemy import Connection

from quietshelf.data.tables import Schema, service_items
from quietshelf.serving.service.access import admin_log
from quietshelf.serving.service.access.admin_log import Act
from quietshelf.serving.service.catalogue import uploads
from quietshelf.serving.service.catalogue.items import Prepared, named
from quietshelf.serving.service.catalogue.uploads import CHUNK, Line
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.http.middleware import STREAMED
from quietshelf.serving.service.http.refusals import unfit
from quietshelf.serving.service.models import ItemBody
from quietshelf.serving.service.problems import Invalid, TooLarge
from quietshelf.serving.service.service import Service

NDJSON, PARQUET = STREAMED
LONGEST_LINE = 1_000_000
ENOUGH = 1_000_000
"""Most bytes of lines checked together."""
ERRORS = 10
"""Most wrong lines listed in a refusal."""
PAUSE = 0.2
Numbered = list[tuple[int, bytes]]
"""Lines with their numbers, from 1."""


@dataclass
class Checked:
    """What the upload has shown so far: the length of item features, and how many items are new."""

    size: int | None = None
    new: int = 0


async def receive(service: Service, shelf: str, kind: str, body: AsyncIterator[bytes], by: str = "") -> dict[str, int]:
    """Put the items of a body on a shelf, all or none. ``by`` is the id of the caller's key."""
    if kind == PARQUET:
        with tempfile.TemporaryFile() as file:  # Parquet keeps its index at the end
            async for part in body:
                await asyncio.to_thread(file.write, part)
            declared = await asyncio.to_thread(_schema, service, shelf)
            rows = _rows(file, declared)
            return await put(service, shelf, _each(rows), by)
    return await put(service, shelf, _lines(body), by)


async def put(service: Service, shelf: str, groups: AsyncIterator[Numbered], by: str = "") -> dict[str, int]:
    """Put numbered lines on a shelf, all or none; returns how many items were added and changed."""
    now = service.store.now
    upload = await service.write(lambda c: uploads.begin(c, shelf, now(c)))
    seen, empty = Checked(), True
    try:
        async for group in groups:
            lines, empty = await asyncio.to_thread(_check, service, shelf, group, seen), False
            await service.write(partial(_stage, service, upload, lines))
        if empty:
            raise Invalid("an upload must have at least one item, got none")
        act = Act(by, "items uploaded", shelf, {"new": seen.new})
        while not await service.write(partial(_complete, service, upload, act)):
            await asyncio.sleep(PAUSE)
    except BaseException:
        await asyncio.shield(service.write(lambda c: uploads.drop(c, upload)))
        raise
    return await asyncio.shield(asyncio.ensure_future(finish(service, shelf, upload)))  # even if the client disconnects


def _stage(service: Service, upload: str, lines: Sequence[Line], connection: Connection) -> None:
    uploads.stage(connection, upload, lines, service.store.now(connection))


def _complete(service: Service, upload: str, act: Act, connection: Connection) -> bool:
    """Mark the upload complete, if no other is being applied. From then on it will be applied, whatever happens."""
    now = service.store.now(connection)
    done = uploads.complete(connection, upload, now)
    if done:
        admin_log.enter(connection, act, now)
    return done


async def finish(service: Service, shelf: str | None, upload: str) -> dict[str, int]:
    """Apply a complete upload."""
    total = {"added": 0, "changed": 0, "skipped": 0}
    while (part := await service.write(lambda c: uploads.take_in(c, upload, service.store.now(c)))) is not None:
        total = {name: number + part[name] for name, number in total.items()}
    if shelf is not None:
        await asyncio.to_thread(service.following.catch_up, shelf)
    return total if total["skipped"] else {name: total[name] for name in ("added", "changed")}


async def tend(service: Service) -> None:
    """Delete abandoned uploads, and apply complete ones whose process has died."""
    if not await asyncio.to_thread(_waiting, service):
        return
    for upload in await service.write(lambda c: uploads.tidy(c, service.store.now(c))):
        await finish(service, None, upload)


def _waiting(service: Service) -> bool:
    with service.store.read() as connection:
        return uploads.waiting(connection)


def _check(service: Service, shelf: str, group: Numbered, seen: Checked) -> list[Line]:
    """Check that every line can be an item of the shelf."""
    bodies, errors = list[tuple[int, bytes, ItemBody]](), list[dict[str, Any]]()
    for number, text in group:
        try:
            bodies.append((number, text, ItemBody.model_validate_json(text)))
        except ValidationError as error:
            errors += [{"line": number, **each} for each in unfit(error.errors(include_url=False))[:1]]
    with service.store.read() as connection:
        row = shelf_row(connection, shelf)
        prepared = Prepared.of(connection, row)
        prepared.size, prepared.count = prepared.size or seen.size, prepared.count + seen.new
        known = named(connection, row["shelf"], [body.id for _, _, body in bodies])
    ids: dict[str, int] = {}
    for number, _, body in bodies:
        try:
            if ids.setdefault(body.id, number) != number:
                raise Invalid(f"items must be named once each, got {body.id!r} in line {ids[body.id]} as well")
            prepared.take(body, known.get(body.id))
        except Invalid as problem:
            errors.append({"line": number, "where": "item", "rule": problem.detail})
        if len(errors) >= ERRORS:
            break
    if errors:
        errors.sort(key=lambda each: int(each["line"]))
        first = errors[0]
        raise Invalid(f"line {first['line']}: {first['rule']}", errors=errors[:ERRORS])
    prepared.check()
    seen.size, seen.new = prepared.size, seen.new + len(prepared.new)
    return [Line(number, body.id, text.decode()) for number, text, body in bodies]


async def _lines(body: AsyncIterator[bytes]) -> AsyncIterator[Numbered]:
    """Split a body into groups of numbered lines, skipping empty ones."""
    rest, number, group, held = b"", 0, Numbered(), 0
    async for part in _ended(body):
        *whole, rest = (rest + part).split(b"\n")
        for text in whole:
            number += 1
            if text.strip():
                group.append((number, text))
                held += len(text)
            if len(group) >= CHUNK or held >= ENOUGH:
                yield group
                group, held = [], 0
        if len(rest) > LONGEST_LINE:
            raise TooLarge(f"a line must have at most {LONGEST_LINE} bytes, got more in line {number + 1}")
    if group:
        yield group


async def _ended(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body with a final line break."""
    async for part in body:
        yield part
    yield b"\n"


async def _each(groups: Iterator[Numbered]) -> AsyncIterator[Numbered]:
    """Read groups in another thread, off the event loop."""
    while (group := await asyncio.to_thread(next, groups, None)) is not None:
        yield group


def numbered(bodies: Iterable[ItemBody]) -> AsyncIterator[Numbered]:
    """Number items that are already in memory."""

    def groups() -> Iterator[Numbered]:
        group = Numbered()
        for number, body in enumerate(bodies, start=1):
            group.append((number, body.model_dump_json(exclude_unset=True).encode()))
            if len(group) >= CHUNK:
                yield group
                group = []
        if group:
            yield group

    return _each(groups())


def _schema(service: Service, shelf: str) -> Schema | None:
    with service.store.read() as connection:
        columns = json.loads(shelf_row(connection, shelf)["config"]).get("schema")
    return None if columns is None else Schema.from_dict(columns)


def _rows(file: IO[bytes], declared: Schema | None) -> Iterator[Numbered]:
    """Read a Parquet file: a product table if the shelf has a schema, else the fields of items."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise Invalid("Parquet needs pyarrow where the service runs; send application/x-ndjson, got Parquet") from None
    number = 0
    try:
        for batch in pq.ParquetFile(file, pre_buffer=False).iter_batches(CHUNK, use_threads=False):
            rows = batch.to_pylist()
            items = rows if declared is None else service_items(rows, declared)
            texts = [json.dumps({name: value for name, value in each.items() if value is not None}) for each in items]
            yield [(number + place, text.encode()) for place, text in enumerate(texts, start=1)]
            number += len(rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise Invalid(f"the body must be a Parquet file, got {str(error)[:200]}") from None
    except (ValueError, TypeError) as error:
        raise Invalid(f"row {number + 1} or one of the next {CHUNK}: {str(error)[:500]}") from None
