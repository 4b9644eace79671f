"""Who gets in: keys, cookies, forms, headers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.pages.states import HTML, Shop, opened

from quietshelf.serving.service.access import keys
from quietshelf.serving.service.pages import sessions
from quietshelf.serving.service.pages.replies import HEADERS

PAGES = ("/", "/operations", "/shelves/teas", "/shelves/teas/privacy", "/shelves/teas/counts")


def visitor(shop: Shop) -> httpx.Client:
    """A browser without a key."""
    return httpx.Client(base_url=shop.url, headers=HTML)


@contextmanager
def signed_in(shop: Shop, key: str) -> Iterator[httpx.Client]:
    """A browser after the sign-in form."""
    with visitor(shop) as client:
        reply = client.post("/sign-in", data={"key": key, "next": "/"}, headers={"Origin": shop.url})
        assert (reply.status_code, reply.headers["location"]) == (303, "/")
        yield client


def token_of(client: httpx.Client) -> str:
    """What the forms of a session carry."""
    return sessions.form_token(client.cookies["quietshelf"])


def test_pages_ask_for_a_key(shop: Shop) -> None:
    """People are sent to the sign-in page and back, programs get 401; a wrong key is refused in words."""
    with visitor(shop) as client:
        for path in PAGES:
            reply = client.get(path)
            assert (reply.status_code, reply.headers["location"]) == (303, f"/sign-in?next={path}")
            twin = client.get(path, headers={"Accept": "application/json"})
            assert (twin.status_code, twin.headers["content-type"]) == (401, "application/problem+json")
        wrong = client.post("/sign-in", data={"key": "qs_no_key"}, headers={"Origin": shop.url})
        assert wrong.status_code == 401
        assert "This key is not valid." in wrong.text
        assert "set-cookie" not in wrong.headers
        blind = client.post("/sign-in", data={"key": shop.key("offer")}, headers={"Origin": shop.url})
        assert blind.status_code == 403
        assert "scope read" in blind.text


def test_an_unknown_address_is_a_page_to_people_and_json_to_programs(shop: Shop) -> None:
    """Whoever is signed in keeps the way around; programs that take anything get a problem."""
    with signed_in(shop, shop.key("read")) as reader:
        for path in ("/nowhere", "/shelves/nowhere"):
            reply = reader.get(path)
            assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
            assert 'href="/operations"' in reply.text
            assert "Sign out" in reply.text
            assert reply.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
        assert reader.get("/nowhere", headers={"Accept": "*/*"}).json()["type"] == "urn:quietshelf:problem:not-found"
    with visitor(shop) as client:
        assert "/operations" not in client.get("/nowhere").text


def test_scopes_and_shelves_are_kept(shop: Shop) -> None:
    """Counts are for admins; a key of one shelf sees that shelf alone, and no operations."""
    with signed_in(shop, shop.key("read")) as reader:
        assert [reader.get(path).status_code for path in PAGES] == [200, 200, 200, 200, 403]
        assert "/counts" not in reader.get("/shelves/teas").text
    with signed_in(shop, shop.key("read", shelf="members")) as narrow:
        assert [each["shelf"] for each in narrow.get("/?format=json").json()["living"]] == ["members"]
        assert narrow.get("/shelves/members").status_code == 200
        assert [narrow.get(path).status_code for path in PAGES[1:]] == [404, 404, 404, 403]


def test_the_cookie_is_strict_and_short(shop: Shop) -> None:
    """HttpOnly, SameSite=Strict, an hour; Secure and bound to its host where the browser came by https."""
    with visitor(shop) as client:
        plain = client.post("/sign-in", data={"key": shop.admin}, headers={"Origin": shop.url})
        origin = {"Origin": "https://shop.example", "Sec-Fetch-Site": "same-origin"}
        secure = client.post("/sign-in", data={"key": shop.admin}, headers=origin)
    cookie = plain.headers["set-cookie"]
    assert cookie.startswith("quietshelf=")
    for part in ("HttpOnly", "SameSite=strict", "Max-Age=3600", "Path=/"):
        assert part in cookie
        assert part in secure.headers["set-cookie"]
    assert secure.headers["set-cookie"].startswith("__Host-quietshelf=")
    assert "Secure" in secure.headers["set-cookie"]


def test_sessions_end(tmp_path: Path) -> None:
    """By signing out, by time, and with their key, at once; the database holds no cookie."""
    with opened(tmp_path) as shop:
        with signed_in(shop, shop.admin) as client:
            cookie = client.cookies["quietshelf"]
            with shop.service.store.read() as connection:
                assert cookie not in str(connection.exec_driver_sql("SELECT * FROM sessions").all())
            out = client.post("/sign-out", data={"form_token": token_of(client)}, headers={"Origin": shop.url})
            assert out.headers["location"] == "/sign-in"
            client.cookies.set("quietshelf", cookie)
            assert client.get("/").status_code == 303
        with signed_in(shop, shop.admin) as client:
            shop.clock.time += sessions.SECONDS + 1
            assert client.get("/").status_code == 303
        key = shop.key("read")
        with signed_in(shop, key) as client:
            assert client.get("/").status_code == 200
            with shop.service.store.write() as connection:
                left = connection.exec_driver_sql("SELECT count(*) FROM sessions").scalar_one()
                assert left == 1  # the one that was over is forgotten
                keys.revoke(connection, key.split("_")[1], shop.clock.time)
            assert client.get("/").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "https://elsewhere.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_forms_from_elsewhere_are_refused(shop: Shop, headers: dict[str, str]) -> None:
    """Signing in, signing out and publishing, whatever they carry."""
    with signed_in(shop, shop.admin) as client:
        forms: dict[str, dict[str, Any]] = {
            "/sign-in": {"key": shop.admin},
            "/sign-out": {"form_token": token_of(client)},
            "/shelves/teas/privacy": {"form_token": token_of(client), "public": "yes"},
        }
        for path, fields in forms.items():
            reply = client.post(path, data=fields, headers=headers)
            assert reply.status_code == 403
            assert "form" in reply.text
        assert client.get("/shelves/teas/privacy?format=json").json()["public_since"] is None


def test_forms_need_the_token_of_their_session(shop: Shop) -> None:
    """Even from our own pages; the token of another session does not do."""
    with signed_in(shop, shop.admin) as client, signed_in(shop, shop.admin) as other:
        for token in ("", "0" * 64, token_of(other), "é"):
            fields = {"form_token": token, "public": "yes"}
            reply = client.post("/shelves/teas/privacy", data=fields, headers={"Origin": shop.url})
            assert reply.status_code == 403
        large = client.post("/sign-out", data={"form_token": "x" * 20_000}, headers={"Origin": shop.url})
        assert large.status_code == 413


def test_a_statement_can_be_made_public_and_taken_back(tmp_path: Path) -> None:
    """By an admin, for one shelf; then anybody reads it, and nothing else."""
    with opened(tmp_path) as shop, visitor(shop) as anybody, signed_in(shop, shop.admin) as admin:
        shop.shelf("teas")
        shop.shelf("jams")
        path, origin = "/shelves/teas/privacy", {"Origin": shop.url}
        with signed_in(shop, shop.key("read")) as reader:
            fields = {"form_token": token_of(reader), "public": "yes"}
            assert reader.post(path, data=fields, headers=origin).status_code == 403
        fields = {"form_token": token_of(admin), "public": "yes"}
        assert admin.post(path, data=fields, headers=origin).headers["location"] == path
        assert anybody.get(path).status_code == 200
        assert anybody.get(f"{path}?format=json").json()["shelf"] == "teas"
        for other in ("/shelves/teas", "/shelves/jams/privacy", "/shelves/nowhere/privacy"):
            assert anybody.get(other).status_code == 303
        admin.post(path, data={**fields, "public": "no"}, headers=origin)
        assert anybody.get(path).status_code == 303
        assert shop.client.post(path, data={"public": "yes"}).status_code == 303  # a key in the header needs no form
        assert anybody.get(path).status_code == 200


def test_every_reply_carries_the_headers(shop: Shop) -> None:
    """Pages, twins, refusals, redirects and files; nothing is allowed in line, nothing from elsewhere."""
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert HEADERS["Content-Security-Policy"].startswith("default-src 'none'")
    with visitor(shop) as bare, signed_in(shop, shop.admin) as admin:
        replies = [
            admin.get(path) for path in (*PAGES, "/?format=json", "/shelves/nowhere", "/static/live.js", "/demo")
        ]
        for reply in [*replies, bare.get("/"), bare.get("/sign-in")]:
            for name, value in HEADERS.items():
                if name != "Cache-Control" or "/static/" not in str(reply.url):
                    assert reply.headers[name] == value
        for reply in replies[:5]:
            assert "<style" not in reply.text
            assert ' style="' not in reply.text
            assert "<script>" not in reply.text
        assert bare.get("/static/../routes.py").status_code == bare.get("/static/nothing.css").status_code == 404


def test_signing_in_leads_nowhere_else(shop: Shop) -> None:
    """Only to pages of this service, whatever the address says."""
    with visitor(shop) as client:
        for wanted in (
            "https://elsewhere.example",
            "//elsewhere.example",
            "/\\elsewhere.example",
            "javascript:alert(1)",
        ):
            reply = client.post("/sign-in", data={"key": shop.admin, "next": wanted}, headers={"Origin": shop.url})
            assert reply.headers["location"] == "/"
            assert "elsewhere" not in client.get("/sign-in", params={"next": wanted}).text
