"""The basis of the weighted and unweighted sums: u = (x - origin) / scale, 0 <= u <= 1.

`origin` is a lower bound of the predictors seen and moves down only; `scale` is a power of two and grows only. Since
u >= 0, every term of every sum is positive and a move, by the binomial rule, cancels nothing.
"""

from __future__ import annotations

from math import comb

import numpy as np
from numpy.typing import NDArray

from advisor.models.layout import COEFFICIENTS, MOMENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]

# Two predictors closer than this, relative to their size, are one point to the solver: a band of relative width 2**-40 still
# leaves u twelve bits of a double.
RELATIVE_BAND = -40
MARGIN = (
    0.125  # origin moves this share of the scale below the predictor that moved it: a falling stream costs few moves
)
SMALLEST_EXPONENT = -60  # of a scale: predictors below 2**-60 count as 0

BINOMIAL = [[float(comb(n, m)) for m in range(n + 1)] for n in range(MOMENTS)]


def power_above(value: Floats) -> Floats:
    """Return the smallest power of two >= value, elementwise, at least 2**-60; exact."""
    mantissa, exponent = np.frexp(value)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    return np.ldexp(1.0, np.maximum(exponent, SMALLEST_EXPONENT))


def scale_of_first(x: Floats) -> Floats:
    """Return the scale that a component begins with at its first predictor."""
    return np.ldexp(1.0, np.maximum(np.frexp(x)[1] + RELATIVE_BAND, SMALLEST_EXPONENT))


def accommodate(part: Table, x: Floats) -> None:
    """Move `part`'s bases so that predictor x (n,), one a slot, lies within them. Cost O(n)."""
    fresh = part["scale"] == 0
    scale = np.where(fresh, scale_of_first(x), part["scale"])
    origin = np.where(fresh, np.inf, part["origin"])
    below = x < origin
    new_origin = np.where(below, np.maximum(0.0, x - MARGIN * scale), origin)
    reach = np.maximum(x, np.where(fresh, x, part["x_high"])) - new_origin
    relocate(part, new_origin, np.maximum(scale, power_above(reach)))


def relocate(part: Table, origin: Floats, scale: Floats) -> None:
    """Re-express all sums of `part` in the basis (origin <= the old one, scale >= the old one a power of two).

    Rescaling is exact; the shift is the binomial rule, all its terms positive.
    """
    old = part["scale"]
    shrink = np.where(old == 0, 1.0, old / scale)
    shift = np.where(np.isfinite(part["origin"]), part["origin"] - origin, 0.0) / scale
    for field, powers in (
        ("gram", MOMENTS),
        ("right", COEFFICIENTS),
        ("least_gram", MOMENTS),
        ("least_right", COEFFICIENTS),
    ):
        block = part[field]
        for first in range(0, len(block), powers):
            _move(block[first : first + powers], shrink, shift)
    part["origin"][:] = origin
    part["scale"][:] = scale


def _move(sums: Floats, shrink: Floats, shift: Floats) -> None:
    factor = np.ones_like(shrink)
    for m in range(len(sums)):
        sums[m] *= factor
        factor = factor * shrink
    if not shift.any():
        return
    powers = [np.ones_like(shift)]
    for _ in range(1, len(sums)):
        powers.append(powers[-1] * shift)
    # From the highest power down: sums[m] needs the lower ones as they were.
    for m in reversed(range(len(sums))):
        total = sums[m].copy()
        for j in range(m):
            total += BINOMIAL[m][j] * powers[m - j] * sums[j]
        sums[m] = total
