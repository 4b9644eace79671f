"""A real Prometheus with the deployment's configuration."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.deploy.site import REPLICAS, Site, until
from tests.deploy.tools import DEPLOY, program
from tests.serving.service.harness import free_port


@contextmanager
def prometheus(site: Site, folder: Path) -> Iterator[Callable[[str], Any]]:
    """How to ask it, while it watches the site; it looks every second and not every fifteen."""
    run, port = program("prometheus"), free_port()
    text = (DEPLOY / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8")
    changes = {"/run/secrets": str(site.secrets), "/etc/prometheus": str(DEPLOY / "prometheus"), "15s": "1s"}
    changes |= {f"{name}:8080": f"127.0.0.1:{each.port}" for name, each in zip(REPLICAS, site.replicas, strict=True)}
    for inside, place in changes.items():
        assert inside in text
        text = text.replace(inside, place)
    (folder / "prometheus.yaml").write_text(text)
    options = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([run, *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"

    def ask(path: str) -> Any:
        return httpx.get(f"{url}/api/v1/{path}", timeout=10, trust_env=False).json()["data"]

    def ready() -> bool:
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return httpx.get(f"{url}/-/ready", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(ready, folder / "log")
        yield ask
    finally:
        process.terminate()
        process.wait(20)
