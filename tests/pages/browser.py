"""Debian's Chromium, driven by Playwright: no sandbox of its own, no network but the service under test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def demand_browser() -> None:
    """Skip, visibly, where there is no browser; in CI there has to be one."""
    if CHROMIUM.exists():
        return
    words = f"no browser at {CHROMIUM}: install Debian's chromium"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


@contextmanager
def browser() -> Iterator[Any]:
    """A browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield started
        started.close()


def sign_in(page: Any, url: str, key: str, then: str = "/") -> None:
    """As a person does: open the page, paste the key, press the button."""
    page.goto(url + then)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(url + then)


CHECKS = (Path(__file__).parent / "checks.js").read_text(encoding="utf-8")


@contextmanager
def page_of(chromium: Any, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A fresh page, and everything it complains about or asks of others."""
    context = chromium.new_context(**{"viewport": DESKTOP, **options})
    page, heard = context.new_page(), []
    page.on("console", lambda said: heard.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda asked: heard.append(asked.url) if not asked.url.startswith("http://127.0.0.1:") else None)
    page.add_init_script(
        "addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective))"
    )
    yield page, heard
    context.close()
