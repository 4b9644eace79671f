"""Long replies, streamed in parts: items page by page, releases one by one.

One thread makes one part at a time, however many clients are reading.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from quietshelf.serving.service import queries
from quietshelf.serving.service.database import learning
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.service import Service

STEP = 250
"""Items read between two rests."""
RESTS = 1.0
"""Rest after each step, as a multiple of the time the step took: visitors come first."""
_reader = ThreadPoolExecutor(1, "quietshelf-listing")


async def page(service: Service, shelf: str, after: int, most: int) -> bytes:
    """One page of items, as JSON."""
    text, _ = await _next(service, shelf, after, most, lines=False)
    return text


async def lines(service: Service, shelf: str, after: int) -> AsyncIterator[bytes]:
    """All items, one JSON object per line. Each page is read in its own transaction."""
    text, going = await _next(service, shelf, after, queries.PAGE, lines=True)  # a refusal can still be sent as one

    async def rest() -> AsyncIterator[bytes]:
        part, number = text, going
        yield part
        while number is not None:
            part, number = await _next(service, shelf, number, queries.PAGE, lines=True)
            yield part

    return rest()


async def releases(service: Service, shelf: str) -> AsyncIterator[bytes]:
    """Every release, as one JSON document made while it is sent: each release holds a d x d matrix."""
    loop = asyncio.get_running_loop()

    def begin() -> tuple[Row, list[str]]:
        with service.store.read() as connection:
            row = queries.latest_row(connection, shelf)
            first = learning.release_rows(connection, row["shelf"], min(1, row["releases"]))
            return row, queries.names_of(connection, row, first[0]) if first else []

    def part(number: int) -> bytes:
        with service.store.read() as connection:
            (found,) = learning.release_rows(connection, row["shelf"], number + 1, after=number)
        rest = queries.release(found, names)
        rows = map(json.dumps, rest.pop("precision"))  # one by one: all at once would block every other thread
        return f'{", " if number else ""}{json.dumps(rest)[:-1]}, "precision": [{", ".join(rows)}]}}'.encode()

    row, names = await loop.run_in_executor(_reader, begin)  # a refusal can still be sent as one

    async def parts() -> AsyncIterator[bytes]:
        yield b'{"releases": ['
        for number in range(row["releases"]):
            yield await loop.run_in_executor(_reader, part, number)
        yield b"]}"

    return parts()


async def _next(service: Service, shelf: str, after: int, most: int, *, lines: bool) -> tuple[bytes, int | None]:
    def read() -> tuple[bytes, int | None]:
        each, going = list[str](), after
        with service.store.read() as connection:
            row = queries.latest_row(connection, shelf)
            while True:
                began = time.monotonic()
                found = queries.items_page(connection, row, after=going, most=min(STEP, most - len(each)))
                each += map(json.dumps, found["items"])  # one by one: many at once would block every other thread
                if found["next"] is None or len(each) >= most:
                    break
                going = found["next"]
                time.sleep(RESTS * (time.monotonic() - began))
        if lines:
            whole = "".join(f"{line}\n" for line in each)
        else:
            whole = f'{{"items": [{", ".join(each)}], "next": {json.dumps(found["next"])}}}'
        return whole.encode(), found["next"]

    return await asyncio.get_running_loop().run_in_executor(_reader, read)
