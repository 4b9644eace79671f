"""The private fit of a finished log: the attacker has all its releases, and all of the log except the target.

So the attacker can compute the sums with either neighbour, at the theta and in the coordinates of each release, and
take the likelihood ratio of what was released: no test does better (docs/proofs.md, section 18).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import NOTHING, FloatArray
from quietshelf.privacy.accounting import noise_for
from quietshelf.privacy.release.noise import NoiseSource, Simulated
from quietshelf.privacy.release.private_newton import BOUND, SQUARES, PrivateTastes, private_newton
from quietshelf.privacy.statistics import ObservedChoice, contribution, svec
from quietshelf.research.auditing.auditable import Auditable, Claim
from quietshelf.research.auditing.neighbours import Neighbours

SEED = 20
OTHERS = 60
"""Enough to keep theta near zero, where the neighbours cost most; more would not hide the target better."""
SLOW = 20


def newton_subject(neighbours: Neighbours, claim: Claim, source: NoiseSource | None = None) -> Auditable:
    """A private fit with one of two neighbours in the log; simulated noise unless a source is given."""
    return Auditable(
        name="private Newton",
        pair=neighbours.words,
        claim=claim,
        run=partial(newton_run, neighbours, claim.rho, source),
        slow=SLOW,
    )


def newton_run(
    neighbours: Neighbours, rho: float, source: NoiseSource | None, secret: bool, runs: int, rng: np.random.Generator
) -> FloatArray:
    """The evidence from each fit: log-likelihood ratios of scores, information and squares; and theta."""
    noise = Simulated(rng) if source is None else source
    crowd = others(neighbours.first)
    target = neighbours.target(secret)
    log = ObservedChoice(*(np.concatenate([one[None], rest]) for one, rest in zip(target, crowd, strict=True)))
    dim, seen = log.rows.shape[-1], []
    for _ in range(runs):
        found = private_newton(log, rho=rho, curvature=np.eye(dim) / dim, source=noise)
        seen.append(np.concatenate([evidence(found, neighbours, crowd, rho), found.theta]))
    return np.stack(seen)


def others(target: ObservedChoice) -> ObservedChoice:
    """The other visitors, the same in both worlds: they see as many items as the target and choose at random."""
    rng, (places, dim) = np.random.default_rng(SEED), target.rows.shape
    rows, offered = rng.standard_normal((OTHERS, places, dim)), np.ones((OTHERS, places), dtype=bool)
    return ObservedChoice(rows, offered, rng.integers(NOTHING, places, OTHERS))


def evidence(found: PrivateTastes, neighbours: Neighbours, crowd: ObservedChoice, rho: float) -> FloatArray:
    """Log-likelihood ratios of the two worlds from all scores, all information matrices and the squares, (3,)."""
    theta = np.stack([one.theta for one in found.releases])
    frames = np.stack([one.coordinates for one in found.releases])
    rest = [part.sum(0) for part in _numbers(crowd, theta, frames)]
    targets = ObservedChoice(*(np.stack(part) for part in zip(*neighbours[:2], strict=True)))
    scales = np.array([one.scales for one in found.releases])
    released = (
        (np.stack([one.noisy.score for one in found.releases]), scales[:, :1]),
        (np.stack([svec(one.noisy.information) for one in found.releases]), scales[:, 1:2]),
        (np.array(found.squares), np.array(noise_for(1.0, SQUARES * rho))),
    )
    parts = zip(released, _numbers(targets, theta, frames), rest, strict=True)
    return np.array([_ratio(noisy - known, both, scale) for (noisy, scale), both, known in parts])


def _ratio(left: FloatArray, both: FloatArray, scale: FloatArray) -> float:
    """The log-likelihood ratio of two Gaussians with these means."""
    first, second = both
    return float(((first - second) * (left - (first + second) / 2) / scale**2).sum())


class _Numbers(NamedTuple):
    """Per visitor (first axis): scores and information at every release, and the squared score at the last."""

    score: FloatArray
    information: FloatArray
    square: FloatArray


def _numbers(visitors: ObservedChoice, theta: FloatArray, frames: FloatArray) -> _Numbers:
    """The contributions of visitors at every theta (releases, d), in every frame (releases, d, d)."""
    (count, places, dim), every = visitors.rows.shape, len(theta)
    wide = ObservedChoice(
        np.broadcast_to(visitors.rows[:, None], (count, every, places, dim)),
        np.broadcast_to(visitors.offered[:, None], (count, every, places)),
        np.broadcast_to(visitors.position[:, None], (count, every)),
    )
    pair = contribution(wide, theta, frames, BOUND)
    return _Numbers(pair.score, svec(pair.information), (pair.score[:, -1] ** 2).sum(-1))
