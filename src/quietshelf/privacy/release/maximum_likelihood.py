"""The maximum-likelihood estimate, exact and without privacy, fitted again only when enough has been learnt.

Serves `greedy` (radius 0), `ucb-mnl` (Oh & Iyengar 2021) and `ts-mnl` (Oh & Iyengar 2019). After ``explore`` random
assortments theta is fitted to all rounds, and again in a world when, since its last fit,

    schedule "determinant": det(V_t) has grown by more than the share ``growth``, V_t = ridge I + sum of x x' offered
    schedule "intervals":   the number of rounds has grown by that share; then all worlds are fitted together

so that a run of T rounds takes O(d log T) fits. Fits minimise ``-log-likelihood + ridge |theta|²/2``: separable data
have an estimate too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, Release, Round, integer, one_of, positive, require
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.exact import Exact, Radius, exact_ledger
from quietshelf.privacy.release.history import rounds_until
from quietshelf.privacy.release.indexed_history import Memory, fit_rounds
from quietshelf.privacy.statistics import gram


@dataclass(frozen=True, kw_only=True)
class ConfidenceWidth:
    """``scale sqrt(2 d log(1 + t/d) + 2 log t)``: alpha_t of Oh & Iyengar (2021) for scale = 1/(2 kappa).

    Attributes:
        dim: d.
        scale: Far below the proven one, with kappa the least p_j p_0 that can occur: that explores longer than needed.
    """

    dim: int
    scale: float

    def __post_init__(self) -> None:
        integer("dim", self.dim)
        positive("scale", self.scale, zero=True)

    def __call__(self, t: int) -> float:
        """The width for visitor t, from 1 on."""
        inside = 2 * self.dim * math.log1p(t / self.dim) + 2 * math.log(t)
        return self.scale * math.sqrt(inside)


class MaximumLikelihood(Exact):
    """A curator that refits theta to its whole history, in any number of parallel worlds.

    Args:
        dim: d.
        capacity: K.
        worlds: Leading axes of every round; () for one visitor at a time.
        explore: Random assortments before the first fit.
        ridge: Pull of every fit towards zero, and the precision before the first visitor; positive.
        growth: By which share V's determinant, or the number of rounds, must grow before the next fit.
        schedule: Which of the two.
        precision: "gram" releases V_t, new after every round; "information" the Fisher information at theta plus the
            ridge, and nothing changes between fits.
        radius: Optimism of the releases.
        fits: The most fits of one world; None for no limit.
        horizon: Rounds to make room for at once, where their number is known.
    """

    ledger: Ledger = exact_ledger("maximum-likelihood estimate")

    def __init__(
        self,
        dim: int,
        capacity: int,
        *,
        worlds: tuple[int, ...] = (),
        explore: int = 5,
        ridge: float = 1.0,
        growth: float = 1.0,
        schedule: Literal["determinant", "intervals"] = "determinant",
        precision: Literal["gram", "information"] = "gram",
        radius: Radius = 0.0,
        fits: int | None = None,
        horizon: int | None = None,
    ) -> None:
        super().__init__(worlds, capacity, dim, radius)
        one_of("schedule", schedule, ("determinant", "intervals"))
        one_of("precision", precision, ("gram", "information"))
        self._explore = integer("explore", explore, low=0)
        self._ridge = positive("ridge", ridge)
        self._growth = positive("growth", growth)
        self._schedule, self._precision = schedule, precision
        self._fits = math.inf if fits is None else integer("fits", fits)
        self._history = Memory(*self._shape, horizon=horizon)
        self._gram = np.broadcast_to(self._ridge * np.eye(dim), (*worlds, dim, dim))
        self._mark = self._progress(0, self._gram)
        self._release = Release(
            theta=np.zeros((*worlds, dim)),
            precision=self._gram,
            radius=np.full(worlds, self._width(0)),
            explore=np.full(worlds, self._explore > 0),
            count=np.zeros(worlds, dtype=np.int64),
        )

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor of each world; fit again where it is due."""
        seen = self._seen(round)
        self._history.append(seen, round)
        if self._moving:
            self._gram = self._gram + gram(seen.rows)
        return self._learnt()

    @property
    def _moving(self) -> bool:
        """Whether V_t is released, or decides when to fit."""
        return self._precision == "gram" or self._schedule == "determinant"

    def _learnt(self) -> Release:
        """Fit again where it is due, and release."""
        due = self._due(len(self._history), self._progress(len(self._history), self._gram))
        if due.any():
            self._refit(due)
        if self._precision == "gram":
            worlds = self._shape[0]
            radius = np.full(worlds, self._width(len(self._history)))
            explore = np.full(worlds, len(self._history) < self._explore)
            self._release = replace(self._release, precision=self._gram, radius=radius, explore=explore)
        return self._release

    @property
    def steady(self) -> int:
        """Rounds until the next fit; one where V_t is released, or decides when to fit."""
        if self._moving:
            return 1
        rounds, last = len(self._history), self._release
        if rounds < self._explore:
            return self._explore - rounds
        fitting = last.count < self._fits
        if not fitting.any():
            return sys.maxsize
        return max(1, math.ceil((1.0 + self._growth) * float(self._mark[fitting].min())) - rounds)

    def observe_rounds(self, rounds: Round) -> Release:
        """Take in several visitors of each world, along the first axis; no more than are ``steady`` or foreseen."""
        many = len(rounds.choice)
        seen = self._seen(rounds, (many,))
        path = self._path(seen.rows) if self._moving else None
        most = self.steady if path is None else self._undisturbed(path)
        require(many <= most, f"at most {most} rounds may be taken in at once", rounds=many)
        self._history.extend(seen, rounds)
        if path is not None:
            self._gram = path[-1]
        return self._learnt()

    @property
    def foresee(self) -> Callable[[Round], Release] | None:
        """The releases that rounds will be served from if this is what they are offered; where V_t matters."""
        return self._foreseen if self._moving else None

    def _foreseen(self, offered: Round) -> Release:
        path = self._path(self._seen(offered, offered.choice.shape[:1]).rows)
        many, last = self._undisturbed(path), self._release
        fields: dict[str, Any] = {
            name: np.broadcast_to(each, (many, *each.shape)) for name, each in last.each().items()
        }
        if self._precision == "gram":
            begin, rounds = len(self._history), (many, *[1] * len(self._shape[0]))
            width = np.array([self._width(begin + later) for later in range(many)]).reshape(rounds)
            fields["precision"] = np.concatenate([last.precision[None], path[: many - 1]])
            fields["radius"] = np.broadcast_to(width, fields["radius"].shape)
            fields["explore"] = np.broadcast_to(
                np.arange(begin, begin + many).reshape(rounds) < self._explore, fields["explore"].shape
            )
        return Release(**fields)

    def _path(self, rows: FloatArray) -> FloatArray:
        """V after each of several rounds, (rounds, ..., d, d), added up in their order."""
        path = gram(rows)
        path[0] = self._gram + path[0]
        return np.add.accumulate(path)

    def _undisturbed(self, path: FloatArray) -> int:
        """Rounds, of those that lead through these V, up to the first after which a fit is due."""
        begin = len(self._history) + 1
        if self._schedule == "determinant" and begin > self._explore:
            return rounds_until(self._due(begin, self._progress(begin, path)))
        each = enumerate(path, begin)
        return rounds_until(np.stack([self._due(rounds, self._progress(rounds, one)) for rounds, one in each]))

    def _refit(self, due: BoolArray) -> None:
        last, dim = self._release, self._shape[2]
        theta, precision = last.theta.reshape(-1, dim).copy(), last.precision.reshape(-1, dim, dim).copy()
        for group, rounds in self._history.parts(np.flatnonzero(due)):
            fitted = fit_rounds(rounds, ridge=self._ridge, start=theta[group])
            theta[group] = fitted.theta
            precision[group] = fitted.information + self._ridge * np.eye(dim)
        self._mark = np.where(due, self._progress(len(self._history), self._gram), self._mark)
        self._release = Release(
            theta=theta.reshape(last.theta.shape),
            precision=precision.reshape(last.precision.shape),
            radius=np.where(due, self._width(len(self._history)), last.radius),
            explore=np.zeros_like(last.explore),
            count=np.asarray(last.count + due),
        )

    def _due(self, rounds: int, progress: FloatArray) -> BoolArray:
        """Where a fit is due after so many rounds."""
        last = self._release
        if rounds <= self._explore:
            return np.full(last.count.shape, rounds == self._explore)
        if self._schedule == "determinant":
            grown = progress > self._mark + math.log1p(self._growth)
        else:
            grown = progress >= (1.0 + self._growth) * self._mark
        return np.asarray(grown & (last.count < self._fits))

    def _progress(self, rounds: int, precision: FloatArray) -> FloatArray:
        """What must grow, in each world: the determinant of V (its logarithm), or the number of rounds."""
        if self._schedule == "determinant":
            return np.asarray(np.linalg.slogdet(precision)[1])
        return np.full(self._shape[0], float(rounds))
