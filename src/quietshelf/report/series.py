"""A contestant's regret over time in every replicate, with its settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quietshelf.model.types import FloatArray

CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Series:
    """One line of a figure, or one side of a comparison.

    Attributes:
        settings: Its world's settings and its own.
        times: Numbers of visitors, ascending, (n,).
        regret: Regret by then, (replicates, n).
        proven: The rho that its ledger proves; infinite if none.
        measures: Further measurements, each (replicates, n).
    """

    settings: Mapping[str, Any]
    times: FloatArray
    regret: FloatArray
    proven: float = math.inf
    measures: Mapping[str, FloatArray] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        """A setting, or None; ``rho_proven`` is the ledger's rho."""
        return self.proven if key == "rho_proven" else self.settings.get(key)

    @property
    def final(self) -> FloatArray:
        """Regret at the horizon, (replicates,)."""
        return np.asarray(self.regret[:, -1])


def matching(series: Iterable[Series], where: Mapping[str, Any]) -> list[Series]:
    """The series with these settings; a list matches any of its values."""
    return [one for one in series if all(_is(one[key], value) for key, value in where.items())]


def values_of(series: Iterable[Series], key: str) -> list[Any]:
    """The values of a setting: numbers ascending, then words in order of appearance."""
    found = list(dict.fromkeys(one[key] for one in series))
    numbers = sorted(value for value in found if isinstance(value, int | float))
    return [*numbers, *(value for value in found if not isinstance(value, int | float))]


def from_the_start(regret: FloatArray) -> FloatArray:
    """Regret over time, (replicates, n), with a zero in front: the regret before the first visitor."""
    return np.pad(regret, ((0, 0), (1, 0)))


def band(samples: FloatArray, confidence: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
    """The mean over the first axis and half the width of its Student interval, NaN for a single sample.

    >>> mean, half = band(np.array([[1.0], [2.0], [3.0]]))
    >>> mean.item(), round(half.item(), 3)
    (2.0, 2.484)
    """
    from scipy.special import stdtrit  # slow to import

    count = len(samples)
    mean = np.asarray(samples.mean(axis=0))
    if count < 2:
        return mean, np.full_like(mean, np.nan)
    quantile = float(stdtrit(count - 1, 0.5 + confidence / 2))
    return mean, np.asarray(quantile * samples.std(axis=0, ddof=1) / math.sqrt(count))


def words(key: str, value: Any) -> str:
    """A setting in words.

    >>> words("rho", 0.1), words("share", 0.9), words("fits", "auto"), words("calibration", "paper")
    ('ρ = 0.1', '90 % to the MLE', 'D_MLE = auto', 'constants as printed')
    >>> words("trigger", "doubling"), words("calibration", "mean-width")
    ('at doubled numbers of visitors', 'mean-width')
    """
    if value is None:
        return "any"
    if key in _WORDS:
        return _WORDS[key].get(value, str(value))
    if key in _FORMATS:
        return _FORMATS[key](value)
    return f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"


def described(one: Series, keys: Sequence[str]) -> str:
    """The settings of a series under these keys, in words."""
    return ", ".join(words(key, one[key]) for key in keys if one[key] is not None)


def _is(found: Any, wanted: Any) -> bool:
    return found in wanted if isinstance(wanted, list | tuple) else bool(found == wanted)


_WORDS: dict[str, dict[str, str]] = {
    "calibration": {"paper": "constants as printed", "sound": "sound calibration"},
    "conversion": {"text": "ε by the text", "lemma": "ε by the lemma"},
    "schedule": {"own": "own trigger", "equal": "equal schedule"},
    "trigger": {
        "since-last": "since the last fit",
        "literal": "literal trigger",
        "doubling": "at doubled numbers of visitors",
    },
}
_FORMATS: dict[str, Callable[[Any], str]] = {
    "rho": lambda value: f"ρ = {value:g}",
    "share": lambda value: f"{100 * value:g} % to the MLE",
    "fits": lambda value: f"D_MLE = {value}",
    "feature_map_name": lambda value: f"features {value}",
    "dim": lambda value: f"d = {value}",
    "capacity": lambda value: f"K = {value}",
    "policy": str,
    "world": str,
    "contexts": lambda value: f"{value} contexts",
    "horizon": lambda value: f"T = {value:,}",
}


def standard_error(samples: FloatArray) -> FloatArray:
    """The standard error of the mean over the first axis; NaN for a single sample."""
    if len(samples) < 2:
        return np.full(samples.shape[1:], math.nan)
    return np.asarray(samples.std(axis=0, ddof=1) / math.sqrt(len(samples)))
