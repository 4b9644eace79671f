"""Nothing that draws noise, or decides how much, is shipped without an audit."""

from __future__ import annotations

import ast
import cProfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType
from unittest.mock import patch

import numpy as np
import pytest

import quietshelf.privacy.release
from quietshelf.research.auditing import MECHANISMS, Auditable, attack, mechanism, neighbours
from quietshelf.research.auditing.plan import THOROUGH_POLICIES
from quietshelf.research.loop.named import SPECS

ROOM = Path(quietshelf.privacy.release.__file__).parent
AMOUNTS = {"Law", "Tree", "Perturbation", "Scales"}
"""What functions return that decide how much noise is drawn."""
ALONE = {("shared_trees.py", "_draw")}
"""Of contestants in a simulation, who share noise in order to be compared; each tree is audited alone."""
SOURCES = "noise.py"
"""The sources themselves: every mechanism draws from one."""
Place = tuple[str, str]


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function of the room where releases are made."""
    for path in sorted(ROOM.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and path.name != SOURCES:
                yield path.name, node


def draws(function: ast.FunctionDef) -> bool:
    """Whether noise is drawn in it."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr == "draw" for call in calls)


def decides(function: ast.FunctionDef) -> bool:
    """Whether it returns an amount of noise."""
    return function.returns is not None and ast.unparse(function.returns).split(".")[-1] in AMOUNTS


def used_by(subjects: Callable[[], Sequence[Auditable]]) -> set[Place]:
    """Functions of the room that an audit goes through, from the choice of its noise on."""
    with cProfile.Profile() as profile:
        for subject in subjects():
            subject.run(True, 2, np.random.default_rng(0))
    codes = [entry.code for entry in profile.getstats() if isinstance(entry.code, CodeType)]
    return {(Path(code.co_filename).name, code.co_name) for code in codes if Path(code.co_filename).parent == ROOM}


@pytest.fixture(scope="module")
def audited() -> set[Place]:
    """What all mechanisms and private policies go through, taken together; no search is needed for that."""
    with patch.object(neighbours, "STEPS", 1):
        made = [used_by(partial(mechanism, name, 1.0)) for name in MECHANISMS]
    return set().union(*made, *(used_by(partial(_attacks, name)) for name in private()))


def private() -> list[str]:
    return [name for name, spec in SPECS.items() if spec.private]


def _attacks(policy: str) -> list[Auditable]:
    return [attack(policy, "identity", rho=1.0)]


def test_every_function_that_draws_noise_is_audited(audited: set[Place]) -> None:
    """A new mechanism without an audit fails here."""
    needed = {(module, function.name) for module, function in functions() if draws(function)}
    assert len(needed) >= 5
    assert needed - ALONE <= audited


def test_every_calibration_is_audited(audited: set[Place]) -> None:
    """A new way to choose the noise without an audit fails here."""
    needed = {(module, function.name) for module, function in functions() if decides(function)}
    assert len(needed) >= 8
    assert needed <= audited


def test_every_policy_is_attacked() -> None:
    """All that claim privacy, and all others but the two that learn nothing, which have a test of their own."""
    assert set(private()) <= set(THOROUGH_POLICIES)
    assert set(SPECS) - set(THOROUGH_POLICIES) == {"uniform", "oracle"}
