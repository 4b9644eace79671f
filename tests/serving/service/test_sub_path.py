"""The service under a path of somebody else's site, with a proxy that passes the path on and one that takes it away."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serving.service.harness import answered, inline, like, offered, stocked

from quietshelf.serving.service.http.app import make_app
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.settings import ServiceSettings

ROOT = "/shop/shelf"


def below(client: httpx.Client) -> httpx.Client:
    """The same caller, through a proxy that passes the whole path on."""
    found = like(client, client.headers["Authorization"])
    found.base_url = client.base_url.join(ROOT + "/")
    return found


def test_every_address_works_with_the_path_and_without(tmp_path: Path) -> None:
    """Keys, limits and routes see the same address: what needs a key needs one on both ways."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, root_path=ROOT) as client:
        for caller in (client, below(client)):
            stocked(caller, "teas" if caller is client else "herbs")
            offer = offered(caller).json()
            assert answered(caller, offer["offer"], None).status_code == 204
            assert caller.get("/openapi.json").json()["servers"] == [{"url": ROOT}]
            assert caller.get("/readyz").status_code == 200
        bare = like(client, None)
        for path in ("/v1/shelves", "/metrics", f"{ROOT}/v1/shelves", f"{ROOT}/metrics"):
            assert bare.get(path).status_code == 401
        assert bare.get(f"{ROOT}{ROOT}/healthz").status_code == 404
        assert bare.get(f"{ROOT}er/healthz").status_code == 404
        answers = bare.post(f"{ROOT}/v1/offers/x/choice", content=b"x" * 20_000)
        assert answers.status_code == 401


def test_links_redirects_and_the_cookie_carry_the_path(tmp_path: Path) -> None:
    """On every page, whichever way it was asked for; the cookie is not sent to the rest of the site."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, root_path=ROOT) as client:
        stocked(client)
        pages = ("/", "/shelves/teas", "/shelves/teas/privacy", "/shelves/teas/counts", "/operations", "/docs", "/no")
        for path in (*pages, *(ROOT + each for each in pages)):
            text = client.get(path, headers={"Accept": "text/html"}).text
            links = re.findall(r'(?:href|src|action)="([^#"][^"]*)"', text)
            assert links
            assert [link for link in links if not link.startswith(f"{ROOT}/")] == []
        bare = like(client, None)
        asked = bare.get(f"{ROOT}/shelves/teas", headers={"Accept": "text/html"})
        assert asked.headers["location"] == f"{ROOT}/sign-in?next=/shelves/teas"
        origin = {"Origin": "https://shop.example", "Sec-Fetch-Site": "same-origin"}
        fields = {"key": client.headers["Authorization"].partition(" ")[2], "next": "/shelves/teas"}
        inside = bare.post("/sign-in", data=fields, headers=origin)
        assert inside.headers["location"] == f"{ROOT}/shelves/teas"
        cookie = inside.headers["set-cookie"]
        assert cookie.startswith("__Secure-quietshelf=")
        assert f"Path={ROOT};" in cookie


@pytest.mark.parametrize("root", ["shelf", "/shelf/", "/", "/../x", "/a b", "//elsewhere.example", '/"><script>'])
def test_a_path_that_would_mislead_is_refused(root: str) -> None:
    """It goes into links and redirects as it stands."""
    with pytest.raises(ValueError, match="root_path must begin with /"):
        ServiceSettings(root_path=root)


def test_a_path_like_our_own_is_refused(tmp_path: Path) -> None:
    """A proxy that takes it away would make /shelves/teas of two addresses."""
    place: dict[str, Any] = {"database": f"sqlite:///{tmp_path}/shop.db", "secrets": str(tmp_path / "secrets")}
    service = Service(ServiceSettings(**place, root_path="/shelves"))
    with pytest.raises(ValueError, match="part of the service's own addresses"):
        make_app(service).build_middleware_stack()
    service.store.close()


def test_no_redirect_leads_to_another_scheme_or_host(tmp_path: Path) -> None:
    """An address with a slash too many is not found: a redirect by the framework would name http, and lose the path."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        for path in ("/docs/", "/v1/shelves/", "/healthz/"):
            assert client.get(path).status_code == 404
