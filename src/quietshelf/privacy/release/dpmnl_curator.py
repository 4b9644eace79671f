"""The curator of DPMNL: random assortments first, then a noisy Gram matrix every round and occasional private fits.

Releases: V_t after every visitor; theta after T0 visitors and whenever det V_t, or the number of visitors, has
    doubled, at most D_MLE times.
Neighbours: one visitor replaced; every visitor is in every later release.
Sensitivity, noise: those of the plan's continual sum (`tree` or `toeplitz`) and of `objective_perturbation`.
Privacy: the continual release's event once, and the fit's for each fit, both on the whole history. The ledger is that
    of the world with the most fits. The times of fits are functions of V_t, which is released, so they cost nothing.
Assumes: the hard cap on fits, which includes the T0 fit. The trigger never looks at exact matrices.
Reference: docs/proofs.md, sections 2 and 15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quietshelf.model.types import BoolArray, FloatArray, IntArray, Release, Round, require
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.dpmnl import Plan
from quietshelf.privacy.release.history import contributing, rounds_until
from quietshelf.privacy.release.indexed_history import Memory, visits_of
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.objective_perturbation import private_fit
from quietshelf.privacy.release.shared_trees import together
from quietshelf.privacy.release.tree import ContinualSum, State, Tree
from quietshelf.privacy.statistics import ObservedChoice, clip, gram

FLOOR = 1e-6
"""Floor of the eigenvalues of V_t, as a share of lambda: it cuts off noise beyond lambda, which costs nothing."""


class Sizes(NamedTuple):
    """Leading axes of every round, K and d."""

    worlds: tuple[int, ...]
    capacity: int
    dim: int


class After(NamedTuple):
    """The result of several rounds: the last state, and after each round V_t, log det V_t and where a fit is due."""

    state: State
    precision: FloatArray
    size: FloatArray
    due: BoolArray


class DpmnlCurator:
    """Runs a plan in any number of parallel worlds, or several plans side by side in the same worlds.

    Args:
        plan: The plan.
        source: The source of the fits' noise; continuous.
        dim: d.
        capacity: K.
        worlds: Leading axes of every round.
    """

    def __init__(
        self, plan: Plan, source: NoiseSource, *, dim: int, capacity: int, worlds: tuple[int, ...] = ()
    ) -> None:
        self._plans: tuple[Plan, ...] = (plan,)
        self._sources: tuple[NoiseSource, ...] = (source,)
        self._sizes = Sizes(worlds, capacity, dim)
        self._ledgers = [Ledger(budget=plan.budget).spend(plan.continual.event)]
        self._begin(plan.continual)

    @classmethod
    def merge(cls, curators: Sequence[DpmnlCurator]) -> DpmnlCurator:
        """Merge curators of equal `batch_key` into one, along a new leading axis."""
        joint, sizes = cls.__new__(cls), curators[0]._sizes
        joint._plans = tuple(plan for each in curators for plan in each._plans)
        joint._sources = tuple(source for each in curators for source in each._sources)
        joint._ledgers = [ledger for each in curators for ledger in each._ledgers]
        joint._sizes = sizes._replace(worlds=(len(joint._plans), *sizes.worlds))
        joint._begin(together([plan.continual for plan in joint._plans if isinstance(plan.continual, Tree)]))
        return joint

    def _begin(self, continual: ContinualSum) -> None:
        worlds, capacity, dim = self._sizes
        self._history = Memory(worlds, capacity, dim, horizon=continual.horizon, clip=self._plan.clip)
        self._continual, self._state = continual, continual.start(worlds)
        self._drawn: list[FloatArray] = []  # noise of the rounds to come
        self._foresaw: tuple[FloatArray, After] | None = None  # what was foreseen last, which usually happens
        self._shift = self._column([plan.shift for plan in self._plans])
        self._fits = self._column([plan.fits for plan in self._plans])
        triggers = np.array([plan.trigger for plan in self._plans])
        self._literal, self._doubling = (self._column(triggers == name) for name in ("literal", "doubling"))
        start = 2 * self._shift[..., None, None] * np.eye(dim)
        self._mark = np.broadcast_to(np.linalg.slogdet(start)[1], worlds)
        self._release = Release(
            theta=np.zeros((*worlds, dim)),
            precision=np.broadcast_to(start * self._unit**2, (*worlds, dim, dim)),
            radius=np.broadcast_to(self._column([plan.radius(1) for plan in self._plans]), worlds),
            explore=np.ones(worlds, dtype=bool),
            count=np.zeros(worlds, dtype=np.int64),
        )

    @property
    def batch_key(self) -> Hashable:
        """Equal for curators that differ only in numbers and can be merged; None for one that cannot."""
        plan = self._plan
        if len(self._history) or not isinstance(plan.continual, Tree) or plan.continual.source.grid:
            return None
        return plan.explore, plan.clip, plan.bounded, plan.continual.horizon, self._sizes

    @property
    def _plan(self) -> Plan:
        """The first plan, for what merged curators have in common."""
        return self._plans[0]

    def _column(self, values: Sequence[float] | BoolArray) -> NDArray[Any]:
        """One number per plan, shaped to broadcast over all worlds: (C, 1, ...), or () for a single plan."""
        return np.reshape(values, () if len(self._plans) == 1 else (-1, *[1] * (len(self._sizes.worlds) - 1)))

    @property
    def _unit(self) -> float:
        """What features are divided by: theta is divided by it as well, the precision multiplied by its square."""
        return 1.0 if self._plan.clip is None else self._plan.clip

    @property
    def ledger(self) -> Ledger:
        """What has been spent in the world with the most fits."""
        return self._ledgers[0]

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """The ledger of every plan."""
        return tuple(self._ledgers)

    @property
    def release(self) -> Release:
        """The last release."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """Take in one visitor per world: release a new V_t, and a new theta where it is due."""
        seen = self._seen(round)
        after = self._after(gram(seen.rows)[None])  # refuses bad rounds before anything changes
        self._history.append(seen, round)
        return self._learnt(after)

    def observe_rounds(self, rounds: Round) -> Release:
        """Take in several visitors per world, along the first axis; a fit may be due only after the last of them."""
        many = len(rounds.choice)
        seen = self._seen(rounds, (many,))
        after = self._after(gram(seen.rows))
        most = rounds_until(after.due)
        require(many <= most, f"at most {most} rounds may be taken in at once", rounds=many)
        self._history.extend(seen, rounds)
        return self._learnt(after)

    @property
    def foresee(self) -> Callable[[Round], Release] | None:
        """Predicts the releases for the next rounds from their offers; None if noise must not be drawn in advance."""
        able = isinstance(self._continual, Tree) and getattr(self._continual.source, "foreseeable", False)
        return self._foreseen if able else None

    def _foreseen(self, offered: Round) -> Release:
        after, t = self._after(gram(self._seen(offered, offered.choice.shape[:1]).rows)), len(self._history)
        many, last = rounds_until(after.due), self._release
        fields: dict[str, Any] = {
            name: np.broadcast_to(each, (many, *each.shape)) for name, each in last.each().items()
        }
        fields["precision"] = np.concatenate([last.precision[None], after.precision[: many - 1] * self._unit**2])
        fields["radius"] = np.stack([self._radius(t + later) for later in range(many)])
        fields["explore"] = np.stack([self._exploring(t + later) for later in range(many)])
        return Release(**fields)

    def _seen(self, round: Round, rounds: tuple[int, ...] = ()) -> ObservedChoice:  # noqa: A002 - the noun on the arrow
        """What was shown and chosen, checked and clipped; ``rounds`` is the axis of rounds, if there is one."""
        worlds, capacity, dim = self._sizes
        seen = contributing(round, worlds=(*rounds, *worlds), capacity=capacity, dim=dim)
        return seen if self._plan.clip is None else seen._replace(rows=clip(seen.rows, self._plan.clip))

    def _after(self, grams: FloatArray) -> After:
        """Work out the result of several rounds, (rounds, ...), without learning from it; may draw noise in advance."""
        if self._foresaw is not None and np.array_equal(self._foresaw[0], grams):
            return self._foresaw[1]
        if isinstance(self._continual, Tree):
            while len(self._drawn) < len(grams):
                self._drawn.append(self._continual.draw(self._state))
            state, noisy = self._continual.add_rounds(self._state, grams, self._drawn[: len(grams)])
        else:
            state, one = self._continual.add(self._state, grams[0])
            noisy = one[None]
        precision, size = self._shifted(noisy)
        after = After(state, precision, size, self._due(size))
        self._foresaw = grams, after
        return after

    def _learnt(self, after: After) -> Release:
        """Update and return the release after rounds just taken in."""
        size, due, self._state = after.size[-1], after.due[-1], after.state
        self._foresaw = None
        del self._drawn[: len(after.due)]
        theta, count = self._release.theta, self._release.count
        if due.any():
            theta, count = self._fitted(due), np.asarray(count + due)
            self._mark = np.where(due, size, self._mark)
        if self._literal.any():
            self._mark = np.where(self._literal, size, self._mark)
        t = len(self._history)
        self._release = Release(
            theta=theta,
            precision=after.precision[-1] * self._unit**2,
            radius=self._radius(t),
            explore=self._exploring(t),
            count=count,
        )
        return self._release

    def _radius(self, t: int) -> FloatArray:
        """The radius for the visitor after t others."""
        return np.broadcast_to(self._column([plan.radius(t + 1) for plan in self._plans]), self._sizes.worlds)

    def _exploring(self, t: int) -> BoolArray:
        return np.full(self._sizes.worlds, t < self._plan.explore)

    def _shifted(self, noisy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The noisy sum plus 2 lambda I with eigenvalues floored, and the logarithm of its determinant."""
        dim, floor = noisy.shape[-1], np.broadcast_to(FLOOR * self._shift, noisy.shape[:-2])
        precision = noisy + 2 * self._shift[..., None, None] * np.eye(dim)
        try:
            size = _log_determinant(precision)
        except np.linalg.LinAlgError:
            certain = np.zeros(precision.shape[:-2], dtype=bool)
            size = np.zeros(certain.shape)
        else:
            # The least of d positive eigenvalues is at least det / (trace / (d - 1))^(d-1).
            most = np.trace(precision, axis1=-2, axis2=-1) / max(dim - 1, 1)
            certain = size >= np.log(floor) + (dim - 1) * np.log(most)
        if not certain.all():
            precision[~certain], size[~certain] = _floored(precision[~certain], floor[~certain])
        return precision, size

    def _due(self, size: FloatArray) -> BoolArray:
        """Where a fit is due after each of the next rounds, (rounds, ...), if none was due before."""
        rounds = len(self._history) + np.arange(1, 1 + len(size)).reshape(-1, *[1] * (size.ndim - 1))
        explore, mark = self._plan.explore, self._mark[None]
        if self._literal.any():
            mark = np.where(self._literal, np.concatenate([mark, size[:-1]]), mark)
        grown = size > mark + math.log(2.0)
        if self._doubling.any():
            times, rest = np.divmod(rounds, explore)
            grown = np.where(self._doubling, (rest == 0) & (np.bitwise_count(times) == 1), grown)
        grown &= self._release.count < self._fits
        return np.where(rounds <= explore, rounds == explore, grown) if rounds.item(0) <= explore else grown

    def _fitted(self, due: BoolArray) -> FloatArray:
        """Fit theta where due; the price is entered before the noise is drawn."""
        flat = self._release.theta.reshape(-1, self._release.theta.shape[-1]).copy()
        size = len(flat) // len(self._plans)
        for number, some in enumerate(due.reshape(len(self._plans), size)):
            if some.any():
                self._fit(number, number * size + np.flatnonzero(some), flat)
        return flat.reshape(self._release.theta.shape)

    def _fit(self, number: int, worlds: IntArray, theta: FloatArray) -> None:
        """Fit one plan in some worlds, given by flat index over all leading axes, and write into theta (worlds, d)."""
        plan, before = self._plans[number], number * len(theta) // len(self._plans)
        if int(self._release.count.reshape(-1)[worlds].max()) + 2 > len(self._ledgers[number].events):
            self._ledgers[number] = self._ledgers[number].spend(plan.fit_price)
        for group, rounds in self._history.parts(worlds):
            found = private_fit(
                visits_of(rounds),
                perturbation=plan.perturbation,
                source=self._sources[number].only(group - before),
                batch="history",
                bounded=plan.bounded,
                start=theta[group] * self._unit,
            )
            theta[group] = found.theta / self._unit


def _floored(precision: FloatArray, floor: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Matrices (n, d, d) with eigenvalues raised to the floors (n,), and the logarithms of their determinants.

    World by world: the result for one must not depend, in the last bit, on the others.
    """
    values, vectors = np.linalg.eigh(precision)
    low = values[:, 0] < floor
    values = np.maximum(values, floor[:, None])
    lifted = (vectors * values[..., None, :]) @ vectors.mT
    size = np.log(values).sum(-1)
    if not low.all():
        size[~low] = _log_determinant(precision[~low])
    return np.where(low[:, None, None], lifted, precision), size


def _log_determinant(matrix: FloatArray) -> FloatArray:
    """The logarithm of the determinant, by Cholesky; raises if a matrix is not positive definite."""
    diagonal = np.diagonal(np.linalg.cholesky(matrix), axis1=-2, axis2=-1)
    return np.asarray(2.0 * np.log(diagonal).sum(-1))
