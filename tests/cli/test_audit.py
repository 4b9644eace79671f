"""``quietshelf audit`` as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.command import command

from quietshelf import __version__


def test_sound_mechanism_ends_well_and_leaves_a_page(tmp_path: Path) -> None:
    """Status 0, a table on stdout, a page that loads nothing from elsewhere."""
    path = tmp_path / "folder" / "audit.html"
    subjects = ["--mechanism", "gram-tree", "--policy", "ofu-mnl"]
    found = command("audit", *subjects, "--runs", "400", "--workers", "1", "--report", str(path))
    assert found.returncode == 0, found.stderr
    assert "not refuted" in found.stdout
    assert "No promise was refuted" in " ".join(found.stdout.split())
    page = path.read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("src=") == 0
    assert "guessing" in page
    assert "light-dark(" in page
    assert f'<td class="said">{__version__}</td>' in page  # the page says which version was audited
    assert "@import" not in page
    assert "http" not in page


def test_refuted_claim_ends_with_status_one(tmp_path: Path) -> None:
    """The printed tree: strict JSON with claim, bounds and verdict; the page says it first."""
    path = tmp_path / "audit.html"
    arguments = ["--mechanism", "gram-tree-paper", "--runs", "2000", "--workers", "1", "--json"]
    found = command("audit", *arguments, "--report", str(path))
    assert found.returncode == 1, found.stderr
    answer = json.loads(found.stdout)
    assert answer["refuted"] is True
    finding, _ = answer["findings"]
    assert finding["verdict"] == "REFUTED"
    assert finding["claim"]["rho"] == 1.0
    assert finding["computed"]["rho"] == pytest.approx(3.0)
    assert finding["measured"]["gaussian"] > 1.0
    assert len(finding["roc"]["level"]) == len(finding["roc"]["power"])
    page = path.read_text()
    told = r'<p class="headline pledge refuted"><b>✘ [12] of 2</b> tested promises (is|are) refuted: gram tree, as'
    assert re.search(told, page)
    assert page.index("headline pledge refuted") < page.index("How it was tested")


def test_infinite_claims_are_words_in_json() -> None:
    """Strict JSON has no infinity."""
    found = command("audit", "--policy", "ofu-mnl", "--runs", "100", "--workers", "1", "--json")
    assert found.returncode == 0, found.stderr
    findings = json.loads(found.stdout)["findings"]
    assert {finding["claim"]["rho"] for finding in findings} == {"infinity"}
    assert len(findings) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mechanism", "magic"], "mechanism must be one of"),
        (["--policy", "magic"], "policy must be one of"),
        (["--rho", "-1"], "rho must be positive and finite, got rho=-1.0"),
        (["--mechanism", "gram-tree", "--runs", "3"], "runs must be a whole number from 40 on, got runs=3"),
    ],
)
def test_mistakes_end_in_one_line(arguments: list[str], message: str) -> None:
    """No traceback; status 2; the rule and the value."""
    found = command("audit", *arguments)
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr
