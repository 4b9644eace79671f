"""What the next batch is likely to see, computed on made-up visitors: coordinates, bound, expected information.

Made-up visitors are drawn from what is declared, with a public seed, and served from the last release as real ones will
be. Their information is what a batch is expected to hold; the noisy sum then adds little, and in many dimensions would
be lost in noise. If the declaration is wrong, the noisy sums show it: features may be any of FACTORS times as large as
declared, and the factor that fits the releases best is believed (`records`). No real data are used, so nothing here
costs privacy; the coordinates and the bound are frozen when a batch opens (docs/proofs.md, section 4).

Everything has leading batch axes ``...`` (parallel worlds); made-up visitors are an axis m after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from quietshelf.model.choice.likelihood import Shares, shares, utilities
from quietshelf.model.types import FloatArray, Release
from quietshelf.privacy.release.geometry import coordinates, unknown_curvature
from quietshelf.privacy.statistics import ObservedChoice, contribution, expected_pair, expected_squares

FACTORS = (0.1, 0.316, 1.0, 3.16, 10.0)
"""Factors by which the scale of features may differ from the declared one."""
ROOM = 2.5
"""The bound on a visitor's information, relative to its mean: few visitors are shortened by it."""
LENGTH = 1.25
"""Average distance of items from their mean in a batch's coordinates; scores are clipped at 1. A larger value stands
higher above the noise but says less about how much better one item is than another."""
BOUNDS = 1e-4, 2.0
"""The smallest and the largest bound."""
UNBOUNDED = 1e6
LEAST_SPREAD = 0.05
MANY = 192
"""In more dimensions, a matrix per made-up visitor would take too long."""


class Moments(NamedTuple):
    """Moments of x over made-up visitors and items.

    Attributes:
        mean: Mean by factor, (F, ..., d).
        second: Second moment by factor, (F, ..., d, d).
        alike: Share of the variance common to all visitors: 1 if all see the same products, 0 if each sees their own.
    """

    mean: FloatArray
    second: FloatArray
    alike: FloatArray

    @property
    def factors(self) -> FloatArray:
        """The factors considered, (F,)."""
        return np.array(FACTORS if len(self.mean) > 1 else (1.0,))


class Outlook(Protocol):
    """Made-up visitors, and what they would be shown."""

    @property
    def moments(self) -> Moments:
        """Moments of what they would see."""

    def shown(self, release: Release, factor: FloatArray) -> ObservedChoice:
        """What they would be shown, (..., m), if features were ``factor`` (...) times as large as declared."""


class View(NamedTuple):
    """What a batch freezes from its outlook.

    Attributes:
        coordinates: L, (..., d, d).
        bound: B, (...).
        expected: Expected information of one visitor in these coordinates, by factor, (F, ..., d, d).
        spread: Variance of a score relative to its information, at most 1, (...).
    """

    coordinates: FloatArray
    bound: FloatArray
    expected: FloatArray
    spread: FloatArray


class _Expected(NamedTuple):
    """Bound (...), information per sample (..., d, d), and means of squared scores and of traces, (...)."""

    bound: FloatArray
    information: list[FloatArray]
    square: FloatArray
    trace: FloatArray


@np.errstate(all="ignore")  # features of any size get an offer; where they overflow, nothing is expected
def view(outlook: Outlook, release: Release, *, factor: FloatArray, tried: FloatArray) -> View:
    """The outlook of the next batch.

    Args:
        outlook: Made-up visitors.
        release: The release from which they are served.
        factor: The factor by which features differ from the declaration, as believed now, (...).
        tried: Factors for which to compute expectations, (F, ...).
    """
    theta = release.theta[..., None, :]
    seen = outlook.shown(release, factor)
    share = shares(utilities(seen.rows, theta), seen.offered)
    frame = _coordinates(seen, share)
    own = frame[..., None, :, :]
    sample = [seen if np.array_equal(each, factor) else outlook.shown(release, each) for each in tried]
    expect = _in_many_dimensions if theta.shape[-1] > MANY else _one_by_one
    bound, expected, square, trace = expect(seen, sample, theta, own)
    spread = np.where(trace > 0, square / np.where(trace > 0, trace, 1.0), 1.0)  # clipped scores vary less
    return View(frame, bound, np.stack(expected), np.clip(spread, LEAST_SPREAD, 1.0))


def _one_by_one(
    seen: ObservedChoice, sample: Sequence[ObservedChoice], theta: FloatArray, frame: FloatArray
) -> _Expected:
    """Expectations from made-up visitors who contribute as real ones do."""
    size = np.linalg.norm(contribution(seen, theta, frame, UNBOUNDED).information, axis=(-2, -1))
    bound = np.clip(ROOM * size.mean(axis=-1), *BOUNDS)
    limit = bound[..., None]
    information = [contribution(each, theta, frame, limit).information.mean(axis=-3) for each in sample]
    square, trace = (each.mean(axis=-1) for each in expected_squares(seen, theta, frame, limit))
    return _Expected(bound, information, square, trace)


def _in_many_dimensions(
    seen: ObservedChoice, sample: Sequence[ObservedChoice], theta: FloatArray, frame: FloatArray
) -> _Expected:
    """The same up to rounding, without a matrix per visitor."""
    bound = np.clip(ROOM * expected_pair(seen, theta, frame, UNBOUNDED).size.mean(axis=-1), *BOUNDS)
    limit = bound[..., None]
    own = expected_pair(seen, theta, frame, limit)
    information = [(own if each is seen else expected_pair(each, theta, frame, limit)).information for each in sample]
    return _Expected(bound, information, own.square.mean(axis=-1), own.trace.mean(axis=-1))


def _coordinates(seen: ObservedChoice, share: Shares) -> FloatArray:
    """L with L Γ L' proportional to I, Γ the plain information; items are LENGTH from their mean on average."""
    mean = (share.items[..., None, :] @ seen.rows)[..., 0, :]
    away = np.where(seen.offered[..., None], seen.rows - mean[..., None, :], 0.0)
    dim = mean.shape[-1]
    none = (np.sqrt(share.none)[..., None] * mean)[..., None, :]
    rows = np.concatenate([np.sqrt(share.items)[..., None] * away, none], axis=-2)
    flat = rows.reshape(*rows.shape[:-3], -1, dim)
    curvature = flat.mT @ flat / mean.shape[-2]
    seeing = np.isfinite(curvature).all((-1, -2)) & (np.trace(curvature, axis1=-2, axis2=-1) > 0)
    frame = coordinates(np.where(seeing[..., None, None], curvature, unknown_curvature(dim)))
    length = np.sqrt(((away @ frame.mT[..., None, :, :]) ** 2).sum(-1))
    places = np.maximum(seen.offered.sum((-1, -2)), 1)
    usual = np.where(seeing, length.sum((-1, -2)) / places, 1.0)
    return LENGTH * frame / np.where(np.isfinite(usual) & (usual > 0), usual, 1.0)[..., None, None]
