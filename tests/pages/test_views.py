"""What the pages say, and what they do not depend on."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.pages.states import HTML, LONG, PAGES, WINDOW, Shop, opened, spend, stall

from quietshelf.privacy.accounting import LOG, Assumption, Ledger, gaussian
from quietshelf.privacy.accounting.attackers import power_under_gaussian
from quietshelf.serving.service.pages.activity import Activity
from quietshelf.serving.service.pages.budget_summary import DISCRETE, found_at_most, one_release
from quietshelf.serving.service.pages.counts import WARNING
from quietshelf.serving.service.pages.status import status
from quietshelf.serving.service.pages.traffic import routes as routes_of
from quietshelf.serving.service.pages.wording import THIN
from quietshelf.serving.service.settings import ServiceSettings


class Figures(HTMLParser):
    """The figures of a page that say which value of its twin they are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "data":
            self.found.append((given["data-of"] or "", given["value"] or ""))


def at(view: Any, path: str) -> Any:
    """The value at a dotted path."""
    for part in path.split("."):
        view = view[int(part)] if isinstance(view, list) else view[part]
    return view


@pytest.mark.parametrize("path", PAGES)
def test_a_page_and_its_twin_say_the_same(shop: Shop, path: str) -> None:
    """Every figure on the page is, to the last digit, the value of that name in the JSON at the same address."""
    page = shop.client.get(path, headers=HTML)
    twin = shop.client.get(path, headers={"Accept": "application/json"})
    assert page.headers["content-type"].startswith("text/html")
    assert twin.json().keys() == shop.client.get(path, params={"format": "json"}).json().keys()
    figures = Figures(page.text).found
    assert figures or path in ("/operations", "/shelves/no-items")
    for of, value in figures:
        if of.rpartition(".")[2] != "arrivals_per_minute":  # moves with the clock of the activity
            assert str(at(twin.json(), of)) == value


def test_each_state_is_told(shop: Shop) -> None:
    """Empty, new, first visitor, learning, comparison, deleted: by name and in words."""
    lines = shop.client.get("/?format=json").json()
    states = {each["shelf"]: each["status"]["state"] for each in [*lines["living"], *lines["deleted"]]}
    assert states == {
        "teas": "learning", "members": "learning", "random-teas": "comparison", "one-visitor": "gathering",
        "opening-soon": "new", "no-items": "empty", LONG: "new", "closed-last-year": "deleted",
    }  # fmt: skip
    words = {name: shop.client.get(f"/shelves/{name}", headers=HTML).text for name in states}
    assert "1 of 32 visitors have come" in words["one-visitor"]
    assert "declared not private" in words["random-teas"]
    assert "Its items are deleted" in words["closed-last-year"]
    assert "Nobody has visited yet" in words["opening-soon"]
    assert "A full gauge is normal" in words["teas"]
    assert "at most 3 visits of a person count" in words["members"]


def test_a_full_first_batch_is_said_to_wait_for_answers() -> None:
    """Whoever comes meanwhile is in the second batch, which says nothing of when the first release comes."""
    row = {"config": '{"policy": "quiet"}', "deleted": None, "arrivals": 31, "releases": 0}
    times = {"window": 3600.0, "lag": 1.0}
    full, next_one = (
        {"size": 23, "taken": 23, "full_at": 100.0, **times},
        {"size": 32, "taken": 8, "full_at": None, **times},
    )
    seen = status(row, [full, next_one], refuses=False, items=2, now=101.0, poll=1.0)
    assert (seen["state"], seen["late_seconds"]) == ("gathering", None)
    assert seen["words"].replace(THIN, " ") == "The first batch is full and waits for answers, for 1 h more."
    later = status(row, [full, next_one], refuses=False, items=2, now=4000.0, poll=1.0)
    assert (later["state"], later["late_seconds"]) == ("late", 299.0)


