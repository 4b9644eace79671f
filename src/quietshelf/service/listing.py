"""The items of a shelf, a page at a time: however many readers there are, one page is made at once, by one thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from quietshelf.service import queries
from quietshelf.service.service import Service

_reader = ThreadPoolExecutor(1, "quietshelf-listing")


async def page(service: Service, shelf: str, after: int, most: int) -> bytes:
    """One page, as JSON."""
    text, _ = await _next(service, shelf, after, most, lines=False)
    return text


async def lines(service: Service, shelf: str, after: int) -> AsyncIterator[bytes]:
    """All items, one JSON object per line; each page is a look of its own at what is committed then."""
    text, going = await _next(service, shelf, after, queries.PAGE, lines=True)  # a refusal is still one

    async def rest() -> AsyncIterator[bytes]:
        part, number = text, going
        yield part
        while number is not None:
            part, number = await _next(service, shelf, number, queries.PAGE, lines=True)
            yield part

    return rest()


async def _next(service: Service, shelf: str, after: int, most: int, *, lines: bool) -> tuple[bytes, int | None]:
    def read() -> tuple[bytes, int | None]:
        with service.store.read() as connection:
            row = queries.latest_row(connection, shelf)
            found = queries.items_page(connection, row, after=after, most=most)
        whole = "".join(json.dumps(each) + "\n" for each in found["items"]) if lines else json.dumps(found)
        return whole.encode(), found["next"]

    return await asyncio.get_running_loop().run_in_executor(_reader, read)
