"""The command-line reference, from the Typer app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scripts.docs.markdown import table

HEAD = """# Command line

Every command and option, as `quietshelf COMMAND --help` prints them. Results go to stdout, progress to stderr, so that
`--json` can be piped. Exit status 0: success; 1: the command ran and found something wrong (a refuted promise, a ledger
that differs); 2: invalid use, explained in one line.
"""


def commands_page() -> str:
    """Every command, in alphabetical order."""
    return "\n".join([HEAD, *(_section(name, command) for name, command in commands())])


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, with its full name."""
    from typer.main import get_command

    from quietshelf.cli import app

    yield from _below(get_command(app), "quietshelf")


def _below(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for child in sorted(children):
        yield from _below(children[child], f"{name} {child}")


def _section(name: str, command: Any) -> str:
    text, *examples = (command.help or "").split("Example: ")
    parts = [f"## {name.removeprefix('quietshelf ')}", " ".join(text.split())]
    if examples:
        lines = "\n".join(f"$ {' '.join(example.split())}" for example in examples)
        parts.append(f"```console\n{lines}\n```")
    given = [one for one in command.params if one.param_type_name == "argument"]
    if given:
        parts.append(table(("argument", "meaning"), [(f"`{one.name.upper()}`", one.help or "") for one in given]))
    options = [one for one in command.params if one.param_type_name == "option"]
    if options:
        parts.append(table(("option", "default", "meaning"), [_option(one) for one in options]))
    return "\n\n".join(parts) + "\n"


def _option(one: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
    return names, _default(one), one.help or ""


def _default(one: Any) -> str:
    if one.required:
        return "needed"
    if isinstance(one.show_default, str):
        return f"`{one.show_default}`"
    if one.default is None or one.default is False or one.default == "":
        return ""
    if one.default is True:
        return f"`{one.opts[0]}`"
    return f"`{one.default}`"