def test_an_empty_service_says_what_to_do(tmp_path: Path) -> None:
    """The first page of the first minute shows commands that make a shelf, stock it and serve a visitor."""
    with opened(tmp_path) as shop:
        page = shop.client.get("/", headers=HTML).text
        assert "There is no shelf yet." in page
        commands = unescape(page.partition("<pre")[2].partition("<code>")[2].partition("</code>")[0])
        subprocess.run(
            ["/bin/bash", "-ec", commands], env={**os.environ, "URL": shop.url, "KEY": shop.admin}, check=True
        )
        assert shop.client.get("/v1/shelves/teas").json()["arrivals"] == 1
        assert shop.client.get("/operations", headers=HTML).status_code == 200


def test_a_stopped_releaser_and_a_spent_budget_are_seen(tmp_path: Path) -> None:
    """A full batch that is not released in time, and a ledger that refuses, on the shelf's page and the first."""
    with opened(tmp_path) as shop:
        shop.shelf("teas")
        shop.learn("teas", 1)
        spend(shop, "teas")
        view = shop.client.get("/shelves/teas?format=json").json()
        assert view["status"]["state"] == "refused"
        assert view["promise"]["refuses"]
        assert "The budget is spent" in shop.client.get("/shelves/teas", headers=HTML).text
        assert view["left_out"] == 0
        shop.fill("teas")
        shop.pass_time(WINDOW)
        shop.visits("teas", 1)  # whose arrival would have brought the release
        assert shop.client.get("/shelves/teas?format=json").json()["left_out"] == 1
        stall(shop)
        assert shop.client.get("/shelves/teas?format=json").json()["status"]["state"] == "late"
        assert "A release is late on 1 shelf." in shop.client.get("/", headers=HTML).text
        assert "The releaser is behind." in shop.client.get("/operations", headers=HTML).text
        assert shop.client.get("/operations?format=json").json()["releaser"]["late"][0]["shelf"] == "teas"


def test_read_pages_do_not_depend_on_what_was_chosen(tmp_path: Path) -> None:
    """Answers of an open batch change no page but the counts, which are for admins and say what they are."""
    with opened(tmp_path) as shop:
        shop.shelf("teas")
        offers = [shop.client.post("/v1/shelves/teas/offers", json={"features": [0.1]}).json() for _ in range(3)]
        paths = ("/?format=json", "/shelves/teas?format=json", "/shelves/teas/privacy?format=json")
        before = [shop.client.get(path).text for path in paths]
        counts = shop.client.get("/shelves/teas/counts?format=json").json()
        for offer in offers:
            shop.client.post(f"/v1/offers/{offer['offer']}/choice", json={"item": offer["items"][0]})
        assert [shop.client.get(path).text for path in paths] == before
        after = shop.client.get("/shelves/teas/counts?format=json").json()
        assert (counts["chose_something"], after["chose_something"], after["offers"]) == (0, 3, 3)
        assert after["revenue"] > 0
        assert after["warning"] == WARNING == "outside the promise: do not publish"
        assert WARNING.capitalize() in shop.client.get("/shelves/teas/counts", headers=HTML).text


def test_no_page_but_the_counts_reads_raw_contributions() -> None:
    """The table of offers is named in one module of the pages."""
    folder = Path(__file__).parents[2] / "src" / "quietshelf" / "serving" / "service" / "pages"
    reading = {path.name for path in folder.glob("*.py") if re.search(r"schema\.offers\b", path.read_text())}
    assert reading == {"counts.py"}


def test_what_is_shown_most_is_simulated_from_the_release(shop: Shop) -> None:
    """Shares of made-up visitors add up to the places on the shelf, and are the same at every look."""
    view = shop.client.get("/shelves/teas?format=json").json()
    again = shop.client.get("/shelves/teas?format=json").json()
    assert view["shown"] == again["shown"]
    assert view["shown"]["simulated_visitors"] == 400
    assert 3.5 < sum(each["share"] for each in view["shown"]["items"]) <= 4
    random = shop.client.get("/shelves/random-teas?format=json").json()["shown"]
    assert random["ever_shown"] == 24


