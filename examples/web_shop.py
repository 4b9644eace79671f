"""A FastAPI shop with a shelf inside: offers, purchases, the promise, and nothing lost at a restart.

Run it as it is: simulated visitors use the routes that a browser would, and the shop closes, reopens and continues. To
serve real visitors: ``pip install '.[service]'`` and ``uvicorn web_shop:app``, which keeps the shelf in
``books.shelf``. In Flask the three routes look the same; a shelf may be called from several threads, but belongs to one
process. After a crash it continues from the last save, and the promise says what that costs.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import numpy as np
from fastapi import FastAPI, HTTPException

from quietshelf import Shelf
from quietshelf.serving.shelf import ShelfError

BOOKS = ["Emma", "Dracula", "Dune", "Persuasion", "Frankenstein", "Ulysses", "Middlemarch", "Neuromancer"]
ROMANCE, HORROR, FUTURE, LENGTH = np.eye(4)
CATALOGUE = np.array([ROMANCE, HORROR, FUTURE, ROMANCE, HORROR + FUTURE, LENGTH, ROMANCE + LENGTH, FUTURE])
PLACES, RHO = 3, 1.0


@asynccontextmanager
async def open_hours(app: FastAPI) -> AsyncIterator[None]:
    """Resume from the last save; save at closing time. A new shelf is saved before its first visitor.

    Otherwise a crash would look like a first start: a new shelf starts a new budget, and budgets add up.
    """
    saved: Path = app.state.saved
    if not saved.exists():
        Shelf(items=BOOKS, catalogue=CATALOGUE, feature_map="item", capacity=PLACES, rho=RHO).save(saved)
    app.state.shelf = Shelf.load(saved)
    yield
    app.state.shelf.save(saved)


app = FastAPI(lifespan=open_hours)
app.state.saved = Path("books.shelf")


@app.post("/offer")
def offer() -> dict[str, object]:
    """Three books for a reader. A POST that the page sends once it is seen, so prefetches and crawlers do not count.

    This shop has no accounts, so the promise is to each visit. A cookie is not a person: it can be cleared or copied.
    In a shop with accounts, pass the signed-in account's id as ``person=`` with every offer.
    """
    made = app.state.shelf.offer()
    return {"offer": made.id, "books": made.items}


@app.post("/answer/{offer_id}")
def answer(offer_id: str, book: str | None = None) -> None:
    """What was bought, or nothing. A second, different answer is refused."""
    try:
        app.state.shelf.choose(offer_id, book)
    except (ShelfError, ValueError) as error:
        raise HTTPException(409, str(error)) from error


@app.get("/privacy")
def privacy() -> dict[str, object]:
    """What is promised to each visit, in words."""
    return {"promise": app.state.shelf.privacy(delta=1e-6).words}


async def visit(client: httpx.AsyncClient, rng: np.random.Generator) -> bool:
    """A simulated reader, who loves the future and fears length; whether something was bought."""
    shown = (await client.post("/offer")).json()
    books = shown["books"]
    features = CATALOGUE[[BOOKS.index(book) for book in books]]
    utility = np.append(features @ [0.0, -1.0, 1.5, -2.0] - 1.0, 0.0) + rng.gumbel(size=len(books) + 1)
    place = int(utility.argmax())
    bought = place < len(books)
    reply = await client.post(f"/answer/{shown['offer']}", params={"book": books[place]} if bought else {})
    reply.raise_for_status()
    return bought


async def main(visitors: int, folder: Path) -> None:
    """Two days of visitors with a closing time between them."""
    app.state.saved = folder / "books.shelf"
    rng = np.random.default_rng(1)
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop")
    for day in (1, 2):
        async with open_hours(app):
            sold = [await visit(browser, rng) for _ in range(visitors // 2)]
            words = (await browser.get("/privacy")).json()["promise"]
        so_far = app.state.shelf.arrivals
        print(f"day {day}: {100 * np.mean(sold):.0f} % of {len(sold)} readers bought a book, {so_far} came so far")
    print(words)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, Path(place)))
