"""The pages in a real browser: signing in, living figures, the keyboard, readers, both colour schemes, a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.pages.browser import CHECKS, DESKTOP, PHONE, page_of, sign_in
from tests.pages.states import PAGES, Shop, crowd, opened, stall

STATES = (*PAGES, "/shelves/nowhere", "/sign-in")


def test_signing_in_and_out(chromium: Any, shop: Shop) -> None:
    """A wrong key is told so beside the field, a right one leads where one wanted to go; out is out."""
    with page_of(chromium) as (page, heard):
        page.goto(f"{shop.url}/shelves/teas")
        field = page.get_by_label("API key")
        field.fill("qs_wrong_key")
        page.get_by_role("button", name="Sign in").click()
        assert page.get_by_role("alert").inner_text() == "This key is not valid."
        assert page.get_by_label("API key").get_attribute("aria-invalid") == "true"
        heard.clear()  # the browser notes the 401
        page.get_by_label("API key").fill(shop.admin)
        page.keyboard.press("Enter")
        page.wait_for_url(f"{shop.url}/shelves/teas")
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{shop.url}/sign-in")
        page.goto(f"{shop.url}/shelves/teas")
        assert page.url == f"{shop.url}/sign-in?next=/shelves/teas"
        assert heard == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", [DESKTOP, PHONE], ids=["wide", "phone"])
def test_every_state_reads_well(chromium: Any, shop: Shop, scheme: str, view: dict[str, int]) -> None:
    """Names, headings, captions, contrast, sizes; no message on the console, no request to anybody else."""
    with page_of(chromium, color_scheme=scheme, viewport=view) as (page, heard):
        sign_in(page, shop.url, shop.admin)
        for path in STATES:
            page.goto(shop.url + path)
            assert page.evaluate(CHECKS) == [], path
            if path == "/shelves/nowhere":
                heard.clear()  # the browser notes the 404
        assert heard == []


def test_the_checks_find_mistakes(chromium: Any, shop: Shop) -> None:
    """A missing label, a pale word and a skipped heading are noticed: the checks above can fail."""
    with page_of(chromium) as (page, _):
        page.goto(f"{shop.url}/sign-in")
        page.evaluate("""() => {
            document.querySelector("label").remove()
            const pale = document.createElement("h4"); pale.textContent = "pale"; pale.setAttribute("class", "chip")
            document.querySelector("main").append(pale)
            pale.style.color = "#cccccc"
        }""")
        found = " ".join(page.evaluate(CHECKS))
        for mistake in ("no label", "h4 after h1", "contrast 1."):
            assert mistake in found


def test_a_release_arrives_by_itself(chromium: Any, tmp_path: Path) -> None:
    """The open page takes over a new release and says so to readers; pausing holds it still."""
    with opened(tmp_path) as shop, page_of(chromium) as (page, heard):
        shop.shelf("teas")
        shop.learn("teas", 1)
        page.clock.install()
        sign_in(page, shop.url, shop.admin, "/shelves/teas")
        releases = page.locator("#facts [data-of=release_count]")
        assert releases.inner_text() == "1"
        assert page.locator("#live").is_visible()
        shop.learn_more("teas", 2)
        page.clock.run_for(6_000)
        page.locator("#facts [data-of=release_count][value='2']").wait_for()
        assert page.locator("#announce").inner_text() == "Release 2 has arrived."
        assert "After release 2" in page.locator("#tastes").inner_text()
        assert page.locator("#learned circle").count() == 4  # two releases, in two widths
        page.get_by_role("button", name="Pause updates").click()
        shop.visits("teas", 3)
        page.clock.run_for(60_000)
        assert page.locator("#facts [data-of=arrivals]").get_attribute("value") == "76"
        assert heard == []


def test_the_page_is_whole_without_scripts(chromium: Any, shop: Shop) -> None:
    """Every section is there, the charts are drawn, the live switch is not shown."""
    with page_of(chromium, java_script_enabled=False) as (page, _):
        sign_in(page, shop.url, shop.admin, "/shelves/teas")
        assert page.locator("main section").count() == 9
        assert page.locator("#learned svg.wide").is_visible()
        assert not page.locator("#learned svg.narrow").is_visible()
        assert not page.locator("#live").is_visible()


def test_the_keyboard_reaches_everything(chromium: Any, shop: Shop) -> None:
    """The first tab skips to the content, the focus is seen, details open by Enter and stay open."""
    with page_of(chromium) as (page, _):
        sign_in(page, shop.url, shop.admin, "/shelves/teas")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        reached = []
        for _ in range(12):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.textContent.trim()"))
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
            assert outline == "3px", reached
            if reached[-1] == "As a table":
                page.keyboard.press("Enter")
        assert page.locator("#release-table").get_attribute("open") is not None
        for wanted in ("Shelves", "Pause updates", "The privacy statement, with every release", "As a table"):
            assert wanted in reached


def test_publishing_from_the_page(chromium: Any, tmp_path: Path) -> None:
    """One button makes the statement public, for somebody without a key as well; another takes it back."""
    with opened(tmp_path) as shop, page_of(chromium) as (page, heard), page_of(chromium) as (other, _):
        shop.shelf("teas")
        sign_in(page, shop.url, shop.admin, "/shelves/teas/privacy")
        page.get_by_role("button", name="Make it public").click()
        page.get_by_text("Anybody, without a key").wait_for()
        other.goto(f"{shop.url}/shelves/teas/privacy")
        assert other.locator("h1").inner_text() == "Privacy statement"
        assert other.evaluate(CHECKS) == []
        page.get_by_role("button", name="Make it private").click()
        page.get_by_text("Only people with a key").wait_for()
        other.reload()
        assert "/sign-in" in other.url
        assert heard == []


def test_a_statement_is_printed_on_one_page(chromium: Any, shop: Shop) -> None:
    """Dark ink on white also where the screen is dark; without buttons; with all of the ledger."""
    with page_of(chromium, color_scheme="dark") as (page, heard):
        sign_in(page, shop.url, shop.admin, "/shelves/teas/privacy")
        printed = page.pdf(prefer_css_page_size=True)
        assert re.findall(rb"/Count (\d+)", printed) == [b"1"]
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
        assert [page.get_by_role("button").count(), page.locator("nav:visible").count()] == [0, 0]
        assert page.locator("#promise-title").is_visible()
        assert heard == []


def test_many_shelves_and_a_stopped_releaser_read_well(chromium: Any, tmp_path: Path) -> None:
    """Fifty shelves on one page, and the alarm, on a screen and on a phone."""
    with opened(tmp_path) as shop:
        crowd(shop)
        stall(shop, "aisle-01")
        for view in (DESKTOP, PHONE):
            with page_of(chromium, viewport=view) as (page, heard):
                sign_in(page, shop.url, shop.admin)
                assert page.locator(".lines > li").count() == 50
                for path in ("/", "/shelves/aisle-01", "/operations"):
                    page.goto(shop.url + path)
                    assert page.evaluate(CHECKS) == []
                assert page.get_by_role("alert").count() == 1
                assert heard == []


def test_an_empty_service_reads_well(chromium: Any, tmp_path: Path) -> None:
    """The first thing a newcomer sees."""
    with opened(tmp_path) as shop, page_of(chromium, viewport=PHONE, color_scheme="dark") as (page, heard):
        sign_in(page, shop.url, shop.admin)
        assert page.evaluate(CHECKS) == []
        assert heard == []