def test_estimates_and_health_are_those_of_the_releases(shop: Shop) -> None:
    """The page's figures are the API's: theta of the last release, and the inverse of its precision."""
    view = shop.client.get("/shelves/teas?format=json").json()
    last = shop.client.get("/v1/shelves/teas/releases").json()["releases"][-1]
    assert [each["estimate"] for each in view["tastes"]] == last["theta"]
    errors = np.sqrt(np.diagonal(np.linalg.inv(last["precision"])))
    np.testing.assert_allclose([each["standard_error"] for each in view["tastes"]], errors, rtol=1e-9)
    assert view["tastes"][-1]["name"] == "visitor feature 1:item feature 2"
    assert view["health"]["below"] == sum(each["information"] < each["noise"] for each in view["health"]["directions"])
    assert f"in {view['health']['below']} of 6 directions" in view["health"]["words"] or not view["health"]["below"]


def test_the_promise_is_never_understated(shop: Shop) -> None:
    """Figures on the page are rounded upwards, and an attacker's success is that of the proof."""
    page = shop.client.get("/shelves/teas/privacy", headers=HTML).text
    view = shop.client.get("/shelves/teas/privacy?format=json").json()["promise"]
    assert view["rho"] <= view["limit"] == 1.0
    for each in view["epsilon"]:
        (shown,) = re.findall(rf'value="{each["epsilon"]}">([\d.]+)<', page)
        assert float(shown) >= each["epsilon"]
    assert "18.1" in page
    assert "26.2" not in page


