"""The command as a user runs it: a real process."""

from __future__ import annotations

import os
import subprocess
import sys

TINY = ["--items", "10", "--capacity", "3", "--dim", "2", "--horizon", "60", "--replicates", "2", "--workers", "1"]
"""A simulation that takes a moment."""


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``quietshelf ARGUMENTS`` to its end, whatever its status."""
    return subprocess.run(
        [sys.executable, "-m", "quietshelf", *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from quietshelf.cli import main; main()"
)
"""As a shell starts a command: Ctrl-C is heard, whatever the process that runs the tests was told."""
