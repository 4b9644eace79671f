"""Every statement in epsilon is at one delta, unless somebody asks for another."""

from __future__ import annotations

import inspect

import pytest

from quietshelf import Shelf
from quietshelf.cli.fit import fit
from quietshelf.cli.ledger import ledger
from quietshelf.cli.plan import plan
from quietshelf.cli.reproduce import reproduce
from quietshelf.cli.simulate import simulate
from quietshelf.privacy.accounting import DELTA, Ledger
from quietshelf.research.auditing import Claim
from quietshelf.research.experiments.planning import Wish
from quietshelf.research.experiments.reproduce import reproduce as run_study
from quietshelf.serving.service.http.app import get_everything, get_privacy

STATES = (Ledger.promise, Shelf.privacy, Claim, Wish, simulate, reproduce, run_study, fit, plan, ledger, get_privacy)


@pytest.mark.parametrize("states", [*STATES, get_everything], ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_epsilon_is_stated_at_the_one_delta(states: object) -> None:
    """Library, commands and service alike, so that two statements about one ledger agree."""
    assert callable(states)
    assert inspect.signature(states).parameters["delta"].default == DELTA
