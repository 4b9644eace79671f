"""The synthetic world of the paper's section 5.1, and variations on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence

from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray, finite, integer, one_of, positive, require
from quietshelf.research.environments.logit import KnownRound, LogitRound, PreparedRounds

CONTEXTS = ("normal", "clipped")
REVENUES = ("equal", "uniform")
THETA, FEATURES, CHOICE, REVENUE = range(4)
"""The roles of a replicate's random streams: changing one law leaves the draws of the others alone."""


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Visitors whose features of every item are drawn independently; multinomial logit choices.

    As printed in Cho and Sun, section 5.1, and the defaults here: 100 items of revenue 1, capacity 10, d = 5, contexts
    iid N(0, I), theta uniform on [0, 1]^d. Not in the paper: clipped contexts (its theory assumes |x| <= 1, which
    N(0, I) breaks), scale, fixed features, unequal revenues, a given theta, drift. The paper does not say whether theta
    is drawn again in each of its 30 replicates; here it is.

    Attributes:
        items: N.
        capacity: K.
        dim: d.
        contexts: ``normal``, x ~ N(0, I), or ``clipped``, the same moved to the unit ball, x min(1, 1/|x|).
        scale: Multiplies x.
        fixed: Whether an item's features are drawn once per replicate, the same for all visitors, not for each visitor.
        revenue: ``equal``, 1 for all, or ``uniform``, drawn on [0, 1] for each item once per replicate.
        theta: ``uniform`` on [0, 1]^d once per replicate, or given.
        drift: Standard deviation of the normal step that each coordinate of theta makes after every visitor.

    >>> Synthetic(items=3, capacity=4)
    Traceback (most recent call last):
    ...
    ValueError: capacity must be between 1 and items=3, got capacity=4
    """

    items: int = 100
    capacity: int = 10
    dim: int = 5
    contexts: str = "normal"
    scale: float = 1.0
    fixed: bool = False
    revenue: str = "equal"
    theta: str | tuple[float, ...] = "uniform"
    drift: float = 0.0

    def __post_init__(self) -> None:
        integer("items", self.items)
        integer("capacity", self.capacity, high=self.items, high_name="items")
        integer("dim", self.dim)
        one_of("contexts", self.contexts, CONTEXTS)
        positive("scale", self.scale)
        require(isinstance(self.fixed, bool), "fixed must be True or False", fixed=self.fixed)
        one_of("revenue", self.revenue, REVENUES)
        positive("drift", self.drift, zero=True)
        if isinstance(self.theta, str):
            require(self.theta == "uniform", f"theta must be uniform or {self.dim} numbers", theta=self.theta)
        else:
            given = finite("theta", self.theta, shape=(self.dim,))
            require(given.ndim == 1, f"theta must be uniform or {self.dim} numbers", theta=self.theta)
            object.__setattr__(self, "theta", tuple(given.tolist()))

    def open(self, seeds: Sequence[SeedSequence]) -> SyntheticEnvironment:
        """The world, once for each seed."""
        return SyntheticEnvironment(self, seeds)

    @property
    def conversion(self) -> float:
        """Share of visitors who choose something, as declared: if all items had the utility 0, as nothing has."""
        return self.capacity / (self.capacity + 1)

    @property
    def second_moment(self) -> FloatArray:
        """``E[x x']``, (d, d): what the declared law says of one item, before anybody came."""
        return self.scale**2 * (1.0 if self.contexts == "normal" else _clipped_square(self.dim)) * np.eye(self.dim)


class SyntheticEnvironment(PreparedRounds):
    """R replicates of a synthetic world, side by side; assortments may have an axis of contestants before theirs."""

    def __init__(self, world: Synthetic, seeds: Sequence[SeedSequence]) -> None:
        super().__init__(seeds, roles=4)
        self._world = world
        self._theta = self._first_theta()
        self._revenue: FloatArray = np.broadcast_to(1.0, (self._count, world.items))
        if world.revenue == "uniform":
            self._revenue = np.array(self._streams[REVENUE].random(self._revenue.shape))
        self._fixed = self._draw_features(1) if world.fixed else None

    @property
    def theta(self) -> FloatArray:
        """The tastes of the visitor who comes next, (R, d)."""
        return self._theta

    @property
    def ahead(self) -> bool:
        """Unless tastes drift."""
        return not self._world.drift

    def _prepared(self, many: int) -> KnownRound:
        """The next rounds; where tastes drift, just one, after which they move."""
        many, lead = (1 if self._world.drift else many), (self._count, self._world.items)
        x = (
            self._draw_features(many)
            if self._fixed is None
            else np.broadcast_to(self._fixed, (many, *self._fixed.shape[1:]))
        )
        revenue = np.broadcast_to(self._revenue, (many, *lead))
        context = Context(Dense(x), revenue, self._world.capacity)
        utility = context.features.utility(self._theta)
        draws = self._streams[CHOICE].rounds(many).random((many, self._count))
        best = LogitRound(context, utility, draws).best
        if self._world.drift:
            step = self._streams[THETA].standard_normal(self._theta.shape)
            self._theta = self._theta + self._world.drift * step
        return KnownRound(context, utility, draws, best)

    def _first_theta(self) -> FloatArray:
        shape = (self._count, self._world.dim)
        if self._world.theta == "uniform":
            return np.array(self._streams[THETA].random(shape))
        return np.array(np.broadcast_to(np.asarray(self._world.theta, dtype=np.float64), shape))

    def _draw_features(self, many: int) -> FloatArray:
        """Of so many rounds, (many, R, N, d), laid out as (many, R, d, N)."""
        shape = (many, self._count, self._world.dim, self._world.items)
        columns = self._streams[FEATURES].rounds(many).standard_normal(shape)
        factor: FloatArray | float = self._world.scale
        if self._world.contexts == "clipped":
            length = np.sqrt(np.einsum("trdn,trdn->trn", columns, columns))
            factor = (factor / np.maximum(length, 1.0))[:, :, None, :]
        if self._world.contexts == "clipped" or self._world.scale != 1.0:
            columns = columns * factor
        return np.swapaxes(columns, -1, -2)


def _clipped_square(dim: int) -> float:
    """``E[min(|z|², 1)] / d`` for z ~ N(0, I_d): |z|² is chi-square, and E[|z|²; |z| < 1] = d P(chi²_(d+2) < 1)."""
    from scipy.special import gammainc  # slow to import, and needed here only

    inside = dim * gammainc(dim / 2 + 1, 0.5)
    return float((inside + 1.0 - gammainc(dim / 2, 0.5)) / dim)
