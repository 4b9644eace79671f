"""Exact draws from the discrete Gaussian, many at once: integers x with probability proportional to exp(-x²/(2 s²)).

A draw is proposed from uniform bits and accepted by a coin. The bits give a sign; k with probability 2^-(k+1); j
uniform below 2^b, 2^b about s. The proposal is ``y = k 2^b + j``, and the coin shows heads with probability ``2^k
exp(-y²/(2 s²)) / c``, c a public number that keeps this below 1. So every y >= 0 is accepted with probability
``exp(-y²/(2 s²))`` times a constant. Minus zero is rejected. A coin compares a uniform number, of which 53 bits are
drawn, with a chance that is computed with an error below `DOUBT`. If that leaves any doubt, more bits are drawn and the
chance is computed with more digits until none is left. Assumes: float64 sums, products and quotients are rounded to
nearest; Python's integers, and the exponential function of its decimal numbers, are correct; the operating system's
generator is secret and unpredictable. Reference: docs/proofs.md, section 5.
"""

from __future__ import annotations

import math
import os
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray

AT_ONCE = 2**13
"""Proposals made together, so that scratch memory stays in the cache."""
DOUBT = 2.0**-36
"""Relative error allowed in a computed chance; the actual error is a quarter of that (docs/proofs.md, section 5)."""
FARTHEST = 32.0
"""In standard deviations: larger y are replaced by this, whose chance is below 2^-700, and no 53 bits but zeros are
below that."""
SQUARINGS, TERMS = 10, 16
"""exp(-x) is the Taylor polynomial of degree TERMS of exp(-x / 2^SQUARINGS), squared SQUARINGS times."""
FEW = 32
"""k gets this value if the bits drawn for it are all zero; it is then this or more."""


class Law(NamedTuple):
    """The parameters b and c of the proposals for one scale s."""

    scale: float
    bits: int
    bound: float

    @classmethod
    def of(cls, scale: float) -> Law:
        """2^b is the largest power of two up to s, or 1; c is above 2^k exp(-(k 2^b)²/(2 s²)) for every k."""
        bits = max(math.frexp(scale)[1] - 1, 0)
        return cls(scale, bits, math.exp(0.2403 * max(scale / 2.0**bits, 1.0) ** 2))


class Proposals(NamedTuple):
    """Proposals: the sign, k, j, and the first 53 bits of the coin's uniform number, (n,) each."""

    negative: BoolArray
    steps: IntArray
    rest: IntArray
    uniform: FloatArray

    @classmethod
    def drawn(cls, law: Law, count: int) -> Proposals:
        """Draw proposals from the operating system's randomness, three words each."""
        first, second, third = np.frombuffer(os.urandom(24 * count), dtype=np.uint64).reshape(3, count)
        _, exponent = np.frexp((first >> np.uint64(64 - FEW)).astype(np.float64))
        return cls(
            (first & np.uint64(1)).astype(np.bool_),
            (FEW - exponent).astype(np.int64),  # zeros before the first one
            (second & np.uint64(2**law.bits - 1)).astype(np.int64),
            (third >> np.uint64(11)).astype(np.float64),
        )


def discrete_gaussian(scale: float, count: int) -> IntArray:
    """Draw independently, (count,), for a scale of at most 2^50."""
    law, found, have = Law.of(scale), np.empty(count, np.int64), 0
    while have < count:
        more = accepted(law, Proposals.drawn(law, min(AT_ONCE, 16 + 5 * (count - have) // 2)))[: count - have]
        found[have : have + more.size] = more
        have += more.size
    return found


def accepted(law: Law, proposed: Proposals) -> IntArray:
    """The proposals that their coins accept, in order."""
    size = (proposed.steps << law.bits) + proposed.rest
    chance = 2.0**53 * chances(law, size, proposed.steps)
    heads = proposed.uniform + 1.0 <= chance * (1.0 - DOUBT)
    unknown = ~heads & (proposed.uniform < chance * (1.0 + DOUBT)) | (proposed.steps == FEW)
    for place in np.flatnonzero(unknown).tolist():
        steps, rest = int(proposed.steps[place]), int(proposed.rest[place])
        steps += _more_zeros() if steps == FEW else 0
        size[place] = (steps << law.bits) + rest
        heads[place] = decided(law, int(size[place]), steps, int(proposed.uniform[place]))
    heads &= (size > 0) | ~proposed.negative
    return np.where(proposed.negative, -size, size)[heads]


def chances(law: Law, size: IntArray, steps: IntArray) -> FloatArray:
    """The chance of heads for y = ``size`` and k = ``steps``, with a relative error below DOUBT where it matters, (n,).

    Uses sums, products and quotients only: nothing is assumed about a library's exponential function.
    """
    far = np.minimum(size, FARTHEST * law.scale) / law.scale
    part = far * far * 0.5 ** (SQUARINGS + 1)
    value = np.ones_like(part)
    for term in range(TERMS, 0, -1):
        value *= part
        value *= -1.0 / term
        value += 1.0
    for _ in range(SQUARINGS):
        value *= value
    return np.ldexp(value, steps) / law.bound


def decided(law: Law, size: int, steps: int, uniform: int) -> bool:
    """Whether a uniform number with these first 53 bits is below the chance of heads; decided without any error."""
    bits, digits = 53, 40
    exponent = Fraction(size * size) / (2 * Fraction(law.scale) ** 2)
    factor = Fraction(2**steps) / Fraction(law.bound)
    while True:
        low, high = exponential(exponent, digits)
        if Fraction(uniform + 1, 2**bits) <= factor * low:
            return True
        if Fraction(uniform, 2**bits) >= factor * high:
            return False
        uniform, bits, digits = (uniform << 64) + _word(), bits + 64, digits + 40


def exponential(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Bounds on exp(-exponent), in contexts of their own, since operators round as the application's context says."""
    below, above = (
        Context(digits, rounding, Emin=-999_999, Emax=999_999, clamp=0, traps=[])
        for rounding in (ROUND_FLOOR, ROUND_CEILING)
    )
    numerator, denominator = Decimal(-exponent.numerator), Decimal(exponent.denominator)
    low = below.next_minus(below.exp(below.divide(numerator, denominator)))  # exp is rounded to nearest
    high = above.next_plus(above.exp(above.divide(numerator, denominator)))
    return Fraction(max(low, Decimal(0))), Fraction(high)


def _more_zeros() -> int:
    """Count the zeros before the first one in a stream of bits."""
    word = _word()
    return 64 - word.bit_length() + (_more_zeros() if word == 0 else 0)


def _word() -> int:
    return int.from_bytes(os.urandom(8), "little")
