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
from quietshelf.policies.optimism import best_for

OPTIMISTIC = 1.0 / (4.0 * math.sqrt(math.e * math.pi))
"""Least probability that one draw is optimistic about one item."""


@dataclass(frozen=True)
class Thompson:
    """The exact best assortment when each item has the largest of its utilities over several draws of theta.

    Attributes:
        samples: M, draws per visitor; None for the paper's number, `paper_samples`.
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
    """``ceil(1 - log K / log(1 - p))``: draws enough to be optimistic about all K best items, with probability p.

    One draw is optimistic about an item with probability at least p, so M draws miss one of K items with probability at
    most ``K (1 - p)^M``; this M makes that at most ``1 - p``.

    >>> paper_samples(10)
    27
    """
    return math.ceil(1.0 - math.log(capacity) / math.log1p(-OPTIMISTIC))


def draw_theta(release: Release, samples: int, rng: Random, batch: tuple[int, ...] | None = None) -> FloatArray:
    """Draw from ``N(theta, radius² covariance)``, (samples, ..., d), for each visitor of ``batch``."""
    *own, dim = release.theta.shape
    batch = tuple(own) if batch is None else batch
    z = rng.standard_normal((*batch, samples, dim)).mT
    upper = np.linalg.cholesky(release.precision).mT
    spread = release.radius[..., None, None] * np.linalg.solve(upper, z)
    return np.ascontiguousarray(release.theta + np.moveaxis(spread, -1, 0))


@dataclass(frozen=True)
class OptimisticDraw:
    """The best assortment for tastes drawn for this visitor, plus optimism about each item.

    The draws, ``N(theta, draws² covariance)``, make the visitors of one batch see different items: if all saw the same
    products, the batch would teach nothing about the rest. Where features vary between visitors, optimism is enough and
    the release asks for no draws.
    """

    stacks: ClassVar[bool] = True

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """The assortment to show, (..., K) item indices with -1 for empty places."""
        with np.errstate(over="ignore", invalid="ignore"):
            drawn = _tastes(release, rng, batch_of(context, release))
        return best_for(context, release, drawn, release.radius, rng)


def _tastes(release: Release, rng: Random, batch: tuple[int, ...]) -> FloatArray:
    """Draw tastes for each visitor of ``batch``, (..., d); theta itself if the release asks for no draws.

    A generator per visitor (``random_where``) then draws nothing; any other always draws, so that `Streams` stay in
    step.
    """
    shape, drawn = (*batch, release.theta.shape[-1]), anywhere(release.draws)
    if hasattr(rng, "random_where") and not drawn:
        return np.zeros(shape) + release.theta
    normal = rng.standard_normal(shape)
    if not drawn:
        return np.broadcast_to(release.theta, shape)
    away = (normal[..., None, :] @ release.root.mT)[..., 0, :]
    return np.ascontiguousarray(release.theta + release.draws[..., None] * away)
