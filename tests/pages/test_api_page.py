"""The page of the API in a real browser: it reads well, runs nothing in line, and its examples do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pages.browser import CHECKS, DESKTOP, PHONE, page_of
from tests.pages.states import opened

STEPS = (
    ("PUT", "/v1/shelves/{shelf}", "201"),
    ("PUT", "/v1/shelves/{shelf}/items", "200"),
    ("POST", "/v1/shelves/{shelf}/offers", "200"),
    ("POST", "/v1/offers/{offer}/choice", "204"),
    ("GET", "/v1/shelves/{shelf}/privacy", "200"),
)


def sent(page: Any, method: str, path: str) -> str:
    """Open a request on the page and send its example as it stands; what the page says then."""
    box = page.locator(f'details[data-request="{method} {path}"]')
    box.locator("> summary").click()
    box.get_by_role("button", name="Send").click()
    reply = box.locator("pre[role=status]")
    reply.filter(has_text="0").wait_for()
    return str(reply.inner_text())


@pytest.mark.parametrize("root", ["", "/below/here"])
def test_every_example_can_be_sent_from_the_page(chromium: Any, tmp_path: Path, root: str) -> None:
    """One after the other they make a shelf, fill it, show something to a visitor and take the answer."""
    with opened(tmp_path, root_path=root) as shop, page_of(chromium) as (page, heard):
        page.goto(f"{shop.url}{root}/docs")
        page.get_by_label("API key").fill(shop.admin)
        for method, path, status in STEPS:
            if "choice" in path:  # the example chooses tea, which may not have been shown
                page.evaluate(
                    """path => {
                    document.querySelector(`[data-request="POST ${path}"] textarea`).value = '{"item": null}'
                }""",
                    path,
                )
            assert sent(page, method, path).startswith(status), path
        assert heard == []
        assert page.evaluate("document.cookie + Object.keys(localStorage) + Object.keys(sessionStorage)") == ""
        assert shop.admin not in page.locator("main").inner_text()


@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=["wide", "phone"])
def test_the_page_reads_well_and_is_grouped(chromium: Any, tmp_path: Path, view: dict[str, int]) -> None:
    """In both colour schemes with everything unfolded: names, headings, contrast, sizes; the groups in their order."""
    with opened(tmp_path) as shop:
        for scheme in ("light", "dark"):
            with page_of(chromium, color_scheme=scheme, viewport=view) as (page, heard):
                page.goto(f"{shop.url}/docs")
                page.locator("#group-about").wait_for()
                headings = page.locator("#operations h2").all_inner_texts()
                assert headings[:4] == ["Shop", "Visitors", "Devices", "Read"]
                page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")
                assert page.evaluate(CHECKS) == []
                assert heard == []
