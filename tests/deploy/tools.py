"""What the tests of the deployment need from the machine, and where its files are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PACKAGES = {"nginx": "nginx", "promtool": "prometheus", "prometheus": "prometheus", "systemd-analyze": "systemd"}
"""Programs, and the packages of Debian that hold them; `.ci/run` installs them."""


def program(name: str) -> str:
    """The path of a program; skip, visibly, where it is not installed: in CI it has to be."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
    if found is not None:
        return found
    words = f"no {name}: install Debian's {PACKAGES.get(name, name)}"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


def documents(path: Path) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each is not None]


def compose() -> dict[str, Any]:
    """The reference deployment."""
    (found,) = documents(DEPLOY / "compose.yaml")
    return found
