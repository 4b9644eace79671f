"""Two arms read from releases: intervals that hold for all looks, verdicts, and the guard."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest

from quietshelf.privacy.release.arm_sales import ArmSums, scale
from quietshelf.privacy.release.comparison import compare, worse

REPEATS = 2000 if os.environ.get("QUIETSHELF_STUDY") == "full" else 300


def shop(
    rng: np.random.Generator,
    learned: float,
    present: float,
    *,
    first: int = 300,
    batches: int = 10,
    share: float = 0.5,
    rho: float = 0.1,
    drift: float = 0.0,
    growth: float = 1.35,
) -> list[ArmSums]:
    """Releases of a shop with these purchase shares per arm, and revenues between 0 and the most."""
    found, size = [], float(first)
    for number in range(batches):
        served = (n := int(rng.binomial(int(size), share))), int(size) - n
        bought = [rng.binomial(count, p + drift * number) for count, p in zip(served, (learned, present), strict=True)]
        sums = np.array([[count, rng.uniform(size=count).sum()] for count in bought])
        found.append(ArmSums(served, sums + rng.normal(0.0, scale(rho), (2, 2)), scale(rho)))
        size *= growth
    return found


def two_seasons(rng: np.random.Generator, *, size: int = 2000, batches: int = 15, rho: float = 1.0) -> list[ArmSums]:
    """Equal arms: the present ranking alone in a dull season, then a tenth of visitors in a busy one."""
    dull = shop(rng, 0.02, 0.02, first=size, batches=batches, share=0.0, rho=rho, growth=1.0)
    return dull + shop(rng, 0.1, 0.1, first=size, batches=batches, share=0.9, rho=rho, growth=1.0)


@pytest.mark.study
def test_a_season_that_comes_with_another_share_is_no_difference() -> None:
    """Variances are those of the batches that compare, weighted as they count: 5 % of misses are allowed, as above."""
    rng, missed = np.random.default_rng(11), [0, 0]
    for _ in range(REPEATS):
        records = two_seasons(rng)
        run = compare(records, most=1.0, conversion=0.02).differences["chosen"]
        missed[0] += any(each.low > 0 or each.high < 0 for each in run)
        missed[1] += worse(records, conversion=0.02)
    assert missed[0] <= 0.085 * REPEATS
    assert missed[1] <= 0.03 * REPEATS


@pytest.mark.study
def test_an_arm_that_has_sold_nothing_yet_is_not_sure_of_it() -> None:
    """Hardly any noise, one visitor in a hundred in the present arm, one in a hundred buys: the rule of three."""
    rng, missed = np.random.default_rng(12), 0
    for _ in range(REPEATS // 3):
        records = shop(rng, 0.01, 0.01, first=100, batches=100, share=0.99, rho=1e6, growth=1.0)
        run = compare(records, most=1.0, conversion=0.01).differences["chosen"]
        missed += any(each.low > 0 or each.high < 0 for each in run)
    assert missed <= 0.1 * REPEATS / 3


@pytest.mark.study
@pytest.mark.parametrize(
    ("conversion", "first", "share", "rho", "drift"),
    [(0.03, 300, 0.5, 0.1, 0.0), (0.01, 100, 0.9, 1.0, 0.0), (0.3, 50, 0.5, 1.0, 0.0), (0.03, 300, 0.7, 0.1, 0.01)],
)
def test_intervals_hold_for_all_looks_together(
    conversion: float, first: int, share: float, rho: float, drift: float
) -> None:
    """Equal arms, ten looks each: an interval that excludes zero at any look is a miss, of which 5 % are allowed.

    With 300 repeats a true 5 % would pass 8.5 % with probability 0.997. A season that lifts both arms is no difference.
    """
    rng, missed = np.random.default_rng(7), dict.fromkeys(("chosen", "revenue", "guard"), 0)
    for _ in range(REPEATS):
        records = shop(rng, conversion, conversion, first=first, share=share, rho=rho, drift=drift)
        found = compare(records, most=1.0, conversion=conversion)
        for name, run in found.differences.items():
            missed[name] += any(each.low > 0 or each.high < 0 for each in run)
        missed["guard"] += worse(records, conversion=conversion)
    assert missed["chosen"] <= 0.085 * REPEATS
    assert missed["revenue"] <= 0.085 * REPEATS
    assert missed["guard"] <= 0.03 * REPEATS


def test_a_change_of_share_beside_a_season_is_no_difference() -> None:
    """Early: few buy, and the learned arm serves few. Later: many buy, and it serves most. Pooled, it would win."""
    quiet = ArmSums((100, 900), np.array([[1.0, 1.0], [9.0, 9.0]]), 1.0)
    busy = ArmSums((9000, 1000), np.array([[2700.0, 2700.0], [300.0, 300.0]]), 1.0)
    found = compare([quiet, busy], most=1.0, conversion=0.1).difference
    assert found is not None
    assert found.estimate == pytest.approx(0.0, abs=1e-12)


def test_a_better_policy_is_found_and_a_worse_one_sets_off_the_guard() -> None:
    """6 in 100 against 3: decided either way, in units of money."""
    rng = np.random.default_rng(3)
    better, poorer = shop(rng, 0.06, 0.03), shop(rng, 0.03, 0.06)
    up, down = (compare(each, most=20.0, conversion=0.03) for each in (better, poorer))
    assert up.verdict.startswith("the learned policy earns more than the present ranking: +")
    assert down.verdict.startswith("the learned policy earns less than the present ranking: -")
    assert up.difference is not None
    assert up.difference.low < 20 * 0.015 < up.difference.high
    assert (worse(better, conversion=0.03), worse(poorer, conversion=0.03)) == (False, True)


def test_a_batch_whose_share_changed_is_left_out() -> None:
    """It counts in what each arm sold, and compares nothing."""
    steady = ArmSums((500, 500), np.array([[50.0, 50.0], [50.0, 50.0]]), 1.0)
    mixed = ArmSums((5000, 5000), np.array([[900.0, 900.0], [100.0, 100.0]]), 1.0, steady=False)
    found = compare([steady, mixed], most=1.0, conversion=0.1)
    assert [each.estimate for each in found.differences["revenue"]] == [0.0]
    assert found.visitors == (5500, 5500)
    assert not worse([steady, mixed._replace(sums=mixed.sums[::-1])], conversion=0.1)


def test_what_nobody_knows_is_said_to_be_unknown() -> None:
    """Before a release, and while one arm serves everybody; strict JSON all the same."""
    assert compare([], most=1.0, conversion=None).verdict.startswith("nothing is compared yet")
    alone = compare([ArmSums((0, 50), np.ones((2, 2)), 1.0)], most=1.0, conversion=None)
    assert alone.difference is None
    assert math.isnan(alone.arms["chosen"][0].estimate)
    plain = json.loads(json.dumps(alone.to_dict(), allow_nan=False))
    assert plain["arms"]["chosen"]["learned"] == {"estimate": None, "low": None, "high": None}
    assert plain["visitors"] == {"learned": 0, "present": 50}


def test_noise_widens_the_interval() -> None:
    """The same figures with ten times the noise are surely less telling."""
    sums = np.array([[60.0, 60.0], [30.0, 30.0]])
    narrow, wide = (
        compare([ArmSums((1000, 1000), sums, s)], most=1.0, conversion=0.03).difference for s in (1.0, 10.0)
    )
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)