def test_an_attackers_success_is_that_of_the_guarantee() -> None:
    """The table of docs/guarantee.md: one Gaussian release, or rho alone; never below the Gaussian curve itself."""
    table = {0.1: (3.1, 3.6), 0.5: (9.3, 12.5), 1.0: (18.1, 26.2), 2.0: (37.3, 54.9), 5.0: (79.9, 99.4)}
    for rho, both in table.items():
        assert [-(-1000 * found_at_most(rho, gaussian=each) // 1) / 10 for each in (True, False)] == list(both)
        assert found_at_most(rho, gaussian=True) > power_under_gaussian(np.array(0.01), rho)
    assert found_at_most(float("inf"), gaussian=True) == found_at_most(float("inf"), gaussian=False) == 1.0
    assert 1e-7 < DISCRETE < 4e-7  # as docs/proofs.md, section 5, says


def test_only_one_release_and_nothing_else_counts_as_one_gaussian() -> None:
    """Two visits of a person, or a log behind the prior, are bounded by rho alone."""
    release = gaussian("pair", sensitivity=1.0, noise=1.0, batch=0, assumption=Assumption.EXACT_GRID)
    assert one_release(Ledger(budget=1.0).spend(release))
    assert not one_release(Ledger(budget=1.0, visits=2, unit="person").spend(release))
    assert not one_release(Ledger(budget=1.0).spend(replace(release, batch=LOG)))


def test_operations_leave_answers_out(shop: Shop) -> None:
    """No route of the answers, no figure about them."""
    view = shop.client.get("/operations?format=json").json()
    routes = {each["route"] for each in view["routes"]}
    assert "/v1/shelves/{shelf}/offers" in routes
    assert not any("choice" in route for route in routes)
    assert view["requests"] == sum(each["requests"] for each in view["routes"])
    offers = next(each for each in routes_of(shop.service.metrics) if each["route"] == "/v1/shelves/{shelf}/offers")
    assert offers["half_within"] <= offers["most_within"] <= (offers["nearly_all_within"] or 10)


def test_arrivals_per_minute_are_those_that_were_seen(tmp_path: Path) -> None:
    """Each arrival is in the minute in which it was first seen; others are unknown, not zero."""
    with opened(tmp_path) as shop:
        shop.shelf("teas")
        shop.visits("teas", 5)
        shop.pass_time(59.0)
        shop.visits("teas", 3)
        view = shop.client.get("/shelves/teas?format=json").json()
        assert view["per_minute"][-2:] == [5, 3]
        assert view["per_minute"][:-2] == [None] * 28
        assert view["arrivals"] == 8
        assert view["arrivals_per_minute"] == pytest.approx(8 * 60 / 61)


def test_arrivals_of_a_time_that_nobody_watched_are_in_no_minute(tmp_path: Path) -> None:
    """Two looks more than a minute apart cannot tell when those between them came."""
    with opened(tmp_path) as shop:
        shop.shelf("teas")
        activity = Activity(shop.service.store, shop.service.metrics)
        activity.look()
        shop.visits("teas", 2)
        shop.clock.time += 120.0
        activity.look()
        assert activity.per_minute(1, shop.clock.time) == [None] * 30
        shop.visits("teas", 3)
        activity.look()
        assert activity.per_minute(1, shop.clock.time) == [*[None] * 29, 3]


def test_a_shelf_made_again_is_another_shelf(tmp_path: Path) -> None:
    """The name leads to the living one; the deleted one's promise is listed, added up, and not published with it."""
    with opened(tmp_path) as shop:
        shop.shelf("teas")
        shop.learn("teas", 1)
        assert shop.client.post("/shelves/teas/privacy", data={"public": "yes"}).status_code == 303
        shop.client.delete("/v1/shelves/teas")
        assert shop.client.get("/shelves/teas/privacy?format=json").json()["public_since"] is not None
        shop.shelf("teas")
        assert shop.client.get("/shelves/teas/privacy?format=json").json()["public_since"] is None
        view = shop.client.get("/?format=json").json()
        assert [len(view["living"]), len(view["deleted"])] == [1, 1]
        assert view["together"] == view["deleted"][0]["promise"]["rho"]
        assert view["living"][0]["promise"]["rho"] == 0


def test_operations_draw_offers_and_lateness_by_minute(tmp_path: Path) -> None:
    """As many offers as were made in each minute, with limits of their times; a stalled releaser shows; no answers."""
    with opened(tmp_path) as shop:
        shop.shelf("teas")
        shop.pass_time(0.0)
        shop.visits("teas", 5)
        view = shop.client.get("/operations?format=json").json()
        assert [each for each in view["offers"] if each is not None][-1]["offers"] == 5
        assert view["offers"][:-2] == [None] * 28
        assert max(each for each in view["lateness"] if each is not None) == 0.0
        assert shop.client.get("/?format=json").json()["living"][0]["per_minute"][-1] == 5
        shop.service.releasing.release = lambda: False
        shop.fill("teas")
        for _ in range(3):
            shop.pass_time(30.0)
        late = shop.client.get("/operations?format=json").json()["lateness"][-1]
        assert late == pytest.approx(90.0 + 1.0 - WINDOW, abs=1.5)  # a second passes as visitors come
        page = shop.client.get("/operations", headers=HTML).text
        for chart in ("offers-wide", "latency-wide", "lateness-broad"):
            assert f'id="{chart}-title"' in page


def test_a_statement_says_whom_to_ask(tmp_path: Path) -> None:
    """Operator and contact stand on the statement, in its twin and below every page; without them admins are told."""
    with opened(tmp_path / "named", operator="Tea & Sons", contact="privacy@tea.example") as shop:
        shop.shelf("teas")
        page = shop.client.get("/shelves/teas/privacy", headers=HTML).text
        assert page.count("Tea &amp; Sons") == 3
        assert '<a href="mailto:privacy@tea.example">privacy@tea.example</a>' in page
        twin = shop.client.get("/shelves/teas/privacy?format=json").json()
        assert (twin["operator"], twin["contact"]) == ("Tea & Sons", "privacy@tea.example")
        assert "Run by Tea &amp; Sons" in shop.client.get("/", headers=HTML).text
    with opened(tmp_path / "unnamed") as shop:
        shop.shelf("teas")
        page = shop.client.get("/shelves/teas/privacy", headers=HTML).text
        assert "Set <code>operator</code> and <code>contact</code>" in page
        assert "Run by" not in page
        reader = {"Authorization": f"Bearer {shop.key('read')}"}
        assert "Set <code>" not in shop.client.get("/shelves/teas/privacy", headers={**HTML, **reader}).text
    with pytest.raises(ValueError, match="operator must be one line"):
        ServiceSettings(operator="Tea\nSons")
