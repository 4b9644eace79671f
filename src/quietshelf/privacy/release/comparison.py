"""Is the learned policy better than what the shop does today? Answered from releases alone, as often as one likes.

Post-processing of `release.arm_sales`: nothing here costs privacy. Each batch compares its own two arms; a batch in
which the share changed is left out, so that neither a changing share nor a season looks like a difference. With n and
n' visitors in the arms of a batch and w = n n' / (n + n'), the sum of w times (difference of means) has, around its
expectation, the variance

    V = sum over batches of c v + c' v' + w² s² (1 / n² + 1 / n'²),    c = w² / n,  c' = w² / n',

v and v' the variances of one visitor's outcome in that batch, s the noise. For outcomes between 0 and 1 of mean m they
are at most m (1 - m), a concave function: with m the mean over batches weighted by c, and C the sum of c, the sum of
c v is at most C m (1 - m). m is estimated from the releases, raised by two standard errors and by what three more
choices would add. The sum is a martingale, and with a mixture of Gaussians

    |sum| < sqrt((V + h) log((V + h) / (h a²)))    for all batches at once, with probability 1 - a

(Robbins 1970; Waudby-Smith and others, arXiv 2103.06476: exact for the noise, a limit theorem for the visitors). One
may therefore look after every batch and stop when the interval excludes zero. h depends on declared figures and on how
many visitors the arms of the first batch served. docs/proofs.md, section 19, and docs/comparing.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.arm_sales import ArmSums
from quietshelf.privacy.release.prior import UNDECLARED
from quietshelf.privacy.statistics import ARMS, OUTCOMES

LEVEL = 0.95
"""Level of the intervals shown to people."""
BEYOND_DOUBT = 0.99
"""Level of the interval on which offers fall back to the present ranking."""
CAUTION = 2.0
"""Standard errors by which means are raised before they bound a variance."""
FEW_MORE = 3.0
"""Choices that may have been missed by chance though none was seen (the rule of three)."""


class Interval(NamedTuple):
    """An estimate and an interval around it, valid for all looks together."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """The two arms so far: what `quietshelf compare` prints and pages show.

    Attributes:
        batches: Released batches with a comparison, including those left out because an arm served no one or the share
            changed.
        visitors: How many each arm served: learned, present.
        arms: Mean outcome per visitor of each arm, by outcome: chosen (a share), revenue.
        differences: Learned minus present per visitor, by outcome, after each batch that was compared.
        most: The declared most revenue of one visitor, at which revenue is clipped.
        fallen_back: Whether the guard has switched everyone to the present ranking.
    """

    batches: int
    visitors: tuple[int, int]
    arms: dict[str, tuple[Interval, Interval]]
    differences: dict[str, tuple[Interval, ...]]
    most: float
    fallen_back: bool = False

    @property
    def difference(self) -> Interval | None:
        """Learned minus present in revenue per visitor, as known now; None before anything was compared."""
        return self.differences["revenue"][-1] if self.differences["revenue"] else None

    @property
    def verdict(self) -> str:
        """One line: which arm earns more, or that this is not known yet. Valid however often it is read."""
        found = self.difference
        if found is None:
            return "nothing is compared yet: no released batch was served by both arms"
        if found.low > 0:
            return f"the learned policy earns more than the present ranking: {self._words(found)}"
        if found.high < 0:
            return f"the learned policy earns less than the present ranking: {self._words(found)}"
        return f"not decided yet: {self._words(found)}"

    def _words(self, found: Interval) -> str:
        interval = f"{100 * LEVEL:.0f} % interval {found.low:+.4g} to {found.high:+.4g}"
        return f"{found.estimate:+.4g} per visitor, {interval}, a choice counted up to {self.most:g}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for strict JSON; unknown values are null."""
        return {
            "verdict": self.verdict,
            "level": LEVEL,
            "batches": self.batches,
            "fallen_back": self.fallen_back,
            "most_revenue": self.most,
            "visitors": dict(zip(ARMS, self.visitors, strict=True)),
            "arms": {
                name: {arm: _plain(each) for arm, each in zip(ARMS, both, strict=True)}
                for name, both in self.arms.items()
            },
            "differences": {name: [_plain(each) for each in run] for name, run in self.differences.items()},
        }


def _plain(found: Interval) -> dict[str, float | None]:
    return {name: each if math.isfinite(each) else None for name, each in found._asdict().items()}


