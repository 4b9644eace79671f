"""The client against a real service, a broken one, and none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.service.harness import ITEMS, SHELF, free_port, inline

from quietshelf.client import AsyncClient, Client, Offer, Refused, Retry, ServiceDown
from quietshelf.client.messages import key_call
from quietshelf.data.tables import Schema, number, service_items

QUICK = Retry(retries=2, pause=0.01)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[httpx.Client]:
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as found:
        yield found


def reached(service: httpx.Client) -> tuple[str, str]:
    """URL and key."""
    return str(service.base_url), service.headers["Authorization"].partition(" ")[2]


def test_sync_and_async_clients_do_the_same(service: httpx.Client) -> None:
    """Configure, stock, offer, answer, read; refusals come as `Refused` with their kind."""
    url, key = reached(service)
    with Client(url, key) as shop:
        assert shop.put_shelf("teas", **SHELF)
        assert shop.put_items("teas", ITEMS) == {"added": 8, "changed": 0}
        offer = shop.offer("teas", [0.1, 0.2], person="anna")
        shop.choose(offer, offer.items[0])
        with pytest.raises(Refused, match="another answer") as refused:
            shop.choose(offer, None)
        assert (refused.value.status, refused.value.kind) == (409, "answer-conflict")
        assert shop.erase("teas", "anna") == 1
        shop.retire("teas", ["item 7"])
        assert "Nothing has been released yet" in shop.privacy("teas")["words"]
        assert shop.releases("teas") == []

    async def visit() -> Offer:
        async with AsyncClient(url, key) as shop:
            offer = await shop.offer("teas", [0.1, 0.2], capacity=2)
            await shop.choose(offer, None)
            assert (await shop.privacy("teas"))["rho"] == 0.0
            return offer

    found = asyncio.run(visit())
    assert len(found.items) == 2
    assert not found.fallback


def test_both_clients_manage_keys_and_read_what_admins_did(service: httpx.Client) -> None:
    """A key is made once, listed without its secret, revoked, and all of it is told."""
    url, admin = reached(service)

    async def asynchronous() -> list[Any]:
        async with AsyncClient(url, admin) as client:
            made = await client.create_key(["read"], name="b", expires="2999-01-31")
            await client.revoke_key(made.split("_")[1])
            states = {key["name"]: (key["state"], key["expires"]) for key in await client.list_keys()}
            return [states["b"], *[entry["what"] async for entry in client.admin_log()][:2]]

    with Client(url, admin) as client:
        made = client.create_key(["read"], name="a", expires="2999-01-31")
        client.revoke_key(made.split("_")[1])
        states = {key["name"]: (key["state"], key["expires"]) for key in client.list_keys()}
        found = [states["a"], *[entry["what"] for entry in client.admin_log()][:2]]
    assert found == asyncio.run(asynchronous())
    assert found == [("revoked", "2999-01-31T00:00:00.000Z"), "key revoked", "key created"]
    assert not key_call("POST").repeated


def test_a_table_is_put_and_visitors_come_with_attributes(service: httpx.Client) -> None:
    """Both clients send dicts; what is NaN is missing, as in a data frame."""
    schema = Schema({"price": number(scale=2, centre=5)}, {"age": number(scale=15, centre=40)}, id="sku")
    rows = [{"sku": place, "price": place} for place in range(5)]
    url, key = reached(service)
    with Client(url, key) as shop:
        assert shop.put_shelf("teas", epsilon=2.0, delta=1e-6, capacity=2, window=60.0, schema=schema.to_dict())
        assert shop.put_items("teas", service_items(rows, schema)) == {"added": 5, "changed": 0}
        assert set(shop.offer("teas", {"age": float("nan")}).items) <= {str(row["sku"]) for row in rows}
        assert shop.shelf("teas")["names"] == ["intercept", "price", "age", "age:price"]
        with pytest.raises(Refused, match=r"got unknown=\['agee'\]"):
            shop.offer("teas", {"agee": 3})

    async def visit() -> int:
        async with AsyncClient(url, key) as shop:
            assert (await shop.put_items("teas", service_items(rows, schema)))["changed"] == 5
            await shop.offer("teas", {"age": 31})
            return int((await shop.shelf("teas"))["arrivals"])

    assert asyncio.run(visit()) == 2


def test_any_number_of_items_is_sent_while_it_is_made(service: httpx.Client) -> None:
    """Both clients stream them, tell a wrong line by its number, and read them back page by page."""
    url, key = reached(service)
    made = ({"id": f"new {n}", "features": [0.5, float(n)]} for n in range(1100))
    with Client(url, key) as shop:
        assert shop.put_shelf("teas", **SHELF)
        assert shop.upload_items("teas", made) == {"added": 1100, "changed": 0}
        assert [item["id"] for item in shop.items("teas")] == [f"new {n}" for n in range(1100)]
        with pytest.raises(Refused, match="line 2: features must have length 2"):
            shop.upload_items("teas", [{"id": "a", "features": [1, 2]}, {"id": "b", "features": [1]}])

    async def visit() -> int:
        async with AsyncClient(url, key) as shop:
            assert await shop.upload_items("teas", [{"id": "new 0", "revenue": 2.0}]) == {"added": 0, "changed": 1}
            return len([item async for item in shop.items("teas")])

    assert asyncio.run(visit()) == 1100
    with Client(f"http://127.0.0.1:{free_port()}", key, retry=QUICK) as nobody, pytest.raises(ServiceDown):
        nobody.upload_items("teas", [{"id": "a"}])


@pytest.mark.parametrize("name", ["..", ".", "teas?x", "a/b", "#teas", "%2e%2e", "käse"])
def test_a_name_never_leads_to_another_address(service: httpx.Client, name: str) -> None:
    """A shelf's name is one segment of the path whatever is in it: the service refuses it as the name it is."""
    asked: list[bytes] = []
    with Client(*reached(service)) as shop:
        shop._http.event_hooks = {"request": [lambda request: asked.append(request.url.raw_path)]}
        for call in (shop.privacy, shop.offer, shop.releases):
            with pytest.raises(Refused) as refused:
                call(name)
            assert refused.value.status in (404, 422)
    assert all(path.startswith(b"/v1/shelves/") and path.count(b"/") == 4 and b"?" not in path for path in asked)


