"""Integer noise has the law of docs/proofs.md, section 5, exactly: its coins are never wrong, however close.

Statistical tests draw n = 200,000 from the operating system; each raises a false alarm with probability below 1e-7.
"""

from __future__ import annotations

import math
from decimal import Inexact, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from quietshelf.privacy.release import discrete_gaussian as exact
from quietshelf.privacy.release.discrete_gaussian import DOUBT, FEW, Law, Proposals, discrete_gaussian

N = 200_000
ALARM = 1e-7
SCALES = st.floats(2.0**-4, 2.0**50)


def probabilities(scale: float, most: int) -> np.ndarray:
    """Of -most, ..., most; what lies beyond is left out."""
    weights = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * scale**2))
    return np.asarray(weights / weights.sum())


def fits(sample: np.ndarray, scale: float) -> bool:
    """Whether counts of each integer agree with the law of that scale: chi-square, rare ones together."""
    most = math.ceil(12 * scale) + 1
    wanted = probabilities(scale, most) * sample.size
    seen = np.bincount(np.clip(sample, -most, most) + most, minlength=2 * most + 1)
    often = wanted >= 20
    counts = np.append(seen[often], seen[~often].sum())
    expected = np.append(wanted[often], max(sample.size - wanted[often].sum(), 1e-3))
    return bool(chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > ALARM)