def compare(records: Sequence[ArmSums], *, most: float, conversion: float | None) -> Comparison:
    """Compare the two arms from released batches, in order; ``most`` is the unit of their revenue."""
    learned, present = (sum(each.visitors[arm] for each in records) for arm in range(len(ARMS)))
    unit = np.array([1.0, most])
    runs = _differences(records, conversion=conversion, level=LEVEL)
    arms = [_arm(records, arm, conversion=conversion) for arm in range(len(ARMS))]
    return Comparison(
        batches=len(records),
        visitors=(learned, present),
        arms={name: tuple(_scaled(each[i], unit[i]) for each in arms) for i, name in enumerate(OUTCOMES)},  # type: ignore[misc]
        differences={name: tuple(_scaled(each[i], unit[i]) for each in runs) for i, name in enumerate(OUTCOMES)},
        most=most,
    )


def worse(records: Sequence[ArmSums], *, conversion: float | None) -> bool:
    """Whether any look so far shows beyond doubt that the learned policy earns less than the present ranking."""
    runs = _differences(records, conversion=conversion, level=BEYOND_DOUBT)
    return any(run[OUTCOMES.index("revenue")].high < 0 for run in runs)


def _differences(records: Sequence[ArmSums], *, conversion: float | None, level: float) -> list[list[Interval]]:
    """The difference after each compared batch, by outcome, in units of 1 and of the most."""
    compared = [each for each in records if each.compares]
    if not compared:
        return []
    n = np.array([each.visitors for each in compared], dtype=np.float64)  # (batches, arms)
    means = np.array([each.sums for each in compared]) / n[..., None]  # (batches, arms, outcomes)
    noise = np.array([each.scale for each in compared])[:, None] / n  # of each mean
    weight = n.prod(1) / n.sum(1)
    share = weight[:, None] ** 2 / n  # c, (batches, arms)
    drawn = weight**2 * (noise**2).sum(1)
    spread = (share.cumsum(0)[..., None] * _variances(means, share, noise, n)).sum(1) + drawn.cumsum()[:, None]
    first = share[0].sum() * _declared(conversion) + drawn[0]
    middle = (weight[:, None] * (means[:, 0] - means[:, 1])).cumsum(0) / weight.cumsum()[:, None]
    half = _boundary(spread, first, 1.0 - level) / weight.cumsum()[:, None]
    return [
        [Interval(float(m), float(m - h), float(m + h)) for m, h in zip(*both, strict=True)]
        for both in zip(middle, half, strict=True)
    ]


def _variances(means: FloatArray, share: FloatArray, noise: FloatArray, n: FloatArray) -> FloatArray:
    """A conservative bound on the variance of one visitor's outcome, after each batch, (batches, arms, outcomes).

    Args:
        means: Noisy mean outcomes, (batches, arms, outcomes).
        share: Weight of each batch, (batches, arms).
        noise: Standard deviation of the noise in the means, (batches, arms).
        n: Number of visitors, (batches, arms).
    """
    total = share.cumsum(0)
    mean = np.clip((share[..., None] * means).cumsum(0) / total[..., None], 0.0, 1.0)
    sampled = mean * (1 - mean) * ((share**2 / n).cumsum(0) / total**2)[..., None]
    drawn = (((share * noise) ** 2).cumsum(0) / total**2)[..., None]
    unseen = FEW_MORE * ((share**2 / n).cumsum(0) / total**2)[..., None]
    high = np.clip(mean + CAUTION * np.sqrt(sampled + drawn) + unseen, 0.0, 0.5)
    return np.asarray(high * (1 - high))


def _arm(records: Sequence[ArmSums], arm: int, *, conversion: float | None) -> list[Interval]:
    """The mean of an arm, by outcome; unknown for an arm that served no one."""
    mine = [each for each in records if each.visitors[arm]]
    if not mine:
        return [Interval(math.nan, -math.inf, math.inf)] * len(OUTCOMES)
    n = np.array([[each.visitors[arm]] for each in mine], dtype=np.float64)
    means = np.array([each.sums[arm] for each in mine])[:, None] / n[..., None]
    noise = np.array([[each.scale] for each in mine])
    variance = _variances(means, n, noise / n, n)[-1, 0]
    spread = n.sum() * variance + (noise**2).sum()
    first = float(n[0, 0]) * _declared(conversion) + mine[0].scale ** 2
    half = _boundary(spread, first, 1.0 - LEVEL) / n.sum()
    mean = (n[..., None] * means).sum((0, 1)) / n.sum()
    return [Interval(float(m), float(m - h), float(m + h)) for m, h in zip(mean, half, strict=True)]


def _declared(conversion: float | None) -> float:
    """The declared variance of a choice: it scales the boundary, and may be wrong."""
    share = UNDECLARED if conversion is None else conversion
    return share * (1 - share)


def _boundary(spread: FloatArray, first: float, risk: float) -> FloatArray:
    return np.asarray(np.sqrt((spread + first) * np.log((spread + first) / (first * risk**2))))


def _scaled(found: Interval, unit: float) -> Interval:
    return Interval(*(float(unit * each) for each in found))
