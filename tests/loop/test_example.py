"""The example that shows how to plug in one's own parts runs as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_own_policy_example_learns_and_prints_a_table() -> None:
    """One line a contestant; those that learn lose less than half of what chance loses."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "own_policy.py"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    title, *lines = done.stdout.splitlines()
    assert title.startswith("regret after 1000 visitors")
    regret = {line.split()[0]: float(line.split()[1]) for line in lines}
    assert set(regret) == {"coin", "greedy", "uniform"}
    assert max(regret["coin"], regret["greedy"]) < regret["uniform"] / 2
    assert done.stderr == ""
