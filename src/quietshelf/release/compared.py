"""Is the learned policy better than what the shop does today? Read from releases alone, as often as one likes.

Post-processing of `release.arms`: nothing here costs privacy. Each batch compares its own two arms, so that neither a
share that changes nor a season that does can pass for a difference. With n and n' visitors in the arms of a batch and
w = n n' / (n + n'), the sum of w times (difference of means) has, around what it estimates, the variance

    V = sum over batches of w² (v / n + v' / n' + s² (1 / n² + 1 / n'²)),

v and v' the variances of one visitor's outcome, s the noise. For outcomes between 0 and 1 of mean m they are at most
m (1 - m); m is taken from the releases, on the cautious side. The sum is a martingale, and with a mixture of Gaussians

    |sum| < sqrt((V + h) log((V + h) / (h a²)))    for all batches at once, with probability 1 - a

(Robbins 1970; Waudby-Smith and others, arXiv 2103.06476: exact for the noise, a limit theorem for the visitors). So one
may look after every batch, and stop when the interval excludes zero. h is public and fixed beforehand: V of the first
batch as declared. docs/proofs.md, section 19, and docs/comparing.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from quietshelf.release.arms import ArmSums
from quietshelf.release.prior import UNDECLARED
from quietshelf.statistics import ARMS, OUTCOMES
from quietshelf.types import FloatArray

LEVEL = 0.95
"""Of the intervals that people see."""
BEYOND_DOUBT = 0.99
"""Of the interval by which offers fall back to the present ranking."""
CAUTION = 2.0
"""Standard errors by which means are raised before they bound a variance."""


class Interval(NamedTuple):
    """An estimate and an interval around it that holds for all looks together."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two arms so far: what `quietshelf compare` prints and pages show.

    Attributes:
        batches: Released batches with a comparison; those in which an arm served nobody compare nothing.
        visitors: How many each arm served: learned, present.
        arms: Mean outcome per visitor of each arm, by outcome: chosen (a share), revenue.
        differences: Learned less present per visitor, by outcome, after each batch that compared something.
        most: The declared most revenue of one visitor, where revenue is cut.
    """

    batches: int
    visitors: tuple[int, int]
    arms: dict[str, tuple[Interval, Interval]]
    differences: dict[str, tuple[Interval, ...]]
    most: float

    @property
    def difference(self) -> Interval | None:
        """Learned less present in revenue per visitor, as known now; None before anything was compared."""
        return self.differences["revenue"][-1] if self.differences["revenue"] else None

    @property
    def verdict(self) -> str:
        """One line: which arm earns more, or that it is not known yet. It stays honest however often it is read."""
        found = self.difference
        if found is None:
            return "nothing is compared yet: no released batch was served by both arms"
        if found.low > 0:
            return f"the learned policy earns more than the present ranking: {_words(found)}"
        if found.high < 0:
            return f"the learned policy earns less than the present ranking: {_words(found)}"
        return f"not decided yet: {_words(found)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data that strict JSON can hold; what is not known is null."""
        return {
            "verdict": self.verdict,
            "level": LEVEL,
            "batches": self.batches,
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


def compare(records: Sequence[ArmSums], *, most: float, conversion: float | None, level: float = LEVEL) -> Comparison:
    """What released batches, in their order, say of the two arms; most is the unit of their revenue."""
    served = tuple(int(sum(each.visitors[arm] for each in records)) for arm in range(len(ARMS)))
    unit = np.array([1.0, most])
    both = [place for place, each in enumerate(records) if min(each.visitors) > 0]
    runs = [_run(records[: place + 1], conversion=conversion, level=level) for place in both]
    arms = _arms(records, conversion=conversion, level=level)
    return Comparison(
        batches=len(records),
        visitors=(served[0], served[1]),
        arms={name: tuple(_scaled(each[i], unit[i]) for each in arms) for i, name in enumerate(OUTCOMES)},  # type: ignore[misc]
        differences={name: tuple(_scaled(each[i], unit[i]) for each in runs) for i, name in enumerate(OUTCOMES)},
        most=most,
    )


def worse(records: Sequence[ArmSums], *, conversion: float | None) -> bool:
    """Whether the learned policy earns less than the present ranking beyond doubt, at some look so far."""
    both = [place for place, each in enumerate(records) if min(each.visitors) > 0]
    runs = (_run(records[: place + 1], conversion=conversion, level=BEYOND_DOUBT) for place in both)
    return any(run[OUTCOMES.index("revenue")].high < 0 for run in runs)


def _run(records: Sequence[ArmSums], *, conversion: float | None, level: float) -> list[Interval]:
    """The difference after these batches, by outcome, in units of 1 and of the most."""
    compared = [each for each in records if min(each.visitors) > 0]
    variance = _variances(records)
    weight = np.array([_weight(each.visitors) for each in compared])
    gaps = np.array([_means(each)[0] - _means(each)[1] for each in compared])  # (batches, outcomes)
    spread = sum(_spread(each, variance) for each in compared)
    first = _spread(compared[0], np.full((len(ARMS), len(OUTCOMES)), _declared(conversion)))
    half = _boundary(np.asarray(spread), first, 1.0 - level) / weight.sum()
    middle = (weight[:, None] * gaps).sum(0) / weight.sum()
    return [Interval(float(m), float(m - h), float(m + h)) for m, h in zip(middle, half, strict=True)]


def _arms(records: Sequence[ArmSums], *, conversion: float | None, level: float) -> list[list[Interval]]:
    """The mean of each arm, by outcome; nothing is known of an arm that served nobody."""
    return [_arm(records, arm, conversion=conversion, level=level) for arm in range(len(ARMS))]


def _arm(records: Sequence[ArmSums], arm: int, *, conversion: float | None, level: float) -> list[Interval]:
    mine = [each for each in records if each.visitors[arm]]
    if not mine:
        return [Interval(math.nan, -math.inf, math.inf)] * len(OUTCOMES)
    served = sum(each.visitors[arm] for each in mine)
    spread = served * _variances(mine)[arm] + sum(each.scale**2 for each in mine)
    first = mine[0].visitors[arm] * _declared(conversion) + mine[0].scale ** 2
    half = _boundary(spread, np.full(len(OUTCOMES), first), 1.0 - level) / served
    mean = np.sum([each.sums[arm] for each in mine], axis=0) / served
    return [Interval(float(m), float(m - h), float(m + h)) for m, h in zip(mean, half, strict=True)]


def _declared(conversion: float | None) -> float:
    """The variance of a choice that was declared: it scales the boundary, and may be wrong."""
    share = UNDECLARED if conversion is None else conversion
    return share * (1 - share)


def _variances(records: Sequence[ArmSums]) -> FloatArray:
    """At most the variance of one visitor's outcome, (arms, outcomes): m (1 - m) at a mean that is rather too large."""
    served = np.maximum(np.sum([each.visitors for each in records], axis=0), 1)[:, None]
    mean = np.clip(np.sum([each.sums for each in records], axis=0) / served, 0.0, 1.0)
    error = np.sqrt(mean * (1 - mean) / served + sum(each.scale**2 for each in records) / served**2)
    high = np.clip(mean + CAUTION * error, 0.0, 0.5)
    return np.asarray(high * (1 - high))


def _means(each: ArmSums) -> FloatArray:
    return np.asarray(each.sums / np.asarray(each.visitors)[:, None])


def _weight(visitors: tuple[int, int]) -> float:
    learned, present = visitors
    return learned * present / (learned + present)


def _spread(each: ArmSums, variance: FloatArray) -> FloatArray:
    """What one batch adds to V, by outcome."""
    count = np.asarray(each.visitors, dtype=np.float64)[:, None]
    return np.asarray(_weight(each.visitors) ** 2 * (variance / count + each.scale**2 / count**2).sum(0))


def _boundary(spread: FloatArray, first: FloatArray, risk: float) -> FloatArray:
    return np.asarray(np.sqrt((spread + first) * np.log((spread + first) / (first * risk**2))))


def _scaled(found: Interval, unit: float) -> Interval:
    return Interval(*(float(unit * each) for each in found))


def _words(found: Interval) -> str:
    return f"{found.estimate:+.4g} per visitor, {100 * LEVEL:.0f} % interval {found.low:+.4g} to {found.high:+.4g}"
