"""`make release`: the same bytes from the same commit, nothing that does not belong, and every part named."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import pytest
import yaml
from scripts import release

from quietshelf import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Wheel and sdist, with the time of a commit long ago."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        return release.build(tmp_path_factory.mktemp("dist"))


def test_a_build_is_reproducible_and_faultless(built: list[Path], tmp_path: Path) -> None:
    """Another umask, another second, another language: the same bytes; and no mistake is found in them."""
    before = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
            patch.setenv("LC_ALL", "C.UTF-8")
            patch.setenv("TZ", "Asia/Tokyo")
            again = release.build(tmp_path)
    finally:
        os.umask(before)
    assert release.differences(built, again) == []
    assert release.mistakes(built) == []


def test_a_difference_and_a_stray_file_are_found(built: list[Path], tmp_path: Path) -> None:
    """The checks can fail."""
    copies = [Path(shutil.copy(path, tmp_path)) for path in built]
    wheel = next(path for path in copies if path.suffix == ".whl")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("quietshelf/__pycache__/x.pyc", b"")
    assert release.differences(built, copies) == [wheel.name]
    assert release.mistakes(copies) == ["quietshelf/__pycache__/x.pyc does not belong there"]


def test_the_sbom_lists_the_lock(tmp_path: Path) -> None:
    """Every pinned part by name and version, and no other."""
    found = json.loads(release.sbom(tmp_path, __version__).read_text(encoding="utf-8"))
    assert (found["bomFormat"], found["metadata"]["component"]["name"]) == ("CycloneDX", "quietshelf")
    lock = (ROOT / release.LOCK).read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w.-]+)==([^ ;\\]+)", lock, re.MULTILINE))
    assert {(part["name"], part["version"]) for part in found["components"]} == pinned


def test_the_citation_names_this_version() -> None:
    """It changes with `__about__.py`; who wrote it and under which licence is told."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (__version__, "Apache-2.0")


def test_no_page_tells_to_install_a_name_that_anybody_could_own() -> None:
    """Until there is a published package it is installed from a checkout: never by its bare name from an index."""
    bare = re.compile(r"(pip|uv|pipx)[^`\n]* (install|add)[^`\n.]*?\s['\"]?quietshelf\b")
    read = [*ROOT.glob("*.md"), *(path for name in ("docs", "examples", "src", "deploy", "benchmarks")
            for path in (ROOT / name).rglob("*") if path.suffix in (".md", ".py", ".html", ".yaml"))]  # fmt: skip
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}" for path in read for match in bare.finditer(path.read_text("utf-8"))
    ]
    assert found == []
