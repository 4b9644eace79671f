"""Contestants of a study by their settings; DPMNL also on a public schedule, the same for all who are on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quietshelf.loop import Contestant, Setting
from quietshelf.loop.named import contestant
from quietshelf.policies import POLICIES
from quietshelf.release.dpmnl import Dpmnl, DpmnlEpsilonDelta, Plan
from quietshelf.release.dpmnl_curator import DpmnlCurator
from quietshelf.release.noise import NoiseSource, Simulated
from quietshelf.types import BoolArray, Curator, FloatArray, Random, require

FAMILY: Mapping[str, Callable[..., Dpmnl | DpmnlEpsilonDelta]] = {"dpmnl": Dpmnl, "dpmnl-eps-delta": DpmnlEpsilonDelta}
"""The paper's policy and its benchmark."""
NOT_OPTIONS = ("policy", "worlds", "schedule")
SCHEDULES = ("own", "equal")


def make(label: str, settings: Mapping[str, Any]) -> Contestant:
    """The contestant of these settings.

    Args:
        label: Its name in the rows.
        settings: ``policy`` and its options; for DPMNL and its benchmark ``schedule``, "own" (refits when the
            determinant has doubled, the default) or "equal" (after T0 visitors and at each doubling of their number).
    """
    name, schedule = settings["policy"], settings.get("schedule", "own")
    require(schedule in SCHEDULES, f"schedule must be one of {', '.join(SCHEDULES)}", schedule=schedule)
    if schedule == "equal":
        return Contestant(label, POLICIES[name], MakeScheduled(config_of(settings)))
    return contestant(name, label=label, **options_of(settings))


def options_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the curator is given."""
    return {key: value for key, value in settings.items() if key not in NOT_OPTIONS}


def config_of(settings: Mapping[str, Any]) -> Dpmnl | DpmnlEpsilonDelta:
    """The settings of DPMNL or its benchmark."""
    require(settings["policy"] in FAMILY, f"policy must be one of {', '.join(FAMILY)}", policy=settings["policy"])
    return FAMILY[settings["policy"]](**options_of(settings))


def plan_of(settings: Mapping[str, Any], *, dim: int, capacity: int, horizon: int, source: NoiseSource) -> Plan:
    """The numbers of DPMNL or its benchmark in one world; exploration never outlasts the horizon."""
    config = config_of(settings)
    config = replace(config, explore=min(config.explore, horizon))
    return config.plan(dim=dim, capacity=capacity, horizon=horizon, source=source)


@dataclass(frozen=True)
class MakeScheduled:
    """The curator of DPMNL or its benchmark on the public schedule T0, 2 T0, 4 T0, ..."""

    config: Dpmnl | DpmnlEpsilonDelta

    def __call__(self, setting: Setting, rng: Random) -> Curator:
        """The curator for so many worlds."""
        source = Simulated(rng)
        config = replace(self.config, explore=min(self.config.explore, setting.horizon))
        plan = config.plan(dim=setting.dim, capacity=setting.capacity, horizon=setting.horizon, source=source)
        return ScheduledCurator(plan, source, dim=setting.dim, capacity=setting.capacity, worlds=(setting.worlds,))


class ScheduledCurator(DpmnlCurator):
    """DPMNL that refits at public times: nothing but the noise then tells two calibrations apart."""

    def _due(self, size: FloatArray) -> BoolArray:  # noqa: ARG002 - the determinant has no say
        rounds, count = len(self._history), self._release.count
        times, rest = divmod(rounds, self._plan.explore)
        doubled = rest == 0 and times.bit_count() == 1
        return np.asarray((count < self._plan.fits) & doubled)
