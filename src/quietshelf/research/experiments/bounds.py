"""The bounds of the paper's theorems for one contestant in one world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quietshelf.privacy.release import theory
from quietshelf.privacy.release.noise import ContinuousGaussian
from quietshelf.research.experiments.contestants import config_of
from quietshelf.research.loop import SimulationContext


@dataclass(frozen=True)
class Bounds:
    """The bounds of one contestant.

    Attributes:
        shift: lambda.
        unit: The factor that features are divided by.
        scale: c, the ratio of the radius in use to alpha_t.
        fits: Bound on fits: the one after exploration, and the refits that can be triggered while the noise stays
            within lambda (docs/proofs.md, section 15); the cap D_MLE may be lower.
        regret: Bound of the regret theorem, with T0 as in the study.
    """

    shift: float
    unit: float
    scale: float
    fits: float
    regret: float


def bounds(settings: Mapping[str, Any], setting: SimulationContext) -> Bounds | None:
    """The bounds, or None for a policy that the theorems do not cover."""
    config = config_of(settings)
    if config is None:
        return None
    dim, capacity, horizon = setting.dim, setting.capacity, setting.horizon
    plan = config.plan(dim=dim, capacity=capacity, horizon=horizon, source=ContinuousGaussian())
    refits = theory.refit_bound(dim=dim, capacity=capacity, horizon=horizon, shift=plan.shift, information=0.0)
    alpha = plan.radius(horizon) / config.scale
    regret = theory.regret_bound(
        alpha, dim=dim, capacity=capacity, horizon=horizon, shift=plan.shift, explored=plan.explore
    )
    unit = 1.0 if plan.clip is None else plan.clip
    return Bounds(plan.shift, unit, config.scale, 1 + refits, regret)
