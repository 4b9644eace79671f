"""The reference deployment rehearsed: compose.yaml's processes behind a real nginx with TLS, on a real PostgreSQL."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from tests.deploy.conftest import fresh, postgres_program
from tests.deploy.site import Replica, Site, answers, running, until
from tests.deploy.tools import compose
from tests.pages.browser import browser, demand_browser, sign_in
from tests.serving.service.harness import answered, free_port, offered, stocked
from tests.serving.service.load import Load, check, watched
from tests.serving.service.old_versions import OPEN, put_down
from tests.studies.size import FULL

pytestmark = pytest.mark.xdist_group("site")  # one worker starts it for all
ROUNDS = 10
"""Rolling restarts, and losses of the releaser."""
MAX_BATCH = 60
"""Batches grow, and only a full one is released: after some rounds the visitors of a minute would not fill one."""
ONLY_FULL = pytest.mark.skipif(
    not FULL, reason="a study; tests/serving/service/test_replicas.py does it without a proxy"
)


class Shoppers(Load):
    """Visitors through the proxy, which says 502 or 504 for a replica that has just gone."""

    again = (502, 503, 504)
    _numbers = itertools.count(0, 10)

    def __init__(self, site: Site) -> None:
        super().__init__(site, site)  # type: ignore[arg-type]  # it asks for nothing but clients
        self._first = next(self._numbers)

    def come(self, number: int) -> None:
        """With keys of their own: those of other shoppers would get the offers of these again."""
        super().come(self._first + number)


@pytest.fixture(scope="module")
def site(postgres: Any, role: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Both replicas and the proxy, with a shelf that has been offered."""
    with running(tmp_path_factory.mktemp("site") / "run", fresh(postgres, role)) as made:
        with made.client() as client:
            stocked(client, window=0.5, max_batch=MAX_BATCH)
            assert offered(client, person="first").status_code == 200
        yield made


def test_the_health_check_says_whether_a_replica_is_ready(site: Site) -> None:
    """The command itself, asking this replica and not a proxy of the environment; it fails where nobody answers."""
    port, environment = site.replicas[0].port, {"PATH": os.environ["PATH"], "http_proxy": "http://127.0.0.1:9"}
    about = compose()["services"]["api-1"]["healthcheck"]["test"][2:]

    def checked(port: int) -> int:
        words = [sys.executable, *(each.replace("8080", str(port)) for each in about)]
        return subprocess.run(words, env=environment, check=False, capture_output=True).returncode

    assert (checked(port), checked(free_port())) == (0, 1)


