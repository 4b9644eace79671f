"""The Containerfile: its build stage run in a folder of its own, what it leaves, its user and its health check."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.deploy.tools import ROOT, compose
from tests.studies.size import FULL

from quietshelf import __version__


def containerfile() -> str:
    """Its text, one line per instruction."""
    return (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def needed(*wanted: str) -> set[str]:
    """The distributions that requirements need on this machine, themselves among them."""
    found: set[tuple[str, str]] = set()
    todo = [Requirement(each) for each in wanted]
    while todo:
        each = todo.pop()
        name, extras = canonicalize_name(each.name), each.extras or {""}
        new = [(name, extra) for extra in extras if (name, extra) not in found]
        found |= set(new)
        try:
            asks = [Requirement(line) for line in distribution(name).requires or []] if new else []
        except PackageNotFoundError:  # not for this machine
            continue
        todo += [it for it in asks if it.marker is None or any(it.marker.evaluate({"extra": x}) for _, x in new)]
    return {name for name, _ in found}


def build_stage(place: Path) -> list[list[str]]:
    """Its COPY and RUN steps in their order, with the environment at another place and this Python."""
    text = containerfile()
    stage = text.partition("AS build\n")[2].partition("\nFROM ")[0]
    steps = re.findall(r"^(COPY|RUN) (.+)$", stage, re.MULTILINE)
    return [[kind, what.replace("/opt/quietshelf", str(place))] for kind, what in steps]


@pytest.mark.study
def test_the_build_stage_makes_an_environment_that_serves(tmp_path: Path) -> None:
    """From the lock by hashes, then the package, then without what only builds; in reduced form a shell reads it."""
    steps = build_stage(tmp_path / "env")
    assert [kind for kind, _ in steps] == ["COPY", "RUN", "COPY", "COPY", "RUN"]
    folder = tmp_path / "build"
    folder.mkdir()
    for kind, what in steps:
        if kind == "RUN":
            words = what.replace("python -m venv", f"{sys.executable} -m venv")
            shell = ["/bin/sh", "-euc" if FULL else "-nc", words]
            done = subprocess.run(shell, cwd=folder, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            continue
        *sources, target = what.split()
        for source in sources:
            place = folder / target / source if target.endswith("./") else folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, place)
    if FULL:
        asked = "import quietshelf.serving.service.http.app, quietshelf; print(quietshelf.__file__)"
        python = [str(tmp_path / "env" / "bin" / "python"), "-c", asked]
        found = subprocess.run(python, cwd="/", check=True, capture_output=True, text=True, env={})
        assert Path(found.stdout.strip()).is_relative_to(tmp_path / "env")
        assert not (tmp_path / "env" / "bin" / "pip").exists()
        left = next((tmp_path / "env").glob("lib/python*/site-packages"))
        made = {canonicalize_name(path.name.split("-")[0]) for path in left.glob("*.dist-info")}
        assert made == needed("quietshelf[service]")
        assert list(left.rglob("tests")) == []


def test_what_only_builds_leaves_the_image() -> None:
    """Of the lock, what the service does not need at run time is uninstalled, with pip; and nothing else."""
    lock = (ROOT / "requirements" / "service.lock").read_text(encoding="utf-8")
    here = [Requirement(line.rstrip(" \\")) for line in lock.splitlines() if "==" in line]
    pinned = {canonicalize_name(each.name) for each in here if each.marker is None or each.marker.evaluate()}
    (gone,) = re.findall(r"pip uninstall --yes --quiet ([a-z -]+)", containerfile())
    assert set(gone.split()) - {"pip", "setuptools"} == pinned - needed("quietshelf[service]")


def test_the_folders_belong_to_the_user_that_runs() -> None:
    """By number, user and group: a group of another number would not be that of `USER`, compose and Kubernetes."""
    text = containerfile()
    (runs,) = re.findall(r"^USER (\d+:\d+)$", text, re.MULTILINE)
    ((user, group),) = re.findall(r"install --directory --owner (\d+) --group (\d+) --mode 0700", text)
    assert f"{user}:{group}" == runs
    assert f"groupadd --gid {group} " in text
    assert f"useradd --uid {user} --gid {group} " in text


def test_the_image_names_this_version() -> None:
    """By the label that registries show."""
    assert f'org.opencontainers.image.version="{__version__}"' in containerfile()


def test_compose_has_the_health_check_of_the_image() -> None:
    """Word for word: an image in the OCI format has none, and the second replica waits for a healthy first one."""
    ((options, command),) = re.findall(r"^HEALTHCHECK (.+?) +CMD (.+)$", containerfile(), re.MULTILINE)
    asked = dict(re.findall(r"--([a-z-]+)=(\S+)", options))
    for name in ("api-1", "api-2"):
        about = compose()["services"][name]["healthcheck"]
        assert about.pop("test") == ["CMD", *json.loads(command)]
        assert {key.replace("_", "-"): str(value) for key, value in about.items()} == asked
