"""Run every benchmark of this folder, or those named: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import argparse
import ast
import importlib
from pathlib import Path

import benchmarks


def main() -> None:
    """Call ``main`` of each module that has one, in alphabetical order."""
    known = dict(found())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="\n".join([f"{benchmarks.__doc__}\n", *(f"  {name:14}{says}" for name, says in known.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="which; all of them by default")
    wanted = parser.parse_args().name
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"benchmarks must be among {', '.join(known)}, got {', '.join(unknown)}")
    for name in wanted or known:
        print(f"\n== {name} ==", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


def found() -> list[tuple[str, str]]:
    """Names and summaries, parsed rather than imported, because some benchmarks need extra packages."""
    sources = {path.stem: ast.parse(path.read_text()) for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))}
    return [
        (name, (ast.get_docstring(source) or "").partition("\n")[0])
        for name, source in sources.items()
        if any(isinstance(part, ast.FunctionDef) and part.name == "main" for part in source.body)
    ]


if __name__ == "__main__":
    main()
