"""exp, log and sums whose bits depend on the numbers alone: not on the processor, the library, nor how many are asked at once.

numpy's own exponentials and logarithms go through code chosen by processor, those of the C library as well; BLAS adds in an
order chosen by processor and shape. IEEE 754 rounds + - * / in one way: these functions use nothing else, and neither fuse.

exp: x = k ln 2 + r, |r| <= ln 2 / 2; exp(r) = sum r**n / n!; log: x = m 2**e, sqrt(1/2) <= m < sqrt(2); log m = 2 (s + s**3/3 +
...), s = (m - 1) / (m + 1). Both series stop below 2**-55; ln 2 comes in two parts, the first of 32 bits, so that k times it is
exact (Cody and Waite 1980). Errors: 1e-15 relative, of `log2` and `exp2` also at most 1 of the last bit of the argument.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from advisor.domain.vectors import Floats

LN2_HIGH = 0.693147180369123816490  # ln 2, 32 bits
LN2_LOW = 1.90821492927058770002e-10
LOG2_E = 1.4426950408889634
ROOT_HALF = 0.7071067811865476
EXP_TERMS = tuple(1.0 / math.factorial(n) for n in reversed(range(14)))  # highest power first
EXPM1_TERMS = tuple(1.0 / math.factorial(n + 1) for n in reversed(range(14)))
LOG_TERMS = tuple(2.0 / (2 * k + 1) for k in reversed(range(11)))
EXP_LEAST, EXP_MOST = -746.0, 710.0  # beyond them exp is 0 and inf
EXP2_LEAST, EXP2_MOST = -1076.0, 1024.0
FEW = 64  # columns, up to which numpy's running sum is faster than a loop over the rows
SMALL = 0.35  # below it expm1 has its own series: exp(x) - 1 would cancel


def _horner(x: Any, terms: tuple[float, ...]) -> Any:
    total = x * terms[0]
    total += terms[1]
    for term in terms[2:]:  # in its place, where it is an array
        total *= x
        total += term
    return total


def exp(x: Any) -> Any:
    """Return e**x, elementwise for an array; relative error 1e-15. Beyond the range it is 0 or inf, of nan it is nan."""
    return _power(x, EXP_LEAST, EXP_MOST, LOG2_E, lambda x, k: (x - k * LN2_HIGH) - k * LN2_LOW)


def exp2(x: Any) -> Any:
    """Return 2**x, elementwise for an array; exact at whole numbers. Beyond the range it is 0 or inf, of nan it is nan."""
    return _power(x, EXP2_LEAST, EXP2_MOST, 1.0, lambda x, k: (x - k) * LN2_HIGH + (x - k) * LN2_LOW)


def _power(x: Any, least: float, most: float, doublings: float, rest: Callable[[Any, Any], Any]) -> Any:
    """Return e**rest(x, k) 2**k, k the whole number nearest to x times `doublings`."""
    if isinstance(x, float | int):
        if not least < x < most:
            return x if math.isnan(x) else 0.0 if x < 0 else math.inf
        k = round(x * doublings)
        total = _horner(rest(x, k), EXP_TERMS)
        return math.ldexp(total, k) if k < 1024 else total * 2.0 ** (k - 1) * 2.0
    x = np.minimum(np.maximum(np.asarray(x, np.float64), least), most)
    k = np.rint(np.fmax(x, least) * doublings)
    return np.ldexp(_horner(rest(x, k), EXP_TERMS), k.astype(np.int32))


def expm1(x: Any) -> Any:
    """Return e**x - 1, elementwise for an array; relative error 1e-15."""
    if isinstance(x, float):
        return x * _horner(x, EXPM1_TERMS) if abs(x) < SMALL else exp(x) - 1.0
    x = np.asarray(x, np.float64)
    bounded: Floats = np.minimum(np.maximum(x, -SMALL), SMALL)
    return np.where(np.abs(x) < SMALL, np.asarray(bounded * _horner(bounded, EXPM1_TERMS)), np.asarray(exp(x) - 1.0))


def log(x: Any) -> Any:
    """Return the natural logarithm, elementwise for an array; relative error 1e-15; of 0 it is -inf, below nan."""
    mantissa, exponent, odd = _parts(x)
    found = exponent * LN2_HIGH + (exponent * LN2_LOW + _log_of(mantissa))
    return found if odd is None else _odd(x, found, odd)


def log2(x: Any) -> Any:
    """Return the logarithm to base 2, elementwise for an array; exact at powers of two."""
    mantissa, exponent, odd = _parts(x)
    found = exponent + _log_of(mantissa) * LOG2_E
    return found if odd is None else _odd(x, found, odd)


def log1p(x: Any) -> Any:
    """Return log(1 + x), elementwise for an array, x > -1; relative error 2e-15 (Goldberg 1991, theorem 4)."""
    above = 1.0 + x
    if isinstance(x, float):
        return x if above == 1.0 else log(above) * (x / (above - 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(above == 1.0, x, np.where(above == np.inf, np.inf, log(above) * (x / (above - 1.0))))


def added(values: Iterable[Any]) -> Any:
    """Return the sum from the first to the last, 0.0 of none: Python's own corrects its rounding from version 3.12 on."""
    return reduce(add, values, 0.0)


