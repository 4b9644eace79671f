"""``python -m tests.pages.screenshots FOLDER``: every page, in both colour schemes, wide and as on a phone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from tests.pages.browser import DESKTOP, PHONE, browser, sign_in
from tests.pages.states import LONG, crowd, furnish, opened, spend, stall
from tests.serving.service.harness import free_port, serving

from quietshelf.demo.server import open_demo

TOP = 690
"""So much of the demo's page is on the front page of the documentation: what it has earned, without the tables."""
SHOTS = {
    "overview": "/",
    "shelf": "/shelves/teas",
    "statement": "/shelves/teas/privacy",
    "counts": "/shelves/teas/counts",
    "operations": "/operations",
    "members": "/shelves/members",
    "comparison": "/shelves/random-teas",
    "one-visitor": "/shelves/one-visitor",
    "no-visitors": "/shelves/opening-soon",
    "long-name": f"/shelves/{LONG}",
    "deleted": "/shelves/closed-last-year",
    "refusal": "/shelves/nowhere",
}


class Camera:
    """Takes pages, four pictures each."""

    def __init__(self, started: Any, folder: Path) -> None:
        self._browser, self._folder = started, folder
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, url: str, key: str | None, shots: dict[str, str]) -> None:
        """Sign in, if there is a key, and take each page."""
        for scheme in ("light", "dark"):
            for size, view in (("wide", DESKTOP), ("phone", PHONE)):
                context = self._browser.new_context(viewport=view, color_scheme=scheme, reduced_motion="reduce")
                page = context.new_page()
                if key is not None:
                    sign_in(page, url, key)
                for name, path in shots.items():
                    page.goto(url + path)
                    _keep(page.screenshot(full_page=True), self._folder / f"{name}-{scheme}-{size}.png")
                context.close()


def _keep(picture: bytes, path: Path) -> None:
    """In 256 colours, the 128 most frequent exact, the others spread over the rest: a third of the size."""
    whole = Image.open(BytesIO(picture)).convert("RGB")
    found: Any = whole.getcolors(whole.width * whole.height)
    frequent = [channel for _, colour in sorted(found, reverse=True)[:128] for channel in colour]
    spread = whole.quantize(128, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*frequent, *spread[: 3 * 128]])
    whole.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


@contextmanager
def _demo(folder: Path, seconds: float) -> Any:
    port = free_port()
    app, demo, api, _ = open_demo(folder, host="127.0.0.1", port=port)
    with serving(app, port):
        thread = threading.Thread(target=demo.run, args=(api,), daemon=True)
        thread.start()
        demo.stop.wait(seconds)
        yield f"http://127.0.0.1:{port}", demo
        demo.stop.set()
        thread.join()


def main(arguments: Sequence[str]) -> None:
    """All of them."""
    folder, seconds = Path(arguments[0]), 60.0
    with TemporaryDirectory() as text, browser() as started:
        room, camera = Path(text), Camera(started, folder)
        with opened(room / "shop") as shop:
            camera.take(shop.url, None, {"sign-in": "/sign-in"})
            camera.take(shop.url, shop.admin, {"empty": "/"})
            furnish(shop, releases=7)
            camera.take(shop.url, shop.admin, SHOTS)
            shop.shelf("spent")
            shop.learn("spent", 1)
            spend(shop, "spent")
            camera.take(shop.url, shop.admin, {"spent": "/shelves/spent"})
            stall(shop)
            camera.take(shop.url, shop.admin, {"stopped": "/shelves/teas", "stopped-operations": "/operations"})
        with opened(room / "crowd") as shop:
            crowd(shop)
            camera.take(shop.url, shop.admin, {"many": "/"})
        (room / "demo").mkdir()
        with _demo(room / "demo", seconds) as (url, _):
            camera.take(url, None, {"demo": "/demo"})
    with Image.open(folder / "demo-light-wide.png") as demo:
        demo.crop((0, 0, demo.width, TOP)).save(folder / "front-light-wide.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
