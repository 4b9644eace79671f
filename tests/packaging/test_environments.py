"""Clean environments: each extra alone, each Python that is there. Slow, so the whole matrix is a study."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FULL = os.environ.get("QUIETSHELF_STUDY") == "full"
TRIALS = {
    "": "quietshelf simulate --policy quiet,greedy --horizon 60 --replicates 2 --workers 1 --json",
    "client": "python -c 'from quietshelf.client import Client; print(Client)'",
    "service": "python -c 'import quietshelf.service.app; print(quietshelf.service.app)'",
    "data": "quietshelf expedia sample made-up.csv",
    "report": "quietshelf simulate --policy quiet --horizon 60 --replicates 2 --workers 1 --curve curve.svg",
    "experiments": "quietshelf reproduce privacy-level --replicates 1 --horizon 60 --workers 1 --json",
    "scale": "python -c 'import distributed; from quietshelf.experiments.engine import Cluster; print(Cluster)'",
}
"""What each extra is for, tried in an environment that has nothing else; the empty one is the package itself."""
OTHERS = ("3.12", "3.13")


def interpreter(version: str) -> str | None:
    """A Python of that version, on the path or among those of pyenv."""
    candidates = [f"python{version}", *sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python3"))]
    return next((found for name in candidates if (found := shutil.which(str(name)))), None)


def environment(folder: Path, python: str | None, extra: str) -> dict[str, str]:
    """A new virtual environment with the package and one extra; its variables."""
    if python is None:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
    subprocess.run(pip, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": ""})
    keep = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**keep, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def tried(folder: Path, env: dict[str, str], command: str) -> str:
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)  # noqa: S602 - our own words
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.study
@pytest.mark.skipif(not FULL, reason="downloads packages for many minutes: `make study` runs it")
@pytest.mark.parametrize("extra", list(TRIALS))
def test_extra_works_alone(extra: str, tmp_path: Path) -> None:
    """The package installs into an empty environment with this extra only, passes its doctor and does its work."""
    env = environment(tmp_path / "env", None, extra)
    assert "Everything that is required works" in tried(tmp_path, env, "quietshelf doctor")
    tried(tmp_path, env, TRIALS[extra])


@pytest.mark.study
@pytest.mark.skipif(not FULL, reason="downloads packages for many minutes: `make study` runs it")
@pytest.mark.parametrize("version", OTHERS)
def test_other_pythons_serve_learn_and_report(version: str, tmp_path: Path) -> None:
    """Where another supported Python is at hand: install, doctor, simulate with a figure, a shelf saved and loaded."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    env = environment(tmp_path / "env", python, "report")
    assert f"{version}." in tried(tmp_path, env, "python --version")
    assert "Everything that is required works" in tried(tmp_path, env, "quietshelf doctor")
    tried(tmp_path, env, TRIALS["report"])
    code = (
        "import numpy as np; from quietshelf import Shelf; s = Shelf(items=3, dim=1, capacity=1, rho=1.0)\\n"
        "for _ in range(20): s.observe(s.offer(np.eye(3, 1)).id, None)\\n"
        "s.save('a.shelf'); print(Shelf.load('a.shelf').privacy().rho)"
    )
    assert float(tried(tmp_path, env, f'printf "{code}" | python -')) == pytest.approx(1.0)


def test_every_extra_is_tried() -> None:
    """A new extra must have a trial here; `bench` holds other libraries, which the benchmarks try."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(extras) - {"bench"} == set(TRIALS) - {""}


def test_metadata_names_the_pythons_that_are_tried() -> None:
    """Classifiers and the trials agree."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line}
    assert named == {"3.11", *OTHERS}
    assert sys.version_info >= (3, 11)
