"""The built TypeScript client, and node to run it with."""

from __future__ import annotations

import os
import subprocess
from functools import cache

import pytest
from scripts.client import CLIENT, NoNode, build, node


@cache
def demand_client() -> str:
    """The node that runs the built client; skips, visibly, where neither can be had, which CI does not accept."""
    try:
        build()
        return node()[0]
    except NoNode as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def run_node(*arguments: str, **environment: str) -> str:
    """What a script of the client's tests prints."""
    done = subprocess.run(
        [demand_client(), *arguments],
        cwd=CLIENT, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def node_tests(name: str, **environment: str) -> None:
    """The tests of one file pass, under node's own runner."""
    said = run_node("--test", "--test-reporter=tap", f"build/test/{name}.test.js", **environment)
    assert "# fail 0" in said
    assert "# pass 0" not in said, said