def accepted_and_asked(law: Law, steps: int, rest: int, uniform: int) -> tuple[np.ndarray, list[tuple[object, ...]]]:
    """What is accepted of one proposal, and the coins that are left to exact arithmetic, which then refuses."""
    asked: list[tuple[object, ...]] = []

    def decided(*given: object) -> bool:
        asked.append(given)
        return False

    proposed = Proposals(np.array([False]), np.array([steps]), np.array([rest]), np.array([float(uniform)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "decided", decided)
        return exact.accepted(law, proposed), asked


@pytest.mark.parametrize("scale", [0.4, 1.0, 1.9, 2.0, 7.3])
def test_small_noise_has_the_exact_law_and_no_other(scale: float) -> None:
    """Each integer comes as often as it should; 2/3 and 3/2 of the scale are rejected."""
    sample = discrete_gaussian(scale, N)
    assert fits(sample, scale)
    assert not fits(sample, scale * 2 / 3)
    assert not fits(sample, scale * 3 / 2)


@pytest.mark.parametrize("scale", [1e3, 1.4 * 2.0**20, 2.0**47 - 1, 2.0**50])
def test_large_noise_is_gaussian_of_its_scale_and_no_other(scale: float) -> None:
    """Kolmogorov-Smirnov, which the steps of a lattice as fine as this do not disturb; signs and last bits are fair."""
    sample = discrete_gaussian(scale, N)
    assert kstest(sample / scale, "norm").pvalue > ALARM
    assert kstest(sample / (scale * 2 / 3), "norm").pvalue < ALARM
    assert kstest(sample / (scale * 3 / 2), "norm").pvalue < ALARM
    for share in ((sample < 0).mean(), (sample & 1).mean()):
        assert abs(share - 0.5) < 6 * 0.5 / math.sqrt(N)


def test_coins_in_doubt_give_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the fast comparison decides nothing, exact ones give the same law: n = 4,000 at a scale of 1.3."""
    monkeypatch.setattr(exact, "DOUBT", 1.0)
    sample = np.concatenate([discrete_gaussian(1.3, 500) for _ in range(8)])
    assert fits(sample, 1.3)
    assert not fits(sample, 1.3 * 2 / 3)
    assert not fits(sample, 1.3 * 3 / 2)


@given(scale=SCALES, steps=st.integers(0, FEW - 1), rest=st.integers(0, 2**50))
def test_chances_are_as_exact_as_claimed(scale: float, steps: int, rest: int) -> None:
    """Chances are at most 1, and those within reach err by less than a quarter of what is allowed for."""
    law = Law.of(scale)
    size = (steps << law.bits) + rest % 2**law.bits
    low, high = exact.exponential(Fraction(size * size) / (2 * Fraction(scale) ** 2), 60)
    factor = Fraction(2**steps) / Fraction(law.bound)
    assert factor * high <= 1
    found = Fraction(float(exact.chances(law, np.array([size]), np.array([steps]))[0]))
    if size <= exact.FARTHEST * scale:
        assert factor * low * (1 - Fraction(DOUBT) / 4) <= found <= factor * high * (1 + Fraction(DOUBT) / 4)
    else:
        assert factor * high <= found * (1 + Fraction(DOUBT)) < Fraction(1, 2**700)


@given(scale=SCALES, data=st.data())
def test_a_coin_that_is_decided_fast_is_decided_rightly(scale: float, data: st.DataObject) -> None:
    """Uniform numbers right beside the chance: whatever the fast comparison says, exact arithmetic says too."""
    law = Law.of(scale)
    steps = data.draw(st.integers(0, 6))
    rest = data.draw(st.integers(0, 2**law.bits - 1))
    size = (steps << law.bits) + rest
    chance = float(exact.chances(law, np.array([size]), np.array([steps]))[0]) * 2.0**53
    near = int(chance) + data.draw(st.integers(-(2**18), 2**18))
    uniform = min(max(near, 0), 2**53 - 1)
    found, asked = accepted_and_asked(law, steps, rest, uniform)
    truth = {exact.decided(law, size, steps, uniform) for _ in range(2)}
    assert asked or truth == {found.size == 1}


def test_exact_coins_follow_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number whose first 53 bits are those of the chance is decided by the bits that follow."""
    law = Law.of(3.0)
    chance, _ = exact.exponential(Fraction(4, 18), 80)
    first = int(chance / Fraction(law.bound) * 2**53)
    for word, heads in ((0, True), (2**64 - 1, False)):
        with monkeypatch.context() as patch:
            patch.setattr(exact, "_word", lambda word=word: word)
            assert exact.decided(law, 2, 0, first) is heads


def enclosed(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of exp(-exponent) by the exponential series and what it leaves out, in rational numbers alone."""
    term = total = Fraction(1)
    count = 0
    while term > Fraction(1, 10**120) or count < 2 * exponent:
        count += 1
        term *= exponent / count
        total += term
    return 1 / (total + 2 * term), 1 / total


@given(
    exponent=st.fractions(0, 20, max_denominator=10**9), digits=st.sampled_from([40, 80]), precision=st.integers(1, 99)
)
def test_bounds_of_an_exponential_hold_whatever_decimals_an_application_uses(
    exponent: Fraction, digits: int, precision: int
) -> None:
    """They enclose the truth and come as close as their digits allow; the context of the thread has no say."""
    with localcontext() as context:
        context.prec = precision
        context.traps[Inexact] = True
        low, high = exact.exponential(exponent, digits)
    least, most = enclosed(exponent)
    assert low <= least
    assert most <= high
    assert high - low <= high * Fraction(1, 10 ** (digits - 4))


@pytest.mark.parametrize("places", [53, 100, 200, 300])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_exact_coins_are_right_however_close(monkeypatch: pytest.MonkeyPatch, size: int, places: int) -> None:
    """A number that differs from the chance only in bit ``places`` is put on the right side."""
    law, length = Law.of(3.0), 53 + 64 * 5
    chance = int(enclosed(Fraction(size * size, 18))[0] / Fraction(law.bound) * 2**length)
    for heads in (True, False):
        number = chance + (-1 if heads else 1) * 2 ** (length - places)
        words = iter([number >> shift & 2**64 - 1 for shift in range(64 * 4, -1, -64)])
        with monkeypatch.context() as patch:
            patch.setattr(exact, "_word", lambda words=words: next(words))
            assert exact.decided(law, size, 0, number >> 64 * 5) is heads


def test_long_runs_of_zeros_are_counted_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros in all the bits of k mean that more are drawn; the proposal is then so far out that it is refused."""
    words = iter([0, 2**61, 1])
    monkeypatch.setattr(exact, "_word", lambda: next(words))
    assert exact._more_zeros() == 64 + 2
    law, one = Law.of(100.0), np.array([1])
    assert exact.accepted(law, Proposals(one < 0, FEW * one, 5 * one, 1.0 * one)).size == 0
    assert list(words) == []


@pytest.mark.parametrize("sigmas", [5, 7, 12, 20, 31, 33, 50])
@pytest.mark.parametrize("scale", [1.0, 1.9, 100.0, 2.0**47])
def test_no_tail_is_cut_off(monkeypatch: pytest.MonkeyPatch, scale: float, sigmas: int) -> None:
    """A uniform number of zeros alone is below every chance: proposals however far out are accepted as they are."""
    law, size = Law.of(scale), int(sigmas * scale)
    steps, rest = divmod(size, 2**law.bits)
    zeros = iter([2 ** (63 - max(steps - FEW, 0))])
    monkeypatch.setattr(exact, "_word", lambda: next(zeros, 0))
    proposed = Proposals(np.array([True]), np.array([min(steps, FEW)]), np.array([rest]), np.array([0.0]))
    if steps < FEW:
        next(zeros)
    assert exact.accepted(law, proposed).tolist() == [-size]


@given(scale=SCALES, sigmas=st.floats(0, 8), place=st.floats(-0.9, 0.9))
def test_coins_right_beside_their_chance_are_in_doubt(scale: float, sigmas: float, place: float) -> None:
    """Whatever may be on either side, for all that is known of the chance, is left to exact arithmetic."""
    law = Law.of(scale)
    size = int(sigmas * scale)
    steps, rest = divmod(size, 2**law.bits)
    chance = float(exact.chances(law, np.array([size]), np.array([steps]))[0]) * 2.0**53
    uniform = min(max(int(chance * (1 + place * DOUBT)), 0), 2**53 - 1)
    _, asked = accepted_and_asked(law, steps, rest, uniform)
    assert asked == [(law, size, steps, uniform)]


@pytest.mark.parametrize("steps", [1, 2])
def test_no_chance_exceeds_one_where_it_is_largest(steps: int) -> None:
    """At (s/2^b)² = k/ln 2 the bound on chances is attained but for the room left to rounding."""
    for bits in (0, 1, 20, 46):
        law = Law.of(2.0**bits * math.sqrt(steps / math.log(2)))
        size = steps << law.bits
        _, high = exact.exponential(Fraction(size * size) / (2 * Fraction(law.scale) ** 2), 60)
        assert 0.999 < Fraction(2**steps) * high / Fraction(law.bound) < 1


def test_coins_wait_until_both_bounds_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number between the bounds of a chance is not decided by either: both are computed anew with more digits."""
    for last, heads in ((Fraction(5, 8), True), (Fraction(3, 8), False)):
        bounds = iter([(Fraction(1, 4), Fraction(3, 4)), (last, last)])
        monkeypatch.setattr(exact, "exponential", lambda *_, bounds=bounds: next(bounds))
        assert exact.decided(Law(1.0, 0, 1.0), 1, 0, 2**52) is heads
        assert list(bounds) == []


def test_every_proposal_has_words_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three from the operating system: one for sign and k, one for j, one for the coin; none is used for two things."""
    words = np.zeros((3, 5), np.uint64)
    words[0] = [2**63, 1, 2**32, 2**62 + 1, 2**32 - 1]
    words[1, 1], words[2, 2], words[2, 3] = 2**64 - 1, 2**64 - 1, 2**11
    bits = {words.nbytes: words.tobytes()}  # as many as are asked for, once
    monkeypatch.setattr("quietshelf.privacy.release.discrete_gaussian.os.urandom", bits.pop)
    found = Proposals.drawn(Law.of(2.0**46), 5)
    assert not bits
    assert found.steps.tolist() == [0, FEW, FEW - 1, 1, FEW]
    assert found.negative.tolist() == [False, True, False, True, True]
    assert found.rest.tolist() == [0, 2**46 - 1, 0, 0, 0]
    assert found.uniform.tolist() == [0, 0, 2**53 - 1, 1, 0]


def test_nothing_but_the_operating_systems_bits_decides_a_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits give the same draws whatever was drawn before: forks and threads share nothing."""
    for doubt in (DOUBT, 1.0):  # by fast coins and by exact ones
        monkeypatch.setattr(exact, "DOUBT", doubt)
        draws = []
        for seed in (1, 1, 2):
            with monkeypatch.context() as patch:
                patch.setattr(
                    "quietshelf.privacy.release.discrete_gaussian.os.urandom", np.random.default_rng(seed).bytes
                )
                draws.append(discrete_gaussian(1e6, 100).tolist())
            discrete_gaussian(3.0, 7)
        assert draws[0] == draws[1] != draws[2]
    monkeypatch.setattr("quietshelf.privacy.release.discrete_gaussian.os.urandom", lambda n: b"\xff" * n)
    assert exact._word() == 2**64 - 1


def test_minus_zero_is_proposed_again() -> None:
    """Zero has one proposal, as every other integer has."""
    law, twice = Law.of(1.0), np.array([0, 0])
    assert exact.accepted(law, Proposals(np.array([True, False]), twice, twice, 0.0 * twice)).tolist() == [0]


def test_the_smallest_scales_are_drawn_from() -> None:
    """A scale far below one step draws zeros, for nothing else is likely; it neither overflows nor hangs."""
    for scale in (1e-3, 1e-200, 5e-324):
        assert not discrete_gaussian(scale, 50).any()


def test_as_many_are_drawn_as_asked_for() -> None:
    """None, one and more than are proposed together."""
    assert [discrete_gaussian(5.0, count).shape for count in (0, 1, 20_001)] == [(0,), (1,), (20_001,)]