def test_the_proxy_serves_tls_under_the_sub_path(site: Site) -> None:
    """Plain http leads to https, metrics stay inside, headers are whole, and no log tells who answered."""
    with site.client() as client:
        reply = client.get("/docs")
        assert (reply.status_code, reply.headers["strict-transport-security"]) == (200, "max-age=31536000")
        assert 'href="/shelf/static/' in reply.text
        assert client.get("/metrics").status_code == 404
        assert client.get("/openapi.json").json()["servers"] == [{"url": "/shelf"}]
        stocked(client, "calm", window=3600.0)
        offer = offered(client, "calm", retry="a").json()
        assert answered(client, offer["offer"], None).status_code == 204
        lines = b'{"id": "new", "features": [0.1, 0.2]}\n'
        upload = client.put("/v1/shelves/calm/items", content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert upload.json()["added"] == 1
    with httpx.Client(trust_env=False) as plain:
        reply = plain.get(site.plain_url + "/shelf/docs")
        assert (reply.status_code, reply.headers["location"]) == (301, "https://localhost/shelf/docs")
    written = "".join(path.read_text() for path in site.folder.glob("*.log"))
    assert offer["offer"] not in written
    assert "/choice" not in written


@pytest.mark.study
@ONLY_FULL
def test_a_rolling_restart_under_load_loses_nothing(site: Site) -> None:
    """Each replica in turn, through the proxy: all that was acknowledged is there, and nobody is counted twice."""
    load = Shoppers(site)
    with watched(site) as engine:  # type: ignore[arg-type]  # the same, and the database
        with load.running():
            for _ in range(ROUNDS):
                for each in site.replicas:
                    until(site.all_may_release)
                    each.end()
                    each.start()
        check(engine, load)
        with engine.begin() as connection:
            connection.execute(sa.text("DROP TRIGGER keep ON offers; DROP FUNCTION keep; DROP TABLE kept"))
    with site.client() as client:
        assert client.get("/v1/shelves/teas/privacy").json()["unit"] == "person"


@pytest.mark.study
@ONLY_FULL
def test_the_releaser_is_lost_and_the_other_takes_over(site: Site) -> None:
    """By itself, when a batch is due and the lease has run out; offers go on all the while."""
    for _ in range(ROUNDS):
        until(site.all_may_release)
        lost, left = sorted(site.replicas, key=lambda each: not each.readiness()["releases_here"])
        lost.end(signal.SIGKILL)
        load = Shoppers(site)
        with load.running():
            until(partial(_releases, left))
        lost.start()
        assert load.refused == []
        assert load.offers


def _releases(replica: Replica) -> bool:
    return bool(replica.readiness()["releases_here"])


def test_a_person_signs_in_through_the_proxy(site: Site) -> None:
    """In a real browser, by https under the sub-path: links, files, forms and the cookie stay inside it."""
    demand_browser()
    with browser() as chromium:
        context = chromium.new_context(ignore_https_errors=True)
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        sign_in(page, site.url, site.key, "/shelves/teas")
        (cookie,) = context.cookies()
        assert (cookie["name"], cookie["path"], cookie["secure"]) == ("__Secure-quietshelf", "/shelf", True)
        page.get_by_role("link", name="API").click()
        page.locator("#group-about").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(f"{site.url}/sign-in")
        assert context.cookies() == []
    assert [url for url in asked if not url.startswith(f"{site.url}/")] == []


def test_keys_and_certificates_are_rotated_without_a_stop(site: Site) -> None:
    """A new key works before the old one is revoked; the proxy takes a new certificate on a signal."""
    first = site.replicas[0].command("keys", "create", "--scope", "offer", "--name", "old")
    second = site.replicas[1].command("keys", "create", "--scope", "offer", "--name", "new")
    with site.client(first) as old, site.client(second) as new:
        assert [offered(each, person="third").status_code for each in (old, new)] == [200, 200]
        site.replicas[0].command("keys", "revoke", first.split("_")[1])
        until(lambda: offered(old, person="third").status_code == 401)
        assert offered(new, person="third").status_code == 200
    certificate = site.secrets / "tls" / "certificate.pem"
    before = certificate.read_text()
    certificate.unlink()
    site.make_secrets()
    assert certificate.read_text() != before
    site.signal_proxy(signal.SIGHUP)

    def renewed() -> bool:
        with site.client() as client:
            return answers(client)  # trusts the new one alone

    until(renewed)


def test_prometheus_scrapes_both_replicas_and_loads_the_rules(site: Site, tmp_path: Path) -> None:
    """The real program with the deployment's configuration and a key of its own: both targets are up, no rule fails."""
    from tests.deploy.watching import prometheus

    site.secrets.joinpath("metrics-key").chmod(0o600)
    key = site.replicas[0].command("keys", "create", "--scope", "read", "--name", "prometheus")
    site.secrets.joinpath("metrics-key").write_text(key)
    with prometheus(site, tmp_path) as ask:
        until(lambda: [each["value"][1] for each in ask("query?query=up")["result"]] == ["1", "1"])
        until(lambda: all(rule["health"] == "ok" for group in ask("rules")["groups"] for rule in group["rules"]))
        assert ask("query?query=sum(quietshelf_arrivals_total)")["result"]


def asked(name: str, *arguments: str, given: bytes = b"") -> bytes:
    """What a program of PostgreSQL prints."""
    run = [postgres_program(name), *arguments]
    done = subprocess.run(run, check=False, capture_output=True, input=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_backup_is_restored_and_the_promise_says_so(postgres: Any, role: str, tmp_path: Path) -> None:
    """`pg_dump` of the running service, put back after more visitors: nothing is released twice, and it is said."""
    database = fresh(postgres, role)
    with running(tmp_path / "run", database, replicas=1) as site, site.client() as client:
        stocked(client, window=0.5)
        for person in range(20):
            assert offered(client, person=f"early {person}").status_code == 200
        dump = asked("pg_dump", database)
        for person in range(60):
            assert offered(client, person=f"late {person}").status_code == 200
        until(lambda: client.get("/v1/shelves/teas").json()["releases"] >= 1)
        released = client.get("/v1/shelves/teas").json()["releases"]
        site.replicas[0].end()
        asked("psql", "--command", "DROP OWNED BY CURRENT_USER", database)  # as if it were a new database
        asked("psql", "--quiet", "--set", "ON_ERROR_STOP=1", database, given=dump)
        site.replicas[0].start()
        found = client.get("/v1/shelves/teas/privacy").json()
        assert (found["unit"], len(found["notes"]) > 0) == ("visit", True)
        assert len(found["events"]) >= released
        assert site.replicas[0].readiness()["epoch"] == 1
        assert offered(client, person="after").status_code == 200
        assert "differs" not in site.replicas[0].command("ledger")


def test_a_database_of_an_earlier_version_is_upgraded_by_the_first_replica(
    postgres: Any, role: str, tmp_path: Path
) -> None:
    """The old database and its secrets, then the new image: promises stand, open batches are dropped and said."""
    database = fresh(postgres, role)
    put_down(2, database, tmp_path)
    folder = tmp_path / "run"
    site = Site(folder, database)
    try:
        (tmp_path / "secrets").rename(folder / "api-1")
        (site.secrets / "person-key").chmod(0o600)
        (site.secrets / "person-key").write_bytes((folder / "api-1" / "key").read_bytes())
        site.start(replicas=1)
        key = site.replicas[0].command("keys", "create", "--scope", "admin", "--name", "new")
        with site.client(key) as client:
            assert f"{OPEN[2]} visitors of batches" in client.get("/v1/shelves/teas/privacy").json()["notes"][0]
            assert offered(client, person="somebody new").status_code == 200
    finally:
        site.end()


def test_nothing_is_written_outside_the_folder_of_a_replica(site: Site) -> None:
    """The working folder stays empty, so a read-only root file system is enough; the folder is its owner's alone."""
    assert list((site.folder / "empty").iterdir()) == []
    for each in site.replicas:
        names = {path.name for path in each.folder.iterdir()}
        assert names <= {"key", "epoch.json", "lock", "in-use", "admin-key"}
        assert not any(os.stat(path).st_mode & 0o077 for path in each.folder.iterdir() if path.name != "key")
