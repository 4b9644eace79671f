"""The commands of the Containerfile's build stage, run without a container engine in a folder of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.tools import ROOT
from tests.studies.size import FULL


def build_stage(place: Path) -> list[list[str]]:
    """Its COPY and RUN steps in their order, with the environment at another place and this Python."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
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
