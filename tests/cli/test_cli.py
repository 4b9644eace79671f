"""The command as a user runs it: real processes, real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts.docs.commands import commands
from tests.cli.command import TINY, command

from quietshelf import __version__
from quietshelf.privacy.accounting import DELTA


def test_the_version_is_printed() -> None:
    """So that bug reports can name it."""
    assert command("--version").stdout.strip() == f"quietshelf {__version__}"


def test_every_command_is_listed_and_its_help_shows_an_example() -> None:
    """Groups are listed by name, and each of their commands has its own example."""
    listed = command("--help").stdout
    for name, each in commands():
        assert name.split()[1] in listed
        assert f"Example: {name}" in " ".join((each.help or "").split()), name


def test_simulate_prints_a_table_and_draws_a_curve(tmp_path: Path) -> None:
    """Results go to stdout, talk to stderr, the figure to its file."""
    found = command("simulate", "--policy", "quiet,greedy,uniform", *TINY, "--curve", str(tmp_path / "curve.svg"))
    assert found.returncode == 0, found.stderr
    assert "quiet rho=1" in found.stdout
    assert "drawn" in found.stderr
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")


def test_simulate_json_is_strict_and_repeatable() -> None:
    """Machines read strict JSON: figures for every contestant, infinity as a word, the same for the same seed."""
    answers = [
        command("simulate", "--policy", "quiet,greedy", "--rho", "0.5,2", *TINY[:-1], workers, "--json")
        for workers in ("1", "2")
    ]
    first, second = (json.loads(a.stdout) for a in answers)
    assert [row["policy"] for row in first["policies"]] == ["quiet rho=0.5", "quiet rho=2", "greedy"]
    assert first["policies"][2]["rho"] == "infinity"
    assert first["policies"][0]["rho"] == pytest.approx(0.5)
    assert first["policies"][0]["delta"] == DELTA
    assert {"regret", "standard_error", "ratio_to_floor", "epsilon", "rounds_per_second"} <= set(first["policies"][0])
    for one, other in zip(first["policies"], second["policies"], strict=True):
        assert one["regret"] == other["regret"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "nobody"], "policy must be one of"),
        (["--rho", "much"], "rho must be numbers separated by commas, got rho='much'"),
        (["--rho", "-1"], "rho must be positive and finite, got rho=-1.0"),
        (["--curve", "regret.xyz"], "a figure must end in .png, .svg, .pdf, got path='regret.xyz'"),
        (["--capacity", "11"], "capacity must be between 1 and items=10, got capacity=11"),
        (["--contexts", "odd"], "contexts must be one of normal, clipped, got contexts='odd'"),
        (
            ["--policy", "quiet", "--conversion", "3"],
            "conversion_rate must be between 0 and 1, got conversion_rate=3.0",
        ),
        (["--policy", "greedy", "--geometry", "odd"], "geometry must be one of declared, unknown, got geometry='odd'"),
        (["--policy", "greedy", "--calibration", "odd"], "calibration must be one of sound, "),
        (["--delta", "1"], "delta must be in (0, 1), got delta=1.0"),
        (["--workers", "-3"], "workers must be a whole number from 0 on, got workers=-3"),
    ],
)
def test_mistakes_end_in_one_line(arguments: list[str], message: str) -> None:
    """No traceback; status 2; the rule and the value."""
    found = command("simulate", *TINY, *arguments)
    assert found.returncode == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr
