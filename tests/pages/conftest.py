"""One furnished shop and one browser for all tests of the pages that only look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.pages.browser import browser, demand_browser
from tests.pages.states import Shop, furnish, opened


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A real browser; the tests that need it are skipped where there is none, and fail in CI.

    While it is open an event loop runs in this thread, where others can start none: so it closes with its module.
    """
    demand_browser()
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A shop with a shelf in every state. Tests may look at it, not change it."""
    with opened(tmp_path_factory.mktemp("pages")) as made:
        furnish(made, releases=3)
        yield made
