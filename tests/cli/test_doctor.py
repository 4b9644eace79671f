"""The doctor finds what is broken, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.command import command
from tests.noiseless import Noiseless

from quietshelf.cli.doctor import checks
from quietshelf.privacy.release.noise import DiscreteGaussian


def test_doctor_finds_this_installation_well() -> None:
    """Status 0; every required check is ok; each extra says what it is for."""
    done = command("doctor", "--json")
    assert done.returncode == 0, done.stdout
    found = json.loads(done.stdout)
    assert found["well"]
    names = {check["name"] for check in found["checks"]}
    assert {"Python", "quietshelf", "numpy", "a tiny private release", "extra report"} <= names
    assert all(check["state"] == "ok" for check in found["checks"] if check["required"])


def test_doctor_says_when_results_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is not there is a required thing that is broken: status 1, and what to do."""
    done = command("doctor", "--folder", str(tmp_path / "nowhere"), "--json")
    assert done.returncode == 1
    broken = [check for check in json.loads(done.stdout)["checks"] if check["state"] == "broken"]
    assert [check["advice"] for check in broken] == ["choose another with --folder"]


def test_doctor_notices_noise_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that draws zeros is found out."""
    monkeypatch.setattr(DiscreteGaussian, "draw", Noiseless.draw)
    found = {check.name: check for check in checks(Path())}
    assert found["exact noise from the operating system"].state == "broken"


def test_doctor_notices_old_and_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package below what the metadata ask for is broken, one that is not there missing, both with what to type."""
    lines = ["numpy>=99.1", "no-such-package>=1", 'no-such-extra>=1; extra == "report"']
    monkeypatch.setattr(sys.modules["quietshelf.cli.doctor"], "requires", lambda _: lines)
    found = {check.name: check for check in checks(Path())}
    assert found["numpy"].state == "broken"
    assert "99.1 or later is needed" in found["numpy"].advice
    assert found["no-such-package"].state == "missing"
    assert found["extra report"].state == "missing"
    assert "pip install '.[report]' in a checkout" in found["extra report"].advice
