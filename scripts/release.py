"""`make release`: build wheel, sdist, SBOM and checksums in dist/, twice, and check that both builds are identical.

Publishes nothing; CONTRIBUTING.md has the checklist.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = "requirements/service.lock"
"""What the container installs, and the SBOM lists."""


def epoch() -> str:
    """The timestamp of the archives: the last commit's, unless the environment sets one."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    return _run("git", "log", "-1", "--format=%ct").strip()


def build(folder: Path) -> list[Path]:
    """Wheel and sdist."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder), epoch=epoch())
    return sorted(folder.iterdir())


def sbom(folder: Path, version: str) -> Path:
    """Write the SBOM in CycloneDX: the service's locked dependencies by name, version and hash."""
    path = folder / f"quietshelf-{version}.cdx.json"
    make = ("-m", "cyclonedx_py", "requirements", LOCK, "--pyproject", "pyproject.toml", "--output-reproducible")
    _run(sys.executable, *make, "--output-format", "JSON", "--output-file", str(path))
    return path


def differences(one: list[Path], other: list[Path]) -> list[str]:
    """Names of the files that differ between two builds."""
    first, second = ({path.name: _digest(path) for path in each} for each in (one, other))
    return sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def mistakes(files: list[Path]) -> list[str]:
    """Problems of a build: wrong version, missing metadata, files that do not belong."""
    version = re.search(r'"(.+)"', (ROOT / "src/quietshelf/__about__.py").read_text(encoding="utf-8").partition("=")[2])
    wheel, sdist = (next(path for path in files if path.name.endswith(end)) for end in (".whl", ".tar.gz"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    about = HeaderParser().parsestr(text)
    with tarfile.open(sdist) as packed:
        names += packed.getnames()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = [f"{name} is missing" for name in ("Summary", "License-Expression", "Requires-Python") if name not in about]
    if version is None or about["Version"] != version[1]:
        found.append(f"the version must be that of __about__.py, got {about['Version']}")
    if set(about.get_all("Provides-Extra", [])) != set(project["optional-dependencies"]):
        found.append("the extras must be those of pyproject.toml")
    if not about.get_payload():
        found.append("the description must be the README")
    unwanted = re.compile(r"__pycache__|\.pyc$|(^|/)\.(git|venv|env)(/|$)|compose/secrets/|\.db$")
    return found + [f"{name} does not belong there" for name in names if unwanted.search(name)]


def main() -> None:
    """Build, check and print the checksums."""
    _run(sys.executable, "-m", "validate_pyproject", "pyproject.toml")
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    for old in dist.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as again:
        files = build(dist)
        found = [f"{name} is not reproducible" for name in differences(files, build(Path(again)))] + mistakes(files)
    if found:
        raise SystemExit("\n".join(found))
    version = next(path.name for path in files if path.suffix == ".whl").split("-")[1]
    files.append(sbom(dist, version))
    parts = len(json.loads(files[-1].read_text(encoding="utf-8"))["components"])
    sums = "".join(f"{_digest(path)}  {path.name}\n" for path in files)
    (dist / "SHA256SUMS").write_text(sums, encoding="utf-8")
    sys.stdout.write(f"{sums}{parts} parts in the SBOM; built twice, the same both times\n")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _run(*command: str, epoch: str | None = None) -> str:
    env = {**os.environ, **({} if epoch is None else {"SOURCE_DATE_EPOCH": epoch})}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
