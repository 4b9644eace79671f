"""Run every benchmark of this folder, or those named: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks


def main(wanted: list[str]) -> None:
    """Call ``main`` of each module that has one, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__")
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        sys.exit(f"benchmarks must be among {', '.join(names)}, got {', '.join(unknown)}")
    for name in wanted or names:
        module = importlib.import_module(f"benchmarks.{name}")
        if hasattr(module, "main"):
            print(f"\n== {name} ==", flush=True)
            module.main()


if __name__ == "__main__":
    main(sys.argv[1:])
