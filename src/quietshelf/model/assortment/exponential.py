"""exp, with the same bits on every machine and in every language.

Uses only +, -, * and /, each rounded as IEEE 754 prescribes, in the order written here, without fused operations. The
method is that of fdlibm: ``x = k ln 2 + r`` with k whole and ``|r| <= ln 2 / 2``, then a rational function of r.
``clients/typescript/src/device/exponential.ts`` does the same, operation by operation.
"""

from __future__ import annotations

import numpy as np

from quietshelf.model.types import FloatArray

LN2 = 0.6931471805599453
INVERSE_LN2 = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # its last 21 bits are zero, so that k times it is exact
LN2_LOW = 1.90821492927058770002e-10
P1 = 1.66666666666666019037e-01
P2 = -2.77777777770155933842e-03
P3 = 6.61375632143793436117e-05
P4 = -1.65339022054652515390e-06
P5 = 4.13813679705723846039e-08


def exp(x: FloatArray) -> FloatArray:
    """``exp(x)`` to within one unit in the last place, for x within ±700.

    >>> exp(np.array([0.0, 1.0]))
    array([1.        , 2.71828183])
    """
    k = np.rint(x * INVERSE_LN2)
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    t = r * r
    c = t * P5
    for factor in (P4, P3, P2, P1):
        c += factor
        c *= t
    np.subtract(r, c, out=c)
    r *= c
    low -= np.divide(r, 2.0 - c, out=r)
    low -= high
    np.subtract(1.0, low, out=low)
    low *= _normal(k)
    return np.asarray(low)


def power_of_two(power: FloatArray) -> FloatArray:
    """``2^power`` for whole numbers up to 1023, exactly; 0 below the range of doubles."""
    bounded = np.maximum(power, -1100.0)
    half = np.rint(0.5 * bounded)
    return _normal(half) * _normal(bounded - half)


def _normal(power: FloatArray) -> FloatArray:
    """``2^power`` for powers from -1022 to 1023, the exponents of normal doubles."""
    return ((power.astype(np.int64) + 1023) << 52).view(np.float64)
