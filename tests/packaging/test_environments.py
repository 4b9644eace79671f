"""Clean environments: each extra alone, each Python that is there. Slow, so the whole matrix is a study."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from tests.studies.size import FULL

ROOT = Path(__file__).parents[2]
TRIALS = {
    "": "quietshelf simulate --policy quiet,greedy --horizon 60 --replicates 2 --workers 1 --json",
    "client": "python -c 'from quietshelf.client import Client; print(Client)'",
    "service": "python -c 'import quietshelf.serving.service.http.app; print(quietshelf.serving.service.http.app)'",
    "data": "quietshelf expedia sample sample.csv",
    "otel": "python -c 'from quietshelf.serving.service.tracing import tracer; print(tracer())'",
    "report": "quietshelf simulate --policy quiet --horizon 60 --replicates 2 --workers 1 --curve curve.svg",
    "experiments": "quietshelf reproduce privacy-level --replicates 1 --horizon 60 --workers 1 --json",
    "scale": "python -c 'import distributed, quietshelf.research.experiments.engine as made; print(made.Cluster)'",
}
"""What each extra is for, tried in an environment that has nothing else; the empty one is the package itself."""
OTHERS = ("3.12", "3.13")
SHOP = """
import numpy as np
from quietshelf import Shelf
shelf = Shelf(items=3, dim=1, capacity=1, rho=1.0)
for _ in range(20):
    shelf.choose(shelf.offer(np.eye(3, 1)).id, None)
shelf.save("a.shelf")
print(Shelf.load("a.shelf").privacy().rho)
"""


def interpreter(version: str) -> str | None:
    """A Python of that version that runs: on the path, or among those of pyenv, whose shims may lead nowhere."""
    for name in (f"python{version}", *sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python3"))):
        found = shutil.which(str(name))
        if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def environment(folder: Path, python: str | None, extra: str) -> dict[str, str]:
    """A new virtual environment with the package and one extra; its variables."""
    if python is None:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    subprocess.run(pip, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": ""})
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**keep, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def tried(folder: Path, env: dict[str, str], command: str) -> str:
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)  # noqa: S602 - our own words
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.study
@pytest.mark.parametrize("extra", list(TRIALS))
def test_extra_works_alone(extra: str, tmp_path: Path) -> None:
    """The package installs into an empty environment with this extra only, passes its doctor and does its work.

    In reduced form nothing is installed: the trial itself runs in the environment of the tests.
    """
    if not FULL:
        here = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        tried(tmp_path, here, TRIALS[extra])
        return
    env = environment(tmp_path / "env", None, extra)
    assert "Everything required works" in tried(tmp_path, env, "quietshelf doctor")
    tried(tmp_path, env, TRIALS[extra])


@pytest.mark.study
@pytest.mark.parametrize("version", OTHERS)
def test_other_pythons_serve_learn_and_report(version: str, tmp_path: Path) -> None:
    """Where another supported Python is at hand: install, doctor, simulate with a figure, a shelf saved and loaded.

    In reduced form, and where it is not at hand, every file is read with the grammar of the oldest supported one.
    """
    python = interpreter(version)
    if not FULL or python is None:
        for path in (ROOT / "src").rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 11))
        return
    env = environment(tmp_path / "env", python, "report")
    assert f"{version}." in tried(tmp_path, env, "python --version")
    assert "Everything required works" in tried(tmp_path, env, "quietshelf doctor")
    tried(tmp_path, env, TRIALS["report"])
    (tmp_path / "shop.py").write_text(SHOP)
    assert float(tried(tmp_path, env, "python shop.py")) == pytest.approx(1.0)


def test_every_extra_is_tried() -> None:
    """A new extra must have a trial here; `bench` holds other libraries, which the benchmarks try."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras) - {"bench"} == set(TRIALS) - {""}


def test_metadata_names_the_pythons_that_are_tried() -> None:
    """Classifiers and the trials agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line}
    assert named == {"3.11", *OTHERS}
    assert sys.version_info >= (3, 11)
