"""Every file of the deployment is accepted by its own tool or schema, and names only what exists."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import fields
from importlib.resources import files
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
from tests.deploy.tools import DEPLOY, ROOT, compose, documents, program
from tests.serving.service.harness import inline, offered, stocked

from quietshelf.serving.service import settings
from quietshelf.serving.service.settings import ServiceSettings

SCHEMAS = {
    "compose-spec": "deploy/compose.yaml",
    "github-workflows": ".github/workflows/test.yaml",
    "gitlab-ci": ".gitlab-ci.yml",
    "citation-file-format": "CITATION.cff",
}
KUBERNETES = ("1.30", "1.34")
MOST_EXPOSED = 1.5
"""Of systemd's own score from 0 (closed) to 10."""


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_file_fits_its_published_schema(schema: str) -> None:
    """As the maker of each format publishes it; nothing is fetched."""
    published = files("check_jsonschema").joinpath("builtin_schemas", "vendor", f"{schema}.json")
    validator = jsonschema_rs.validator_for(json.loads(published.read_text(encoding="utf-8")))
    (content,) = documents(ROOT / SCHEMAS[schema])
    assert [str(error) for error in validator.iter_errors(content)] == []
    assert not validator.is_valid({**content, "services": 1, "jobs": 1, "stages": 1, "authors": 1})


@pytest.mark.parametrize("version", KUBERNETES)
def test_manifests_fit_the_schemas_of_kubernetes(version: str) -> None:
    """Strictly: a field that Kubernetes does not know is a mistake."""
    (kustomization,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    files = [*kustomization["resources"], "secrets.example.yaml"]
    assert {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} == {*files, "kustomization.yaml"}
    for name in files:
        for each in documents(DEPLOY / "kubernetes" / name):
            kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_find_mistakes() -> None:
    """A misspelt field is refused: the tests above can fail."""
    wrong = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"maxUnavailble": 1}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES[0], strict=True)


def test_units_are_verified_by_systemd(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, and finds next to nothing that the service could reach."""
    analyze = program("systemd-analyze")
    for unit in (DEPLOY / "systemd").glob("quietshelf*"):
        text = unit.read_text(encoding="utf-8")
        (tmp_path / unit.name).write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    for name in ("quietshelf.service", "quietshelf-backup.timer", "quietshelf-backup.service"):
        done = subprocess.run([analyze, "verify", str(tmp_path / name)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    score = [analyze, "security", "--offline=true", f"--threshold={round(10 * MOST_EXPOSED)}"]
    done = subprocess.run([*score, str(tmp_path / "quietshelf.service")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_settings_of_the_deployment_are_settings() -> None:
    """Names and values, wherever they are set."""
    settings.read(DEPLOY / "systemd" / "settings.toml", {})
    known = {f"QUIETSHELF_{each.name.upper()}" for each in fields(ServiceSettings)}
    named: set[str] = set()
    for path in (ROOT / "Containerfile", *DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.service")):
        named |= set(re.findall(r"QUIETSHELF_[A-Z_]+", path.read_text(encoding="utf-8")))
    assert {"QUIETSHELF_ROOT_PATH", "QUIETSHELF_SECRETS"} <= named <= known


def test_replicas_differ_in_their_own_folder_alone() -> None:
    """One key for all, an epoch file for each; read-only, without capabilities, not root, as the image says."""
    first, second = (compose()["services"][name] for name in ("api-1", "api-2"))
    differ = {name for name in first if first[name] != second[name]}
    assert differ == {"hostname", "volumes", "depends_on", "networks"}
    assert not set(first["volumes"]) & set(second["volumes"])
    image = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (pod,) = [each for each in documents(DEPLOY / "kubernetes" / "api.yaml") if each["kind"] == "StatefulSet"]
    inside: Any = pod["spec"]["template"]["spec"]
    (container,) = inside["containers"]
    assert "USER 10001:10001" in image
    assert (first["user"], inside["securityContext"]["runAsUser"]) == ("10001:10001", 10001)
    assert (first["read_only"], container["securityContext"]["readOnlyRootFilesystem"]) == (True, True)
    assert (first["cap_drop"], container["securityContext"]["capabilities"]["drop"]) == (["ALL"], ["ALL"])
    assert first["command"][:2] == container["args"][:2] == ["serve", "--config"]
    keys = {each.get("target") for each in first["secrets"]}
    assert "/var/lib/quietshelf/key" in keys & {each["mountPath"] for each in container["volumeMounts"]}


def test_replicas_keep_the_address_that_the_proxy_learnt() -> None:
    """It resolves names at its start alone: each server it names has an address that no other container is given."""
    named = re.findall(r"server (\S+):8080", (DEPLOY / "nginx" / "quietshelf.conf").read_text(encoding="utf-8"))
    (pool,) = compose()["networks"]["inside"]["ipam"]["config"]
    given = [ip_address(compose()["services"][name]["networks"]["inside"]["ipv4_address"]) for name in named]
    assert len(set(given)) == len(given) == 2
    assert all(each in ip_network(pool["subnet"]) and each not in ip_network(pool["ip_range"]) for each in given)


def queries() -> list[str]:
    """Every expression that the alerts and the dashboard ask of Prometheus."""
    (alerts,) = documents(DEPLOY / "prometheus" / "alerts.yaml")
    dashboard = json.loads((DEPLOY / "grafana" / "quietshelf.json").read_text(encoding="utf-8"))
    rules = [rule["expr"] for group in alerts["groups"] for rule in group["rules"]]
    return rules + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_alerts_and_dashboard_ask_for_metrics_that_exist(tmp_path: Path) -> None:
    """Names, labels and routes as a running service shows them."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as client:
        stocked(client)
        offered(client)
        text = client.get("/metrics").text
    shown = set(re.findall(r"^(quietshelf_\w+)", text, re.MULTILINE))
    asked = [name for query in queries() for name in re.findall(r"quietshelf_\w+", query)]
    assert asked
    assert set(asked) <= shown
    for query in queries():
        for route in re.findall(r'route="([^"]+)"', query):
            assert f'route="{route}"' in text
        for labels in re.findall(r"by \(([^)]*)\)", query):
            assert {each.strip() for each in labels.split(",")} <= {*re.findall(r"(\w+)=\"", text), "le"}


def test_prometheus_accepts_rules_and_configuration(tmp_path: Path) -> None:
    """`promtool check`: rules, and the configuration with its files where the test has them."""
    promtool = program("promtool")
    text = (DEPLOY / "prometheus" / "prometheus.yaml").read_text(encoding="utf-8")
    (tmp_path / "key").write_text("qs_x")
    text = text.replace("/run/secrets/metrics-key", str(tmp_path / "key")).replace("/etc/prometheus", str(tmp_path))
    (tmp_path / "prometheus.yaml").write_text(text)
    (tmp_path / "alerts.yaml").write_text((DEPLOY / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    check = [promtool, "check", "config", str(tmp_path / "prometheus.yaml")]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_the_image_holds_what_the_lock_says_and_no_secret() -> None:
    """By hashes, from the lock of the service; the build sees no file but those it copies."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements/service.lock" in text
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    allowed = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")}
    assert sources == allowed
    assert (ROOT / ".containerignore").read_text() == (ROOT / ".dockerignore").read_text()
    lock = (ROOT / "requirements" / "service.lock").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    assert {"fastapi", "psycopg", "cryptography", "uvicorn"} <= pinned
    assert not pinned & {"pytest", "matplotlib", "playwright"}
