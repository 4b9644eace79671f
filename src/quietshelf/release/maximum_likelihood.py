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
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.release.exact import Exact, Radius, exact_ledger
from quietshelf.release.indexed_history import Memory, fit_rounds
from quietshelf.statistics import gram
from quietshelf.types import BoolArray, FloatArray, Release, Round, one_of, positive, require, whole


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
        whole("dim", self.dim)
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
        self._explore = whole("explore", explore, low=0)
        self._ridge = positive("ridge", ridge)
        self._growth = positive("growth", growth)
        self._schedule, self._precision = schedule, precision
        self._fits = math.inf if fits is None else whole("fits", fits)
        self._history = Memory(*self._shape, horizon=horizon)
        self._gram = np.broadcast_to(self._ridge * np.eye(dim), (*worlds, dim, dim))
        self._mark = self._progress()
        self._release = Release(
            theta=np.zeros((*worlds, dim)),
            precision=self._gram,
            radius=np.full(worlds, self._width(0)),
            explore=np.full(worlds, self._explore > 0),
            count=np.zeros(worlds, dtype=np.int64),
        )

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor of each world; fit again where it is due."""
        seen, worlds = self._seen(round), self._shape[0]
        self._history.append(seen, round)
        if self._precision == "gram" or self._schedule == "determinant":
            self._gram = self._gram + gram(seen.rows)
        due = self._due()
        if due.any():
            self._refit(due)
        if self._precision == "gram":
            radius = np.full(worlds, self._width(len(self._history)))
            explore = np.full(worlds, len(self._history) < self._explore)
            self._release = replace(self._release, precision=self._gram, radius=radius, explore=explore)
        return self._release

    @property
    def steady(self) -> int:
        """Rounds until the next fit; one where V_t is released, or decides when to fit."""
        if self._precision == "gram" or self._schedule == "determinant":
            return 1
        rounds, last = len(self._history), self._release
        if rounds < self._explore:
            return self._explore - rounds
        fitting = last.count < self._fits
        if not fitting.any():
            return sys.maxsize
        return max(1, math.ceil((1.0 + self._growth) * float(self._mark[fitting].min())) - rounds)

    def observe_rounds(self, rounds: Round) -> Release:
        """Take in several visitors of each world, along the first axis; no more than are ``steady``."""
        many = len(rounds.choice)
        require(many <= self.steady, f"at most {self.steady} rounds may be taken in at once", rounds=many)
        self._history.extend(self._seen(rounds, (many,)), rounds)
        due = self._due()
        if due.any():
            self._refit(due)
        return self._release

    def _refit(self, due: BoolArray) -> None:
        last, dim = self._release, self._shape[2]
        theta, precision = last.theta.reshape(-1, dim).copy(), last.precision.reshape(-1, dim, dim).copy()
        for group, rounds in self._history.parts(np.flatnonzero(due)):
            fitted = fit_rounds(rounds, ridge=self._ridge, start=theta[group])
            theta[group] = fitted.theta
            precision[group] = fitted.information + self._ridge * np.eye(dim)
        self._mark = np.where(due, self._progress(), self._mark)
        self._release = Release(
            theta=theta.reshape(last.theta.shape),
            precision=precision.reshape(last.precision.shape),
            radius=np.where(due, self._width(len(self._history)), last.radius),
            explore=np.zeros_like(last.explore),
            count=np.asarray(last.count + due),
        )

    def _due(self) -> BoolArray:
        rounds, last = len(self._history), self._release
        if rounds <= self._explore:
            return np.full(last.count.shape, rounds == self._explore)
        progress = self._progress()
        if self._schedule == "determinant":
            grown = progress > self._mark + math.log1p(self._growth)
        else:
            grown = progress >= (1.0 + self._growth) * self._mark
        return np.asarray(grown & (last.count < self._fits))

    def _progress(self) -> FloatArray:
        """What must grow, in each world: the determinant of V (its logarithm), or the number of rounds."""
        if self._schedule == "determinant":
            return np.asarray(np.linalg.slogdet(self._gram)[1])
        return np.full(self._shape[0], float(len(self._history)))
