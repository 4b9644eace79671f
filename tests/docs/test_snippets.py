"""Every snippet of the documentation runs, and every command it names is one of the product."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.docs.commands import commands
from tests.docs.snippets import PAGES, ROOT, fences, run_page
from tests.serving.service.harness import Process, free_port
from typer.main import get_command

from quietshelf.cli import app

SERVED = [page for page in PAGES if any(fence.language == "sh" and "$URL" in fence.code for fence in fences(page))]
"""Pages whose lines speak to a service at $URL, with $KEY."""
SAID = ('"release":0', '"unit":"person"', '"arrivals":1')
"""What those pages print: of the first offer, and of the promise after it."""
COMMAND = re.compile(r"(?:^ {4}|^|`)(quietshelf(?:[ ](?:\\\n|[^`\n])*)?)", re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fences_are_of_a_kind_that_runs(page: Path) -> None:
    """A fence is a doctest, a file, a shell script or what the script before it prints: nothing that can rot."""
    before = ""
    for fence in fences(page):
        served = page in SERVED and fence.language == "python"
        files = fence.title and fence.language in ("python", "toml")
        printed = fence.language == "text" and before == "sh"
        assert fence.doctest or files or printed or served or fence.language == "sh", fence
        before = fence.language


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(fence.language == "sh" for fence in fences(page))],
    ids=lambda page: page.name,
)
def test_shell_lines_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    """In an empty folder that holds the page's files, on a free port; where $URL is used, with a service behind it."""
    if page not in SERVED:
        run_page(page, tmp_path, port=free_port())
        return
    process = Process(f"sqlite:///{tmp_path}/shop.db", tmp_path)
    process.start()
    try:
        printed = run_page(page, tmp_path, port=process.port, URL=process.url, KEY=process.key)
        assert [words for words in SAID if words not in printed] == []
        for fence in fences(page):
            if fence.language == "python" and not fence.doctest:
                exec(fence.code, {"url": process.url, "key": process.key})  # noqa: S102 - our own page
    finally:
        process.stop()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page: Path) -> None:
    """Whatever a page tells people to type: the command, and each of its options."""
    known = dict(commands())
    for words in told(page.read_text(encoding="utf-8")):
        name = " ".join(words[:3]) if " ".join(words[:3]) in known else " ".join(words[:2])
        options = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
        allowed = {"--help"} | {opt for one in params(name, known) for opt in (*one.opts, *one.secondary_opts)}
        assert set(options) <= allowed, f"{page.name}: {' '.join(words)}"


def params(name: str, known: dict[str, Any]) -> list[Any]:
    """Of a command, of a group's name (which has none), or of ``quietshelf`` itself."""
    if name in known:
        return list(known[name].params)
    group = any(other.startswith(f"{name} ") for other in known)
    assert group or name == "quietshelf" or name.startswith("quietshelf -"), f"no such command: {name}"
    return [] if group and name != "quietshelf" else list(get_command(app).params)


def told(text: str) -> Iterator[list[str]]:
    """Every call of ``quietshelf`` in code, split as a shell would, up to a pipe, a redirection or a comment."""
    for call in COMMAND.findall(text):
        words = shlex.split(call.replace("\\\n", " "), comments=True)
        ends = [place for place, word in enumerate(words) if word[0:1] in ("|", ">", "&", ";")]
        yield words[: ends[0]] if ends else words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_exist(page: Path) -> None:
    """What a page says to make can be made."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"(?:^ {4}|`)make ([a-z]+)", page.read_text(encoding="utf-8"), re.M)) <= targets
