"""Logarithm and power of two from + - * / and the exponent's bits alone: the same bytes however a batch is cut.

numpy's own go through code that differs by processor, array length and stride, and compiled rows through another library; the
fold must not. IEEE 754 rounds each operation in one way, and none is fused.

log2: v = m 2**e, sqrt(1/2) <= m < sqrt(2); log2 m = 2 / ln 2 (s + s**3/3 + s**5/5 + ...), s = (m - 1) / (m + 1), |s| < 0.172.
exp2: y = e + f with |f| <= 1/2; 2**f = sum (f ln 2)**n / n!.

Both series stop where the next term is below 2**-55 of the sum; `rough_log2_of` stops after four, for residuals.
"""

from __future__ import annotations

from math import factorial, frexp, ldexp

import numpy as np

ROOT_HALF = 0.7071067811865476
TWO_OVER_LN2 = 2.8853900817779268
LN2 = 0.6931471805599453
# Highest power first, for Horner: 1/(2k + 1) for s**(2k), k = 10 .. 0; 1/n! for (f ln 2)**n, n = 13 .. 0.
LOG_TERMS = tuple(1.0 / (2 * k + 1) for k in reversed(range(11)))
ROUGH_TERMS = LOG_TERMS[-4:]
EXP_TERMS = tuple(1.0 / factorial(n) for n in reversed(range(14)))


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
    return ldexp(total, int(whole))
