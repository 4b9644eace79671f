"""The constant curator: one public release, nothing learnt, nothing spent."""

from __future__ import annotations

import numpy as np

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Curator, Release, Round
from quietshelf.privacy.release.constant import Constant


def known(theta: list[float]) -> Release:
    dim = len(theta)
    return Release(np.array(theta), np.eye(dim), np.array(0.0), np.array(False), np.array(0))


def test_constant_hands_out_the_same_release_whatever_happens() -> None:
    """Rounds change nothing: before and after them the release is the very object that was given."""
    release = known([1.0, -1.0])
    curator: Curator = Constant(release)
    context = Context(Dense(np.ones((3, 2))), np.ones(3), 2)
    assert curator.release is release
    for choice in (-1, 0, 1):
        assert curator.observe(Round(context, np.array([0, 1]), np.array(choice))) is release
    assert curator.release is release


def test_constant_costs_nothing() -> None:
    """Public knowledge is no release of anybody's data."""
    assert Constant(known([0.0])).ledger.rho == 0.0
