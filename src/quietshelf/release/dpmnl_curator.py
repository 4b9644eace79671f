"""The curator of DPMNL: random assortments first, then a noisy Gram matrix every round and a private fit now and then.

Releases: V_t after every visitor, and theta after T0 visitors and whenever det V_t has doubled, at most D_MLE times.
Neighbours: one visitor replaced; every visitor is in every later release.
Privacy: the continual release's event once, and the fit's for each fit, both on the whole history. The ledger is that
    of the world with the most fits. Times of fits are functions of V_t, which is released: they cost nothing.
Assumes: the hard cap on fits; the T0 fit is counted in it. The trigger never looks at exact matrices.
Reference: docs/proofs.md, sections 2 and 15.
"""

from __future__ import annotations

import math

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.release.dpmnl import Plan
from quietshelf.release.history import History, contributing
from quietshelf.release.noise import NoiseSource
from quietshelf.release.objective_perturbation import private_fit
from quietshelf.statistics import Shown, clip, gram
from quietshelf.types import BoolArray, FloatArray, Release, Round

FLOOR = 1e-6
"""Share of lambda below which no eigenvalue of V_t falls: noise beyond lambda is cut off, which costs nothing."""


class DpmnlCurator:
    """Runs a plan in any number of parallel worlds.

    Args:
        plan: The numbers.
        source: Where the noise of fits comes from; continuous.
        dim: d.
        capacity: K.
        worlds: Leading axes of every round.
    """

    def __init__(
        self, plan: Plan, source: NoiseSource, *, dim: int, capacity: int, worlds: tuple[int, ...] = ()
    ) -> None:
        self._plan, self._source = plan, source
        self._sizes = {"dim": dim, "capacity": capacity, "worlds": worlds}
        self._history = History(worlds, capacity, dim, horizon=plan.continual.horizon)
        self._state = plan.continual.start(worlds)
        self._ledger = Ledger(budget=plan.budget).spend(plan.continual.event)
        start = 2 * plan.shift * np.eye(dim)
        self._mark = np.full(worlds, np.linalg.slogdet(start)[1])
        self._release = Release(
            theta=np.zeros((*worlds, dim)),
            precision=np.broadcast_to(start * self._unit**2, (*worlds, dim, dim)),
            radius=np.full(worlds, plan.radius(1)),
            explore=np.ones(worlds, dtype=bool),
            count=np.zeros(worlds, dtype=np.int64),
        )

    @property
    def _unit(self) -> float:
        """By how much features are divided before they are used: theta is divided by it, the precision multiplied."""
        return 1.0 if self._plan.clip is None else self._plan.clip

    @property
    def ledger(self) -> Ledger:
        """What was spent in the world with the most fits."""
        return self._ledger

    @property
    def release(self) -> Release:
        """The last release."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """One visitor in each world: a new V_t, and a new theta where it is due."""
        seen = self._clipped(contributing(round, **self._sizes))  # type: ignore[arg-type]
        self._state, noisy = self._plan.continual.add(self._state, gram(seen.rows))  # refuses what it cannot bear
        self._history.append(seen)
        precision, size = self._shifted(noisy)
        due = self._due(size)
        theta, count = self._release.theta, self._release.count
        if due.any():
            theta, count = self._fitted(due), np.asarray(count + due)
            self._mark = np.where(due, size, self._mark)
        if self._plan.trigger == "literal":
            self._mark = size
        t = len(self._history)
        self._release = Release(
            theta=theta,
            precision=precision * self._unit**2,
            radius=np.full(count.shape, self._plan.radius(t + 1)),
            explore=np.full(count.shape, t < self._plan.explore),
            count=count,
        )
        return self._release

    def _clipped(self, seen: Shown) -> Shown:
        if self._plan.clip is None:
            return seen
        return seen._replace(rows=clip(seen.rows, self._plan.clip))

    def _shifted(self, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """V_t + 2 lambda I, eigenvalues floored, and the logarithm of its determinant."""
        dim, floor = noisy.shape[-1], FLOOR * self._plan.shift
        precision = noisy + 2 * self._plan.shift * np.eye(dim)
        try:
            size = _log_determinant(precision)
        except np.linalg.LinAlgError:
            certain = np.zeros(precision.shape[:-2], dtype=bool)
            size = np.zeros(certain.shape)
        else:
            # The least of d positive eigenvalues is at least det / (the mean of the others, if they had it all)^(d-1).
            most = np.trace(precision, axis1=-2, axis2=-1) / max(dim - 1, 1)
            certain = size >= math.log(floor) + (dim - 1) * np.log(most)
        if not certain.all():
            precision[~certain], size[~certain] = _floored(precision[~certain], floor)
        return precision, size

    def _due(self, size: FloatArray) -> BoolArray:
        rounds, count = len(self._history), self._release.count
        if rounds <= self._plan.explore:
            return np.full(count.shape, rounds == self._plan.explore)
        return np.asarray((size > self._mark + math.log(2.0)) & (count < self._plan.fits))

    def _fitted(self, due: BoolArray) -> FloatArray:
        """New theta where due; the price is entered before the noise is drawn."""
        if int(self._release.count[due].max()) + 2 > len(self._ledger.events):
            self._ledger = self._ledger.spend(self._plan.fit_price)
        plan, flat = self._plan, self._release.theta.reshape(-1, self._release.theta.shape[-1]).copy()
        for group, rounds in self._history.parts(np.flatnonzero(due)):
            found = private_fit(
                rounds.features,
                rounds.choice,
                rounds.available,
                perturbation=plan.perturbation,
                source=self._source.only(group),
                visitors="history",
                bounded=plan.bounded,
                start=flat[group] * self._unit,
            )
            flat[group] = found.theta / self._unit
        return flat.reshape(self._release.theta.shape)


def _floored(precision: FloatArray, floor: float) -> tuple[FloatArray, FloatArray]:
    """Matrices (n, d, d) with eigenvalues raised to the floor, and the logarithms of their determinants.

    World by world: what becomes of one must not depend, in the last bit, on what runs beside it.
    """
    values, vectors = np.linalg.eigh(precision)
    low = values[:, 0] < floor
    values = np.maximum(values, floor)
    lifted = (vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    size = np.log(values).sum(-1)
    if not low.all():
        size[~low] = _log_determinant(precision[~low])
    return np.where(low[:, None, None], lifted, precision), size


def _log_determinant(matrix: FloatArray) -> FloatArray:
    """By Cholesky; raises if a matrix is not positive definite."""
    diagonal = np.diagonal(np.linalg.cholesky(matrix), axis1=-2, axis2=-1)
    return np.asarray(2.0 * np.log(diagonal).sum(-1))
