"""Planted faults of the private fit of a log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import numpy as np
from tests.research.auditing.faults import CLAIM, DIM, RHO, half

from quietshelf.model.choice import chosen_features, moments, utilities
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release import private_newton
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.statistics import Factors, Grids, ObservedChoice
from quietshelf.research.auditing import Auditable
from quietshelf.research.auditing.neighbours import Neighbours, far_crowds, visitor
from quietshelf.research.auditing.newton import newton_run

FEW = partial(patch.object, private_newton, "STEPS", 2)
"""Private fits in few steps, so that thousands can be run; the last has the same share."""


def newton_half(secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
    """The private fit of a log with half the noise."""
    with FEW():
        return newton_run(far_crowds(4, DIM), RHO, half(Simulated(rng)), secret, runs, rng)


def newton_unbounded(secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
    """The private fit of a log with unweighted contributions, and a visitor with long features."""
    first, second, words = far_crowds(4, DIM)
    pair = Neighbours(visitor(3 * first.rows), visitor(3 * second.rows), words)
    with FEW(), patch.object(private_newton, "factors", unweighted):
        return newton_run(pair, RHO, None, secret, runs, rng)


def unweighted(
    shown: ObservedChoice,
    theta: FloatArray,
    coordinates: FloatArray,
    bound: float,  # noqa: ARG001 - named as those of `factors`
    grids: Grids,  # noqa: ARG001 - the same
) -> Factors:
    """Score and information as they are, however long."""
    rows = shown.rows @ np.swapaxes(coordinates, -1, -2)
    mean, spread = moments(rows, utilities(shown.rows, theta), shown.offered)
    return Factors(mean - chosen_features(rows, shown.position), spread)


def planted() -> Sequence[Auditable]:
    """Every fault, under the claim that it costs rho = 1."""
    return [
        Auditable(name="half the noise, private Newton", pair="", claim=CLAIM, run=newton_half),
        Auditable(name="clipping forgotten, private Newton", pair="", claim=CLAIM, run=newton_unbounded),
    ]