def weighted(weights: Any, values: Any) -> Any:
    """Return sum_i weights[i] values[i] along the first axis, from the first to the last: weights (n,), values (n, ...).

    Each column of `values` has the bits that it has alone, which neither ``@`` nor ``np.sum`` promise. Returns a float
    where `values` is (n,).
    """
    weights, values = np.asarray(weights, np.float64), np.asarray(values, np.float64)
    if values.ndim == 1:
        return added((weights * values).tolist())
    if 0 < values.size <= FEW * len(values):  # in the same order, in two calls
        return np.add.accumulate(weights.reshape(-1, *[1] * (values.ndim - 1)) * values)[-1] + 0.0
    total = np.zeros(values.shape[1:])
    for weight, row in zip(weights.tolist(), values, strict=True):
        total += weight * row
    return total


def product(left: Floats, right: Floats) -> Floats:
    """Return the matrix product (a, n) (n, ...) -> (a, ...), by numpy's own loop instead of BLAS.

    Arrays of one shape have the same bits on every processor; a column alone and beside others need not (`weighted`).
    """
    return np.einsum("an,n...->a...", left, right)


def _parts(x: Any) -> tuple[Any, Any, Any]:
    """Return x = mantissa 2**exponent, the mantissa in sqrt(1/2) .. sqrt(2), and where x is no positive finite number."""
    if isinstance(x, float | int):
        if not 0.0 < x < math.inf:
            return 1.0, 0.0, True
        mantissa, exponent = math.frexp(x)
        return (mantissa * 2.0, exponent - 1.0, None) if mantissa < ROOT_HALF else (mantissa, float(exponent), None)
    x = np.asarray(x, np.float64)
    good = (x > 0.0) & (x < np.inf)
    odd = None if good.all() else ~good
    mantissa, exponent = np.frexp(x if odd is None else np.where(good, x, 1.0))
    low = mantissa < ROOT_HALF
    return mantissa * (1.0 + low), exponent - low.astype(np.float64), odd


def _log_of(mantissa: Any) -> Any:
    s = (mantissa - 1.0) / (mantissa + 1.0)
    return s * _horner(s * s, LOG_TERMS)


def _odd(x: Any, found: Any, odd: Any) -> Any:
    """Put numpy's logarithms of 0, inf and what is not a number in their places: these have no rounding."""
    return float(np.log(np.float64(x))) if odd is True else np.where(odd, np.log(np.where(odd, x, 1.0)), found)


def power(base: Any, exponent: Any) -> Any:
    """Return base**exponent of arrays, base >= 0; relative error 2e-16 (1 + abs(exponent log base))."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = exp(exponent * log(np.asarray(base, np.float64)))
    return np.where(np.equal(exponent, 0.0), 1.0, found)


def spaced(low: float, high: float, n: int) -> Floats:
    """Return n numbers from `low` to `high`, each the same multiple of the one before it."""
    between = exp(log(float(low)) + np.arange(n) * ((log(float(high)) - log(float(low))) / max(n - 1, 1)))
    between[-1:], between[:1] = high, low
    return between


def solved(matrix: Floats, right: Floats) -> Floats:
    """Return x with matrix x = right, of (n, n) and (n,), by elimination with row pivots; raises ZeroDivisionError if singular.

    In plain numbers, O(n**3): of few unknowns, a call of numpy takes longer than what it works out.
    """
    rows: list[list[float]] = [[*row, last] for row, last in zip(matrix.tolist(), right.tolist(), strict=True)]
    n = len(rows)
    for k in range(n):
        best = max(range(k, n), key=lambda row: abs(rows[row][k]))
        rows[k], rows[best] = rows[best], rows[k]
        top = rows[k]
        if top[k] == 0.0:
            raise ZeroDivisionError("the matrix is singular")
        for row in rows[k + 1 :]:
            share = row[k] / top[k]
            for j in range(k + 1, n + 1):
                row[j] -= share * top[j]
    found = [0.0] * n
    for k in reversed(range(n)):
        found[k] = (rows[k][n] - added(map(mul, rows[k][k + 1 : n], found[k + 1 :]))) / rows[k][k]
    return np.array(found)
