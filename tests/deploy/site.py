"""The reference deployment as processes: compose.yaml's commands, environment, secrets and proxy, without a container.

Addresses and paths inside containers become ports and folders of this machine; nothing else is changed. What that
cannot show is said in docs/deploying.md: users, read-only file systems, capabilities and networks are an engine's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import sqlalchemy as sa
from tests.deploy.tools import DEPLOY, ROOT, compose, program
from tests.serving.service.harness import free_port

from quietshelf.serving.service.database import schema

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/quietshelf.conf;
}}
"""
REPLICAS = ("api-1", "api-2")


def image_environment() -> dict[str, str]:
    """What the Containerfile sets."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^ENV (.+)$", text, re.MULTILINE)
    return dict(each.split("=", 1) for each in shlex.split(line))


class Replica:
    """One API service of compose.yaml."""

    def __init__(self, site: Site, name: str) -> None:
        self._site, self._name, self.port = site, name, free_port()
        self.folder = site.folder / name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        """Run its command, and wait until it is healthy."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if not (self.folder / "key").exists():
            shutil.copy(self._site.secrets / "person-key", self.folder / "key")
        about = compose()["services"][self._name]
        with (self._site.folder / f"{self._name}.log").open("ab") as log:
            self._process = self._run(about["command"], about["environment"], log, log)
        if wait:
            self.wait()

    def wait(self) -> None:
        """Until it is ready."""
        until(self._ready, self._site.folder / f"{self._name}.log")

    def readiness(self) -> dict[str, Any]:
        """What its /readyz says."""
        found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=10).json()
        return found

    def command(self, *arguments: str) -> str:
        """What `docker compose exec` would print."""
        about = compose()["services"][self._name]
        out = subprocess.PIPE
        done = self._run([*arguments, "--config", about["command"][-1]], about["environment"], out, out)
        said, complaint = done.communicate(timeout=60)
        assert done.returncode == 0, complaint
        return said.decode().strip()

    def end(self, sign: int = signal.SIGTERM) -> None:
        """Stop it, and wait for the grace period at most."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(sign)
            self._process.wait(40)

    def _run(self, command: list[str], environment: dict[str, str], out: Any, err: Any) -> subprocess.Popen[bytes]:
        inside = {**image_environment(), **environment}
        given = {name: self._site.outside(value, self) for name, value in inside.items()}
        given |= {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path[1:])}
        arguments = [self._site.outside(part, self) for part in command]
        folder = self._site.folder / "empty"
        return subprocess.Popen(
            [sys.executable, "-m", "quietshelf", *arguments],
            env=given,
            cwd=folder,
            stdout=out,
            stderr=err,
        )

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._site.folder / f"{self._name}.log").read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


class Site:
    """Both replicas and the proxy on one PostgreSQL."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.secrets, self.database = folder, folder / "secrets", database
        (folder / "empty").mkdir(parents=True)
        self.make_secrets()
        (self.secrets / "settings.toml").chmod(0o600)
        (self.secrets / "settings.toml").write_text(f"database = {json.dumps(database)}\n")
        self.port, self._plain = free_port(), free_port()
        self.replicas = [Replica(self, name) for name in REPLICAS]
        self._proxy: subprocess.Popen[bytes] | None = None

    def make_secrets(self) -> None:
        """Those that are missing, as an operator makes them."""
        make = ["/bin/sh", str(DEPLOY / "compose" / "secrets.sh"), str(self.secrets)]
        subprocess.run(make, check=True, capture_output=True)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}/shelf"

    @property
    def plain_url(self) -> str:
        return f"http://localhost:{self._plain}"

    @property
    def key(self) -> str:
        return (self.secrets / "admin-key").read_text().strip()

    def outside(self, text: str, replica: Replica) -> str:
        """A path or address of a container as one of this machine."""
        inside = {"/run/secrets": self.secrets, "/var/lib/quietshelf": replica.folder, "0.0.0.0": "127.0.0.1"}  # noqa: S104
        for name, place in inside.items():
            text = text.replace(name, str(place))
        return str(replica.port) if text == "8080" else text

    def client(self, key: str | None = None) -> httpx.Client:
        """Somebody with a key, by https through the proxy, who trusts this certificate alone."""
        trusted = ssl.create_default_context(cafile=self.secrets / "tls" / "certificate.pem")
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=self.url + "/", headers=headers, verify=trusted, timeout=20)

    def start(self, replicas: int = 2) -> None:
        """As `docker compose up`: the second replica when the first is healthy, the proxy when both are."""
        for each in self.replicas[:replicas]:
            each.start()
        self._start_proxy()

    def all_may_release(self) -> bool:
        """Whether each replica knows of every release: from then on one of them may be lost."""
        engine = sa.create_engine(self.database.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect() as connection:
            found = connection.execute(sa.select(schema.witnesses.c.member)).scalars().all()
        engine.dispose()
        return len(found) == len(self.replicas) and all(found)

    def signal_proxy(self, sign: int) -> None:
        """What `nginx -s` does."""
        assert self._proxy is not None
        self._proxy.send_signal(sign)

    def end(self) -> None:
        """Everything, in whatever state it is."""
        for each in self.replicas:
            each.end(signal.SIGKILL)
        if self._proxy is not None and self._proxy.poll() is None:
            self._proxy.terminate()
            self._proxy.wait(20)

    def _start_proxy(self) -> None:
        text = (DEPLOY / "nginx" / "quietshelf.conf").read_text(encoding="utf-8")
        changes = {
            "listen 80;": f"listen 127.0.0.1:{self._plain};",
            "listen 443 ssl;": f"listen 127.0.0.1:{self.port} ssl;",
            "/etc/nginx/tls": str(self.secrets / "tls"),
        }
        changes |= {
            f"{name}:8080": f"127.0.0.1:{each.port}" for name, each in zip(REPLICAS, self.replicas, strict=True)
        }
        for inside, place in changes.items():
            assert inside in text
            text = text.replace(inside, place)
        (self.folder / "quietshelf.conf").write_text(text)
        (self.folder / "nginx.conf").write_text(NGINX.format(folder=self.folder))
        run = [program("nginx"), "-e", "stderr", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]
        with (self.folder / "nginx.log").open("ab") as log:
            self._proxy = subprocess.Popen(run, stdout=log, stderr=log)
        with self.client() as client:
            until(lambda: answers(client), self.folder / "nginx.log")


def answers(client: httpx.Client) -> bool:
    """Whether the service answers through the proxy."""
    try:
        return client.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def until(holds: Callable[[], bool], log: Path | None = None, seconds: float = 60.0) -> None:
    """Wait for it."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, log.read_text() if log is not None else "it did not come to that"
        time.sleep(0.05)


@contextmanager
def running(folder: Path, database: str, replicas: int = 2) -> Iterator[Site]:
    """A site that is up, and gone afterwards."""
    site = Site(folder, database)
    try:
        site.start(replicas)
        yield site
    finally:
        site.end()
