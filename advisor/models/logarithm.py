"""Logarithm and power of two from + - * / and the exponent's bits alone: the same bytes however a batch is cut.

numpy's own go through code that differs by processor, array length and stride, and compiled rows through another library; the
fold must not. IEEE 754 rounds each operation in one way, and none is fused.

log2: v = m 2**e, sqrt(1/2) <= m < sqrt(2); log2 m = 2 / ln 2 (s + s**3/3 + s**5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172.
exp2: y = e + f with |f| <= 1/2; 2**f = sum (f ln 2)**n / n!.

Both series stop where the next term is below 2**-55 of the sum; `rough_log2_of` stops after four, for residuals.
"""

from __future__ import annotations

from math import factorial, frexp

import numpy as np

ROOT_HALF = 0.7071067811865476
TWO_OVER_LN2 = 2.8853900817779268
LN2 = 0.6931471805599453
# Highest power first, for Horner: 1/(2k + 1) for s**(2k), k = 10 .. 0; 1/n! for (f ln 2)**n, n = 13 .. 0.
LOG_TERMS = tuple(1.0 / (2 * k + 1) for k in reversed(range(11)))
ROUGH_TERMS = LOG_TERMS[-4:]
EXP_TERMS = tuple(1.0 / factorial(n) for n in reversed(range(14)))
# 2**e at [e + POWER_ZERO]: a multiplication by it is exact, and costs a tenth of a call of ldexp.
POWER_ZERO = 1000
POWERS = np.ldexp(1.0, np.arange(-POWER_ZERO, POWER_ZERO + 1))
# A positive number in 31 bits: 8 of its exponent, 23 of its mantissa. Two are one word, one above, one in the low bits.
SHORT_BITS, SHORT_ZERO, SHORT_UNIT = 23, 127, 8388608.0
SHORT_LEAST, SHORT_MOST = 2.0**-120, 2.0**120
SHORT_ABOVE, SHORT_MASK = 32, (1 << 31) - 1


def log2_of(value: float) -> float:
    """Return log2 of a positive normal finite value. Error at most 2e-15 max(1, abs(log2))."""
    mantissa, exponent = value, 0
    if not ROOT_HALF <= value < 2.0 * ROOT_HALF:
        mantissa, exponent = frexp(value)
        if mantissa < ROOT_HALF:
            mantissa = mantissa * 2.0
            exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = square * LOG_TERMS[0]
    for term in LOG_TERMS[1:-1]:
        total = (total + term) * square
    total = total + LOG_TERMS[-1]
    return float(exponent) + s * total * TWO_OVER_LN2


def rough_log2_of(value: float) -> float:
    """Return log2 of a positive normal finite value, to 5e-8: half the time of `log2_of`."""
    mantissa, exponent = value, 0
    if not ROOT_HALF <= value < 2.0 * ROOT_HALF:
        mantissa, exponent = frexp(value)
        if mantissa < ROOT_HALF:
            mantissa = mantissa * 2.0
            exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    total = ((square * ROUGH_TERMS[0] + ROUGH_TERMS[1]) * square + ROUGH_TERMS[2]) * square + ROUGH_TERMS[3]
    return float(exponent) + s * total * TWO_OVER_LN2


def exp2_of(value: float) -> float:
    """Return 2**value for abs(value) <= 1000. Relative error at most 1e-15."""
    whole = np.rint(value)
    f = (value - whole) * LN2
    total = EXP_TERMS[0]
    for term in EXP_TERMS[1:]:
        total = total * f
        total = total + term
    return float(total * POWERS[int(whole) + POWER_ZERO])


def ln(value: float) -> float:
    """Return the natural logarithm, of IEEE operations alone."""
    return log2_of(value) * LN2


def exp(value: float) -> float:
    """Return e**value, of IEEE operations alone, for abs(value) below 690."""
    return exp2_of(value / LN2)


def short(value: float) -> int:
    """Return a number from 0 in 31 bits, to 2**-24 of it; one below `SHORT_LEAST` counts as that."""
    mantissa, exponent = frexp(min(max(value, SHORT_LEAST), SHORT_MOST))
    return ((exponent + SHORT_ZERO) << SHORT_BITS) + int(np.rint((2.0 * mantissa - 1.0) * SHORT_UNIT))


def long_of(bits: int) -> float:
    """Return the number of `short` bits."""
    mantissa = 1.0 + (bits & ((1 << SHORT_BITS) - 1)) * (1.0 / SHORT_UNIT)
    return mantissa * POWERS[(bits >> SHORT_BITS) - SHORT_ZERO - 1 + POWER_ZERO]
