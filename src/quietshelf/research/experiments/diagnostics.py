"""Measure what the paper's theorems are about while a contestant learns: coverage, definiteness, refits, bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from quietshelf.model.types import Curator, FloatArray, Random, Release
from quietshelf.privacy.release.dpmnl_curator import FLOOR
from quietshelf.research.experiments.bounds import Bounds, bounds
from quietshelf.research.loop import Contestant, SimulationContext
from quietshelf.research.loop.recording_curator import RecordingCurator

MEASURES = ("covered", "distance_share", "definite", "fits_made", "fit_bound", "regret_bound")


@dataclass
class Diagnostics:
    """Measures of one contestant at the checkpoints, each (replicates, checkpoints).

    ``covered``: whether |theta_t - theta*| <= alpha_t in the norm of V_t, with the unscaled alpha_t.
    ``distance_share``: the ratio of the two. ``definite``: whether V_t was positive definite before its eigenvalues
    were floored. ``fits_made``: fits so far. ``fit_bound``, ``regret_bound``: the theoretical `bounds`.
    """

    times: tuple[int, ...]
    _noted: dict[str, list[FloatArray]] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, FloatArray]:
        """The measures by name."""
        return {name: np.stack(values, axis=-1) for name, values in self._noted.items()}

    def over(self, contestant: Contestant, settings: Mapping[str, Any]) -> Contestant:
        """The same contestant, measured at the checkpoints."""

        def curator(setting: SimulationContext, rng: Random) -> Curator:
            inner = contestant.curator(setting, rng)
            found = bounds(settings, setting)
            return inner if found is None else RecordingCurator(inner, self._noting(found, setting))

        return Contestant(contestant.label, contestant.policy, curator)

    def _noting(self, found: Bounds, setting: SimulationContext) -> Callable[[Curator, Release], None]:
        rounds, times = count(1), set(self.times)

        def note(_: Curator, release: Release) -> None:
            if next(rounds) in times:
                self._note(found, release, setting.theta)

        return note

    def _note(self, found: Bounds, release: Release, truth: FloatArray) -> None:
        away = release.theta - truth
        distance = np.sqrt(np.einsum("...i,...ij,...j->...", away, release.precision, away))
        share = distance / (release.radius / found.scale)
        least = np.linalg.eigvalsh(release.precision)[..., 0]
        values = (
            share <= 1,
            share,
            least > 2 * FLOOR * found.shift * found.unit**2,
            release.count,
            np.full(share.shape, found.fits),
            np.full(share.shape, found.regret),
        )
        for name, value in zip(MEASURES, values, strict=True):
            self._noted.setdefault(name, []).append(np.asarray(value, dtype=np.float64))
