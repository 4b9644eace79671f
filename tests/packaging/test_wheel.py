"""Wheel and sdist: built from this tree, complete, typed, and importable on their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from quietshelf import __version__

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "quietshelf"
CONSUMER = """
from quietshelf import Shelf, __version__, contestant, simulate
from quietshelf.privacy.accounting import epsilon_of
from quietshelf.model.assortment import best
from quietshelf.model.choice import fit
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Result

shelf = Shelf(items=3, dim=2, capacity=1, rho=1.0)
offer = shelf.offer([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
shelf.choose(offer.id, offer.items[0])
words: str = shelf.privacy(delta=1e-6).words
result: Result = simulate(Synthetic(), [contestant("quiet", rho=1.0)], horizon=2, replicates=1, seed=0)
spent: float = epsilon_of(1.0, 1e-6)
reveal_type(shelf.estimate().releases)
reveal_type(best([1.0], [1.0], capacity=1).chosen)
reveal_type(fit([[[1.0]]], [0]).converged)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the wheel's content, as an installer lays it out, and nothing of this checkout."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(folder)  # noqa: S202 - built a moment ago
    return folder


def shipped() -> set[str]:
    """Every file of the package that a user needs, relative to it."""
    every = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE.parent).as_posix() for path in every}


def test_wheel_has_every_file_of_the_package(built: Path) -> None:
    """Code, studies, migrations, pages and the mark that says it is typed; nothing of the tests."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == shipped()
    assert "quietshelf/py.typed" in inside
    assert f"quietshelf-{__version__}.dist-info/licenses/LICENSE" in names


def test_sdist_has_what_a_packager_needs(built: Path) -> None:
    """Source, tests, documentation, examples, lock files, licence: enough to build and test without the repository."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"src/{name}" for name in shipped()} <= names
    for needed in ("pyproject.toml", "LICENSE", "README.md", "Makefile", "examples/own_policy.py", "tests/conftest.py"):
        assert needed in names
    assert {".ci/run", ".pre-commit-config.yaml", "Containerfile", "deploy/compose.yaml"} <= names
    assert "clients/typescript/package-lock.json" in names
    assert not any(name.startswith((".venv", "out/")) or "node_modules" in name or "/dist/" in name for name in names)


def test_wheel_works_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    """The command runs from the wheel's files alone: data files are found, figures are made."""
    env = {**os.environ, "PYTHONPATH": str(installed)}
    where = [sys.executable, "-c", "import quietshelf; print(quietshelf.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(installed)
    code = "from quietshelf.research.experiments import names, study_named as s; print([s(n).name for n in names()])"
    studies = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert "privacy-level" in studies.stdout


def consumer_python(folder: Path, installed: Path) -> Path:
    """An environment in which the wheel is installed, and what it depends on borrowed from this one."""
    venv.create(folder)
    site = next(folder.glob("lib/python*/site-packages"))
    for part in installed.iterdir():
        shutil.copytree(part, site / part.name)
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def test_types_are_complete_for_a_strict_consumer(installed: Path, tmp_path: Path) -> None:
    """`mypy --strict` reads the wheel's own annotations: no Any where a type is promised, no missing stub."""
    (tmp_path / "consumer.py").write_text(CONSUMER)
    python = consumer_python(tmp_path / "env", installed)
    check = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python), "consumer.py"]
    env = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(check, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    revealed = [line for line in done.stdout.splitlines() if "Revealed type" in line]
    assert len(revealed) == 3
    assert not any('"Any"' in line for line in revealed)
    assert "int" in revealed[0]
