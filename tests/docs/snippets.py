"""Code in Markdown, and how the suite runs it.

- ``pycon``, or ``python`` with >>>: a doctest, run by pytest itself with all others;
- ``python`` or ``toml`` with a title: a file of that name in the page's folder;
- ``sh``: run by bash in that folder, all fences of a page as one script;
- ``text`` right after ``sh``: what that fence prints, ``...`` standing for anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)
CUT = "--- next fence ---"


@dataclass(frozen=True)
class Fence:
    """One fenced block."""

    language: str
    title: str
    code: str

    @property
    def doctest(self) -> bool:
        return self.code.startswith(">>> ")


def fences(path: Path) -> list[Fence]:
    """Every fenced block of a page, in order."""
    return [Fence(language, title, code) for language, title, code in FENCE.findall(path.read_text(encoding="utf-8"))]


def run_page(path: Path, folder: Path, *, port: int, **environment: str) -> str:
    """Write the page's files, run its shell fences in order, compare what they print; all of it."""
    every = fences(path)
    for fence in every:
        if fence.title:
            (folder / fence.title).write_text(fence.code.replace("8080", str(port)), encoding="utf-8")
    script = f"\necho '{CUT}'\n".join(fence.code for fence in every if fence.language == "sh")
    printed = _bash(script.replace("8080", str(port)), folder, environment)
    for wanted, got in zip(_wanted(every), printed.split(f"{CUT}\n"), strict=True):
        if wanted is not None:
            matches = OutputChecker().check_output(wanted, got, ELLIPSIS | NORMALIZE_WHITESPACE)
            assert matches, f"{path.name} says\n{wanted}\nbut it printed\n{got}"
    return printed


def _wanted(every: list[Fence]) -> Iterator[str | None]:
    """For each shell fence what it should print, where the page says it."""
    for place, fence in enumerate(every):
        if fence.language == "sh":
            after = every[place + 1] if place + 1 < len(every) else None
            yield after.code if after is not None and after.language == "text" else None


def _bash(script: str, folder: Path, environment: dict[str, str]) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1", **environment}
    with (folder / "stderr").open("w+") as complaints:
        process = subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=folder, env={**os.environ, **plain}, stdout=subprocess.PIPE, stderr=complaints, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=240)
        finally:
            _end(process.pid)
        complaints.seek(0)
        assert process.returncode == 0, printed + complaints.read()
    return printed


def _end(group: int) -> None:
    """Whatever a page started and did not stop."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
