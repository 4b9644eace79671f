"""Contestants of a study from their settings; DPMNL optionally on a public schedule shared by all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quietshelf.model.types import one_of
from quietshelf.privacy.release.dpmnl import Dpmnl, DpmnlEpsilonDelta
from quietshelf.research.loop import Contestant
from quietshelf.research.loop.named import SPECS, MakeDpmnl, contestant

NOT_OPTIONS = ("policy", "worlds")
PUBLIC_SCHEDULE = ("dpmnl", "dpmnl-eps-delta")
"""Policies whose ``schedule`` is one of `SCHEDULES`; other policies have a ``schedule`` of their own kind."""
SCHEDULES = ("own", "equal")


def make(label: str, settings: Mapping[str, Any]) -> Contestant:
    """Make a contestant from its settings.

    Args:
        label: Its name in the rows.
        settings: ``policy`` and its options; for DPMNL and its benchmark also ``schedule``: "own" (refit when the
            determinant has doubled, the default) or "equal" (after T0 visitors and each time their number doubles).
    """
    return contestant(settings["policy"], label=label, **options_of(settings))


def options_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the curator."""
    options = {key: value for key, value in settings.items() if key not in NOT_OPTIONS}
    if settings["policy"] not in PUBLIC_SCHEDULE:
        return options
    schedule = options.pop("schedule", "own")
    one_of("schedule", schedule, SCHEDULES)
    return options if schedule == "own" else {**options, "trigger": "doubling"}


def config_of(settings: Mapping[str, Any]) -> Dpmnl | DpmnlEpsilonDelta | None:
    """The settings of DPMNL or its benchmark; None for other policies."""
    made = SPECS[settings["policy"]].make(**options_of(settings))
    return made.config if isinstance(made, MakeDpmnl) else None