def test_a_lost_reply_is_repeated_as_the_same_visitor(service: httpx.Client) -> None:
    """The service did its work, the reply was lost, the client asks again: one slot, one offer."""
    url, key = reached(service)
    lost: list[bytes] = []

    class Lossy(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if request.method == "POST" and len(lost) < 2:
                lost.append(response.read())
                raise httpx.ReadError("the line went dead")
            return response

    with Client(url, key, retry=QUICK) as shop:
        shop.put_shelf("teas", **SHELF)
        shop.put_items("teas", ITEMS)
        shop._http.close()
        shop._http = httpx.Client(base_url=url, headers=shop._http.headers, transport=Lossy())
        offer = shop.offer("teas", [0.1, 0.2])
        assert str(offer.id).encode() in lost[0]
        assert lost[0] == lost[1]
    assert service.get("/v1/shelves/teas").json()["arrivals"] == 1


def test_a_service_that_is_down_is_an_error_or_a_uniform_choice() -> None:
    """As the caller wishes; required items stay, excluded ones go, and answers are not sent anywhere."""
    url = f"http://127.0.0.1:{free_port()}"
    with Client(url, "qs_a_b", retry=QUICK) as shop, pytest.raises(ServiceDown, match=r"in 3 attempts: .+"):
        shop.offer("teas", [1.0])
    chance = Retry(retries=0, fallback=[f"i{n}" for n in range(6)], fallback_capacity=3)
    with Client(url, "qs_a_b", retry=chance) as shop:
        seen: set[str] = set()
        for _ in range(60):
            offer = shop.offer("teas", [1.0], required=["i0"], exclude=["i1"])
            assert offer.fallback
            assert len(offer.items) == 3
            assert offer.items[0] == "i0"
            assert "i1" not in offer.items
            seen |= set(offer.items)
            shop.choose(offer, None)
        assert seen == {"i0", "i2", "i3", "i4", "i5"}  # each is missed by 60 draws of 2 from 4 with chance 2^-60


def test_mistakes_of_the_caller_do_not_look_like_a_service_that_is_down() -> None:
    """They are refused at once, and never served by chance."""
    with pytest.raises(ValueError, match="url must start with http"):
        Client("127.0.0.1:8080", "qs_a_b")
    with pytest.raises(ValueError, match="fallback_capacity must say"):
        Retry(fallback=["tea", "jam"])
    with (
        Client("http://127.0.0.1:1", "qs_a_b", retry=QUICK) as shop,
        pytest.raises(ValueError, match="features must be finite"),
    ):
        shop.offer("teas", [float("nan")])


def test_the_client_needs_nothing_of_the_service() -> None:
    """Neither web framework nor database is imported with it."""
    code = "import sys, quietshelf.client; print([m for m in ('fastapi', 'sqlalchemy', 'uvicorn') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
