"""The exact maximum-likelihood estimate, without privacy, refitted only when enough has been learnt.

Serves `greedy` (radius 0), `ucb-mnl` (Oh & Iyengar 2021) and `ts-mnl` (Oh & Iyengar 2019). After ``explore`` random
assortments theta is fitted to all rounds. A world is refitted when, since its last fit,

    schedule "determinant": det(V_t) has grown by more than the share ``growth``, V_t = ridge I + sum of x x' offered
    schedule "intervals":   the number of rounds has grown by that share; all worlds are then fitted together

so that a run of T rounds takes O(d log T) fits. Fits minimise ``-log-likelihood + ridge |theta|²/2``, so separable data
have an estimate too.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

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
        scale: Best far below the proven one, in which kappa is the least possible p_j p_0: that explores longer than
            needed.
    """

    dim: int
    scale: float

    def __post_init__(self) -> None:
        integer("dim", self.dim)
        positive("scale", self.scale, zero=True)

    def __call__(self, t: int) -> float:
        """The width for visitor t, counted from 1."""
        inside = 2 * self.dim * math.log1p(t / self.dim) + 2 * math.log(t)
        return self.scale * math.sqrt(inside)


class Path(NamedTuple):
    """Several rounds: their rows, V after each of them, and how many of them come before the next fit."""

    rows: FloatArray
    precision: FloatArray
    undisturbed: int

    def first(self, rounds: int) -> Path:
        """The first of them."""
        return Path(self.rows[:rounds], self.precision[:rounds], min(self.undisturbed, rounds))


class MaximumLikelihood(Exact):
    """A curator that refits theta to its whole history, in any number of parallel worlds.

    Args:
        dim: d.
        capacity: K.
        worlds: Leading axes of every round; () for one visitor at a time.
        explore: Number of random assortments before the first fit.
        ridge: Pull of every fit towards zero, and the precision before the first visitor; positive.
        growth: Share by which the determinant of V, or the number of rounds, must grow before the next fit.
        schedule: Which of the two must grow.
        precision: "gram" releases V_t, updated after every round; "information" releases the Fisher information at
            theta plus the ridge, which only changes at fits.
        radius: Optimism of the releases.
        fits: The most fits per world; None for no limit.
        horizon: Rounds to make room for at once, if their number is known.
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
        self._foresaw: Path | None = None  # of the rounds foreseen last, which mostly come true
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
        """Take in one visitor per world; refit where it is due."""
        seen = self._seen(round)
        self._history.append(seen, round)
        if self._moving:
            self._gram = self._gram + gram(seen.rows)
        return self._learnt()

    @property
    def _moving(self) -> bool:
        """Whether V_t is released or decides when to fit."""
        return self._precision == "gram" or self._schedule == "determinant"

    def _learnt(self) -> Release:
        """Refit where it is due, and update the release."""
        self._foresaw = None
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
        """Rounds until the next fit; 1 if V_t is released or decides when to fit."""
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
        """Take in several visitors per world, along the first axis; at most ``steady``, or as many as were foreseen."""
        many = len(rounds.choice)
        seen = self._seen(rounds, (many,))
        path = self._path(seen.rows) if self._moving else None
        most = self.steady if path is None else path.undisturbed
        require(many <= most, f"at most {most} rounds may be taken in at once", rounds=many)
        self._history.extend(seen, rounds)
        if path is not None:
            self._gram = path.precision[-1]
        return self._learnt()

    @property
    def foresee(self) -> Callable[[Round], Release] | None:
        """Predicts the releases for the next rounds from their offers; None unless V_t matters."""
        return self._foreseen if self._moving else None

    def _foreseen(self, offered: Round) -> Release:
        path = self._path(self._seen(offered, offered.choice.shape[:1]).rows)
        many, last = path.undisturbed, self._release
        fields: dict[str, Any] = {
            name: np.broadcast_to(each, (many, *each.shape)) for name, each in last.each().items()
        }
        if self._precision == "gram":
            begin, rounds = len(self._history), (many, *[1] * len(self._shape[0]))
            width = np.array([self._width(begin + later) for later in range(many)]).reshape(rounds)
            fields["precision"] = np.concatenate([last.precision[None], path.precision[: many - 1]])
            fields["radius"] = np.broadcast_to(width, fields["radius"].shape)
            fields["explore"] = np.broadcast_to(
                np.arange(begin, begin + many).reshape(rounds) < self._explore, fields["explore"].shape
            )
        return Release(**fields)

    def _path(self, rows: FloatArray) -> Path:
        """V after each of several rounds, (rounds, ..., d, d), summed in order; computed once for what was foreseen."""
        known = None if self._foresaw is None else self._foresaw.first(len(rows))
        if known is None or not np.array_equal(known.rows, rows):
            path = gram(rows)
            path[0] = self._gram + path[0]
            path = np.add.accumulate(path)
            known = self._foresaw = Path(rows, path, self._undisturbed(path))
        return known

    def _undisturbed(self, path: FloatArray) -> int:
        """The number of rounds, among those with these V, up to the first after which a fit is due."""
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
        """Where a fit is due after ``rounds`` rounds."""
        last = self._release
        if rounds <= self._explore:
            return np.full(last.count.shape, rounds == self._explore)
        if self._schedule == "determinant":
            grown = progress > self._mark + math.log1p(self._growth)
        else:
            grown = progress >= (1.0 + self._growth) * self._mark
        return np.asarray(grown & (last.count < self._fits))

    def _progress(self, rounds: int, precision: FloatArray) -> FloatArray:
        """What must grow, per world: the logarithm of the determinant of V, or the number of rounds."""
        if self._schedule == "determinant":
            return np.asarray(np.linalg.slogdet(precision)[1])
        return np.full(self._shape[0], float(rounds))
