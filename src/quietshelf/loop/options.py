"""Which settings each policy's curator takes: a misspelt one is refused by name, before any visitor comes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from quietshelf.release.dpmnl import Dpmnl, DpmnlEpsilonDelta
from quietshelf.release.maximum_likelihood import MaximumLikelihood
from quietshelf.release.mirror_descent import MirrorDescent
from quietshelf.release.quiet_settings import Quiet
from quietshelf.types import require

OF_THE_WORLD = ("dim", "capacity", "worlds", "horizon")
"""What a curator learns from the world it serves."""


def _settings(takes: Callable[..., Any], *more: str, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    own = (name for name in inspect.signature(takes).parameters if name not in (*OF_THE_WORLD, *without))
    return (*own, *more)


_EXACT = _settings(MaximumLikelihood, "scale", without=("radius",))
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "quiet": _settings(Quiet, "geometry", without=("comparison",)),
    "dpmnl": _settings(Dpmnl),
    "dpmnl-eps-delta": _settings(DpmnlEpsilonDelta),
    "ucb-mnl": _EXACT,
    "ts-mnl": _EXACT,
    "ofu-mnl": _settings(MirrorDescent),
    "greedy": _EXACT,
    "uniform": (),
    "oracle": (),
}
"""By the name of the policy."""


def check_settings(name: str, given: Mapping[str, Any]) -> None:
    """Refuse settings that a policy does not have.

    >>> check_settings("ofu-mnl", {"rigde": 1.0})
    Traceback (most recent call last):
    ...
    ValueError: ofu-mnl takes the settings ridge, bound, step, radius, got unknown=['rigde']
    """
    unknown = sorted(set(given) - set(SETTINGS[name]))
    known = f"the settings {', '.join(SETTINGS[name])}" if SETTINGS[name] else "no settings"
    require(not unknown, f"{name} takes {known}", unknown=unknown)
