"""The package as a whole: what it exports, and what importing it does not load."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import pytest

import quietshelf

SLOW = ("matplotlib", "rich", "scipy", "typer")


def test_version_is_the_installed_one() -> None:
    """One place for the version."""
    assert version("quietshelf") == quietshelf.__version__


def test_import_loads_nothing_slow() -> None:
    """SciPy, plotting and the command line are loaded where they are used, not at import."""
    code = f"import sys, quietshelf; print([name for name in {SLOW!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["", ".accounting", ".assortment", ".choice", ".client"])
def test_public_names_exist(name: str) -> None:
    """Everything in __all__ of the modules that people import from is there."""
    module = import_module(f"quietshelf{name}")
    assert all(hasattr(module, each) for each in module.__all__)
