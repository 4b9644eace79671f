"""The command at a terminal and away from one: colours, Ctrl-C, completion, mistakes. Real processes throughout."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.command import START, TINY, command

ESCAPE = "\x1b["


def at_a_terminal(*arguments: str, **environment: str) -> str:
    """What a person sees: stdout and stderr of the command on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    env |= {"TERM": "xterm-256color", "COLUMNS": "140", **environment}
    process = subprocess.Popen([sys.executable, "-m", "quietshelf", *arguments], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    assert process.wait() == 0, seen.decode()
    return seen.decode()


def test_colours_only_where_somebody_sees_them() -> None:
    """Colours at a terminal; none with NO_COLOR, where boxes stay; no escape at all in a pipe."""
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    assert colour.search(at_a_terminal("doctor"))
    plain = at_a_terminal("doctor", NO_COLOR="1")
    assert not colour.search(plain)
    assert "✔ ok" in plain
    piped = command("doctor")
    assert ESCAPE not in piped.stdout + piped.stderr
    assert "✔ ok" in piped.stdout


def test_completion_is_made_for_the_command_even_when_run_as_a_module() -> None:
    """A script for 'python -m quietshelf' would be of no shell's grammar."""
    assert "Usage: quietshelf simulate" in command("simulate", "--help").stdout
    script = command("--show-completion", "bash", SHELL="/bin/bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_QUIETSHELF_COMPLETE=complete_bash" in script.stdout


def test_progress_shows_the_time_left_at_a_terminal() -> None:
    """A bar with elapsed time and time left; in a pipe nothing is redrawn."""
    seen = at_a_terminal("simulate", *TINY)
    assert "left" in seen
    assert "120/120" in seen
    piped = command("simulate", *TINY)
    assert piped.stderr == ""


def test_signs_that_a_terminal_lacks_do_not_cost_the_result() -> None:
    """Where stdout is ASCII, what it cannot write is a question mark, and the rest is there."""
    found = command("simulate", *TINY, PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr
    assert "quiet rho=1" in found.stdout
    assert "? s.e." in found.stdout


@pytest.mark.parametrize(
    "words", [["simulate", "--curve"], ["plan", "--report"], ["audit", "--report"], ["demo", "--out"]]
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(words: list[str], tmp_path: Path) -> None:
    """One line names it, and no result was computed to be thrown away."""
    (tmp_path / "file").write_text("")
    found = command(*words, str(tmp_path / "file" / "result.png"))
    assert found.returncode == 2
    assert "Not a directory" in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["simulate", "--horizon", "1000000", "--workers", "2"], "Nothing was kept: a simulation cannot be resumed"),
        (["simulate", "--horizon", "1000000", "--workers", "1"], "Nothing was kept: a simulation cannot be resumed"),
        (["audit", "--policy", "quiet", "--runs", "400000", "--workers", "2"], "Nothing was kept"),
        (["demo", "--visitors", "1000000"], "Nothing was kept"),
        (["plan", "--workers", "1"], "Nothing was kept"),
        (["reproduce", "privacy-level", "--workers", "1", "--out", "FOLDER"], "Finished work is kept in"),
    ],
)
def test_ctrl_c_ends_at_once_and_says_what_is_kept(arguments: list[str], kept: str, tmp_path: Path) -> None:
    """Status 130, one line, no traceback from any process, no process left behind."""
    words = [str(tmp_path) if word == "FOLDER" else word for word in arguments]
    if words[0] == "demo":
        words += ["--out", str(tmp_path)]
    status, said, group = interrupted(words)
    assert status == 130, said
    assert kept in said
    assert "Traceback" not in said
    deadline = time.monotonic() + 20
    while alive(group) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(group)


def alive(group: int) -> list[int]:
    """Processes of a group that still run; those that have ended and wait to be buried do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(path.parent.name))
    return found


def interrupted(words: list[str]) -> tuple[int, str, int]:
    """Start the command, send Ctrl-C to all its processes once it is at work, and wait: (status, stderr, group)."""
    env = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"}  # so that the bar is drawn as it moves
    start = [sys.executable, "-c", START, *words]
    with subprocess.Popen(
        start, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, env=env
    ) as process:
        assert process.stderr is not None
        said = b""
        while not any(unit in said for unit in (b"visitors", b"tests", b"rounds")):
            part = os.read(process.stderr.fileno(), 4096)
            assert part, said
            said += part
        time.sleep(2.0)  # some workers are at work, others are being started
        os.killpg(process.pid, signal.SIGINT)
        said += process.stderr.read()
        return process.wait(timeout=60), said.decode(), process.pid


def test_an_interrupted_study_goes_on(tmp_path: Path) -> None:
    """Rows that were finished before Ctrl-C are not made again, and the end is as if nothing had happened."""
    words = ["reproduce", "privacy-level", "--replicates", "1", "--horizon", "300", "--workers", "1", "--out"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words, str(broken)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not list(broken.rglob("rows/*.parquet")) and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    kept = {path.name: path.stat().st_mtime_ns for path in broken.rglob("rows/*.parquet")}
    assert kept
    found = [command(*words, str(folder), "--json") for folder in (broken, whole)]
    assert all(done.returncode == 0 for done in found), found[0].stderr
    claims = [json.loads(done.stdout)[0]["claims"] for done in found]
    assert claims[0] == claims[1]
    after = {path.name: path.stat().st_mtime_ns for path in broken.rglob("rows/*.parquet")}
    assert len(after) > len(kept)
    assert {name: after[name] for name in kept} == kept


def test_shells_complete_commands_options_and_policies() -> None:
    """What a shell asks for is answered: commands, options and the names of policies."""

    def completed(line: str) -> set[str]:
        asked = {
            "_QUIETSHELF_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        script = "import sys; sys.argv = ['quietshelf']; from quietshelf.cli import app; app(prog_name='quietshelf')"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, env={**os.environ, **asked}
        )
        return set(done.stdout.split())

    assert completed("quietshelf do") == {"doctor"}
    assert completed("quietshelf pl") == {"plan"}
    assert "--replicates" in completed("quietshelf simulate --re")
    assert completed("quietshelf simulate --policy dp") == {"dpmnl", "dpmnl-eps-delta"}
    assert "--install-completion" in command("--help").stdout


def test_repeated_policies_add_up() -> None:
    """One option with commas, or several options: the same contestants."""
    together = command("simulate", "--policy", "quiet,uniform", "--rho", "1,2", *TINY, "--json")
    apart = command("simulate", "--policy", "quiet", "--policy", "uniform", "--rho", "1", "--rho", "2", *TINY, "--json")
    names = [[row["policy"] for row in json.loads(done.stdout)["policies"]] for done in (together, apart)]
    assert names[0] == names[1] == ["quiet rho=1", "quiet rho=2", "uniform"]


def test_json_of_a_simulation_has_its_curves() -> None:
    """Regret over time with standard errors; its last value is the one in the table."""
    found = json.loads(command("simulate", "--policy", "quiet,uniform", *TINY, "--json").stdout)
    assert found["visitors"][-1] == 60
    for row in found["policies"]:
        assert len(row["curve"]["regret"]) == len(row["curve"]["standard_error"]) == len(found["visitors"])
        assert row["curve"]["regret"][-1] == pytest.approx(row["regret"])


def test_mistakes_say_what_to_do_next(tmp_path: Path) -> None:
    """Every refusal ends with a next step: an example, a path to check, a budget to lower."""
    refused = command("simulate", *TINY, "--policy", "nobody")
    assert refused.returncode == 2
    assert "`quietshelf simulate --help` shows an example." in refused.stderr
    large = command("simulate", *TINY, "--policy", "dpmnl-eps-delta", "--rho", "1e6")
    assert large.returncode == 2
    assert "dpmnl-eps-delta rho=1e+06 cannot be calibrated" in large.stderr
    assert "lower --rho" in large.stderr
    (tmp_path / "file").write_text("")
    blocked = command("simulate", *TINY, "--curve", str(tmp_path / "file" / "curve.png"))
    assert blocked.returncode == 2
    assert "Check the path" in blocked.stderr
    for done in (refused, large, blocked):
        assert "Traceback" not in done.stderr
