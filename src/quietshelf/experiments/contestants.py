"""Contestants of a study by their settings; DPMNL also on a public schedule, the same for all who are on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quietshelf.loop import Contestant
from quietshelf.loop.named import contestant
from quietshelf.release.dpmnl import Dpmnl, DpmnlEpsilonDelta, Plan
from quietshelf.release.noise import NoiseSource
from quietshelf.types import require

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
    return contestant(settings["policy"], label=label, **options_of(settings))


def options_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the curator is given."""
    schedule = settings.get("schedule", "own")
    require(schedule in SCHEDULES, f"schedule must be one of {', '.join(SCHEDULES)}", schedule=schedule)
    options = {key: value for key, value in settings.items() if key not in NOT_OPTIONS}
    return options if schedule == "own" else {**options, "trigger": "doubling"}


def config_of(settings: Mapping[str, Any]) -> Dpmnl | DpmnlEpsilonDelta:
    """The settings of DPMNL or its benchmark."""
    require(settings["policy"] in FAMILY, f"policy must be one of {', '.join(FAMILY)}", policy=settings["policy"])
    return FAMILY[settings["policy"]](**options_of(settings))


def plan_of(settings: Mapping[str, Any], *, dim: int, capacity: int, horizon: int, source: NoiseSource) -> Plan:
    """The numbers of DPMNL or its benchmark in one world."""
    return config_of(settings).plan(dim=dim, capacity=capacity, horizon=horizon, source=source)
