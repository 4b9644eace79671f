"""What the paper's theorems allow, worked out for one contestant in one world."""

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
    """Numbers of one contestant.

    Attributes:
        shift: lambda.
        unit: What features are divided by.
        scale: c, by which the radius in use is smaller than alpha_t.
        fits: The one after exploration, and the refits that can be triggered while the noise stays within lambda, at
            whatever was learnt before (docs/proofs.md, section 15); the cap D_MLE may be lower.
        regret: Of the regret theorem, T0 as in the study.
    """

    shift: float
    unit: float
    scale: float
    fits: float
    regret: float


def bounds(settings: Mapping[str, Any], setting: SimulationContext) -> Bounds | None:
    """The numbers, or None for a policy that the theorems do not speak of."""
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
