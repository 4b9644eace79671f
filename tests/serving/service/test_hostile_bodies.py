"""What the least privileged key may send costs no more than it should: bodies, mistakes, lists."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError
from tests.serving.service.harness import ITEMS, SHELF, inline, offered, stocked

from quietshelf.serving.service.models import ItemsBody, OfferBody
from quietshelf.serving.service.problems import Invalid
from quietshelf.serving.service.visitors import offers
from quietshelf.serving.service.visitors.requests import visitor

MANY = 20_000
LISTS = ("required", "exclude", "candidates", "ranking", "features")
JSON = {"Content-Type": "application/json"}


def post(client: httpx.Client, path: str, body: str, kind: str = "application/json") -> httpx.Response:
    return client.post(path, content=body.encode(), headers={"Content-Type": kind})


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_mistakes_is_one_mistake(name: str) -> None:
    """The first wrong entry ends it: errors for all would take a thousand times the memory of the request."""
    with pytest.raises(ValidationError) as found:
        OfferBody.model_validate_json(json.dumps({name: [[]] * MANY}))
    assert found.value.error_count() == 1


def test_cells_and_items_are_told_once() -> None:
    """The same for attributes, and for items of which each is wrong in many places."""
    with pytest.raises(ValidationError) as found:
        OfferBody.model_validate_json(json.dumps({"attributes": {str(n): {} for n in range(9000)}}))
    assert found.value.error_count() == 1
    with pytest.raises(ValidationError) as found:
        ItemsBody.model_validate_json(json.dumps({"items": [{"id": "x", "features": ["no"] * 100}] * 100}))
    assert found.value.error_count() == 1


def test_bodies_are_limited_by_route(tmp_path: Path) -> None:
    """An offer may have kilobytes, an answer, an erasure and a form less; said and unsaid lengths alike."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, offer_limit=10_000) as client:
        stocked(client)
        offer = offered(client).json()["offer"]
        long = json.dumps({"features": [0.0, 0.0], "exclude": ["x" * 100] * 200})
        small = "x" * 17_000
        for path, body in (
            ("/v1/shelves/teas/offers", long),
            (f"/v1/offers/{offer}/choice", small),
            ("/v1/shelves/teas/erasures", small),
            ("/sign-in", small),
        ):
            for content in (body.encode(), iter([body[:5].encode(), body[5:].encode()])):
                headers = {**JSON, "Sec-Fetch-Site": "same-origin"}
                reply = client.post(path, content=content, headers=headers)
                assert reply.status_code == 413, path
        assert offered(client).status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/shelves/items", "/v1/shelves/no%20name/items", "/v1/shelves/a/b/items", "/items"]
)
def test_only_uploads_of_items_have_the_limit_of_uploads(tmp_path: Path, path: str) -> None:
    """Any key may ask for a shelf that is called items, or for no shelf at all: the rest of the body is not read."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, body_limit=2000, upload_limit=1_000_000) as client:
        stocked(client)
        headers = {"Content-Type": "application/x-ndjson"}
        reply = client.put(path, content=iter([b"x" * 1000] * 500), headers=headers)
        assert reply.status_code in (404, 413), reply.text
        if reply.status_code == 413:
            assert "at most 2000 bytes" in reply.text


@pytest.mark.parametrize("path", ["shelves/teas/offers", "shelves/teas/erasures", "offers/any/choice"])
def test_a_path_that_ends_in_a_line_break_has_no_route(tmp_path: Path, path: str) -> None:
    """A route would match it; limits, stamps and what is not counted would not."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        assert client.post(f"/v1/{path}%0A", json={"person": "x"}).status_code == 404


@pytest.mark.parametrize("name", ["choice", "contribution", "erasures", "offers", "items", "releases"])
def test_a_shelf_may_be_called_like_a_part_of_a_path(tmp_path: Path, name: str) -> None:
    """Its settings have the limit of settings, and changes of them are counted."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, offer_limit=100) as client:
        schema = {"items": {f"column {n}": {"kind": "number", "scale": 1.0} for n in range(400)}}
        reply = client.put(f"/v1/shelves/{name}", json={**SHELF, "schema": schema})
        assert reply.status_code != 413, reply.text
        assert client.get(f"/v1/shelves/{name}").status_code in (200, 404)
        counted = client.get("/metrics").text
        assert 'quietshelf_requests_total{route="/v1/shelves/{shelf}"' in counted


def test_a_body_of_nothing_but_fields_is_refused_at_once(tmp_path: Path) -> None:
    """Thousands of unknown fields are one mistake."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        reply = post(client, "/v1/shelves/teas/offers", json.dumps({str(n): 0 for n in range(MANY)}))
        assert reply.status_code == 422
        assert reply.json()["detail"] == f"a request must have at most 100 fields, got {MANY}"


def test_requests_are_checked_before_the_writer_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for what cannot be, or for very much, takes no time of the thread that everybody waits for."""
    where: list[str] = []

    def checked(*given: Any) -> Any:
        where.append(threading.current_thread().name)
        return visitor(*given)

    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        assert offered(client).status_code == 200  # whatever was not read yet is
        monkeypatch.setattr(offers, "visitor", checked)
        assert offered(client).status_code == 200
        assert offered(client, required=["no such item"]).status_code == 422
    assert where
    assert "quietshelf-writer" not in where


class Unsearchable(list[Any]):
    """A list in which nobody may look for anything one by one."""

    def __contains__(self, _: object) -> bool:
        raise AssertionError("a list was searched")


def test_lists_are_never_searched(tmp_path: Path) -> None:
    """Required against excluded items: sets, for ten thousand of each would take a second of everybody's time."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        assert offered(client).status_code == 200
        view = client.service.following.views["teas"]  # type: ignore[attr-defined]
        names = [item["id"] for item in ITEMS]
        body = OfferBody.model_construct(
            features=[0.0, 0.0], required=Unsearchable(names[:2]), exclude=Unsearchable(names[3:]), ranking=None
        )
        assert visitor(view, body).capacity == SHELF["capacity"]
        body.exclude = Unsearchable(names[1:])
        with pytest.raises(Invalid, match="required items must be available, got 'item 1'"):
            visitor(view, body)


def test_a_long_ranking_is_refused_like_other_lists(tmp_path: Path) -> None:
    """Before it comes to the writer."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, candidates_limit=5) as client:
        stocked(client)
        for name in ("ranking", "candidates", "required", "exclude"):
            wish: dict[str, Any] = {name: [item["id"] for item in ITEMS]}
            reply = offered(client, **wish)
            assert (reply.status_code, "at most 5 items" in reply.json()["detail"]) == (422, True)
