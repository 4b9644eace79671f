"""Thompson sampling with optimistic sampling, TS-MNL.

Reference: Oh and Iyengar, "Thompson Sampling for Multinomial Logit Contextual Bandits", NeurIPS 2019, Algorithm 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quietshelf.model.types import Context, FloatArray, IntArray, Random, Release, anywhere, integer
from quietshelf.policies.chance import batch_of, decide
from quietshelf.policies.optimism import best_at

OPTIMISTIC = 1.0 / (4.0 * math.sqrt(math.e * math.pi))
"""How likely, at least, one draw is optimistic about one item."""


@dataclass(frozen=True)
class Thompson:
    """The exact best assortment when each item has the largest of its utilities over several draws of theta.

    Attributes:
        samples: M, draws a visitor; None for the paper's number, `paper_samples`.
    """

    stacks: ClassVar[bool] = True

    samples: int | None = None

    def __post_init__(self) -> None:
        if self.samples is not None:
            integer("samples", self.samples)

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        samples = paper_samples(context.capacity) if self.samples is None else self.samples
        draws = draw_theta(release, samples, rng, batch_of(context, release))
        with np.errstate(over="ignore", invalid="ignore"):
            utility = context.features.utility(draws).max(axis=0)
        return decide(context, release, utility, rng)


def paper_samples(capacity: int) -> int:
    """``ceil(1 - log K / log(1 - p))``: enough that all K best items are optimistic at once with probability p or more.

    One draw is optimistic about an item with probability p at least, so M draws miss one of K items with probability
    ``K (1 - p)^M`` at most; this M makes that at most ``1 - p``.

    >>> paper_samples(10)
    27
    """
    return math.ceil(1.0 - math.log(capacity) / math.log1p(-OPTIMISTIC))


def draw_theta(release: Release, samples: int, rng: Random, batch: tuple[int, ...] | None = None) -> FloatArray:
    """Draws of ``N(theta, radius² covariance)``, (samples, ..., d), for each visitor of ``batch``."""
    *own, dim = release.theta.shape
    batch = tuple(own) if batch is None else batch
    z = np.swapaxes(rng.standard_normal((*batch, samples, dim)), -1, -2)
    upper = np.swapaxes(np.linalg.cholesky(release.precision), -1, -2)
    spread = release.radius[..., None, None] * np.linalg.solve(upper, z)
    return np.ascontiguousarray(release.theta + np.moveaxis(spread, -1, 0))


@dataclass(frozen=True)
class OptimisticDraw:
    """The assortment that is best for tastes drawn for this visitor, each item given the benefit of the doubt.

    Draws, ``N(theta, draws² covariance)``, make visitors of one batch see different items: where all see the same
    products, a batch would otherwise teach nothing of those that are not shown. Where features vary from visitor to
    visitor the release asks for none: optimism does.
    """

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        with np.errstate(over="ignore", invalid="ignore"):
            drawn = _tastes(release, rng, batch_of(context, release))
            return best_at(context, release, drawn, release.radius, rng)


def _tastes(release: Release, rng: Random, batch: tuple[int, ...]) -> FloatArray:
    """Tastes drawn for each visitor of ``batch``, (..., d); theta where the release asks for no draws.

    Nothing is drawn then by a `SelectiveRandom`; any other generator draws always: `Streams` stay in step.
    """
    shape, drawn = (*batch, release.theta.shape[-1]), anywhere(release.draws)
    if hasattr(rng, "random_where") and not drawn:
        return np.zeros(shape) + release.theta
    normal = rng.standard_normal(shape)
    if not drawn:
        return np.broadcast_to(release.theta, shape)
    away = (normal[..., None, :] @ release.root.swapaxes(-1, -2))[..., 0, :]
    return np.ascontiguousarray(release.theta + release.draws[..., None] * away)
