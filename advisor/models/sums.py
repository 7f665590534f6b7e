"""A component's exact sums: the moved and scaled basis, X'X and X't, the load sketch, paper 1's two-step sums. Kernels.

`w` is one component's words (`layout`). The basis is u = (x - origin) / scale, 0 <= u <= 1: origin is a lower bound of the
predictors seen and moves down only, scale is a power of two and grows only. Since u >= 0 every term of every sum is positive
and a move, by the binomial rule, cancels nothing. Source: extended Amdahl model, sections 3.1 to 3.4.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import comb, frexp, ldexp

import numpy as np

from advisor.models.base_words import *
from advisor.models.layout import CELLS, COEFFICIENTS, MOMENTS
from advisor.models.logarithm import POWER_ZERO, POWERS

BLOCKS = (  # of sums over powers of u: first word, powers
    *((GRAM + MOMENTS * q, MOMENTS) for q in range(3)),
    *((RIGHT + COEFFICIENTS * q, COEFFICIENTS) for q in range(2)),
    (LEAST_GRAM, MOMENTS),
    (LEAST_RIGHT, COEFFICIENTS),
)
BLOCK_STARTS, BLOCK_POWERS = (np.array(column) for column in zip(*BLOCKS, strict=True))
BINOMIAL = np.array([[float(comb(m, j)) for j in range(MOMENTS)] for m in range(MOMENTS)])
# Two predictors closer than this, relative to their size, are one point to the solver: a band of relative width 2**-40 still
# leaves u twelve bits of a double.
BAND = -40
SMALLEST = -60  # of a scale: predictors below 2**-60 count as 0
# MARGIN: origin moves this share of the scale below the predictor that moved it: a falling stream costs few moves
MARGIN = 0.125
CELLS_EXPONENT = 4  # 2**4 = CELLS
CELL_SMALLEST = -64.0  # with it the cells reach 2**-60, below which predictors count as 0


def hold(w, x):
    """Move the basis and the sketch where x lies outside of them."""
    origin = w[ORIGIN]
    reach = CELLS * POWERS[int(max(w[CELL_EXPONENT], -POWER_ZERO)) + POWER_ZERO]
    if x < origin or x - origin > w[SCALE] or x >= reach:
        accommodate(w, x)


def accommodate(w, x):
    """Move the basis and the sketch of a component so that x lies within them."""
    scale, origin = w[SCALE], w[ORIGIN]
    fresh = scale == 0.0
    if fresh:
        scale = ldexp(1.0, max(frexp(x)[1] + BAND, SMALLEST))
        origin = np.inf
    if x < origin:
        origin = max(0.0, x - MARGIN * scale)
    reach = max(x, x if fresh else w[X_HIGH]) - origin
    mantissa, exponent = frexp(reach)
    if mantissa == 0.5:
        exponent -= 1
    relocate(w, origin, max(scale, ldexp(1.0, max(exponent, SMALLEST))))
    coarsen(w, max(frexp(x)[1] - float(CELLS_EXPONENT), CELL_SMALLEST, w[CELL_EXPONENT]))


def relocate(w, origin, scale):
    """Re-express all sums in another basis, its origin not above the old one, its scale a power of two not below."""
    old = w[SCALE]
    shrink = 1.0 if old == 0.0 else old / scale
    shift = (w[ORIGIN] - origin if np.isfinite(w[ORIGIN]) else 0.0) / scale
    powers = np.ones(MOMENTS)
    for m in range(1, MOMENTS):
        powers[m] = powers[m - 1] * shift
    for block in range(len(BLOCK_STARTS)):
        first, count = BLOCK_STARTS[block], BLOCK_POWERS[block]
        factor = 1.0
        for m in range(count):
            w[first + m] *= factor
            factor = factor * shrink
        if shift != 0.0:
            for back in range(count):
                m = count - 1 - back
                total = w[first + m]
                for j in range(m):
                    total += BINOMIAL[m, j] * powers[m - j] * w[first + j]
                w[first + m] = total
    w[ORIGIN] = origin
    w[SCALE] = scale


def coarsen(w, exponent):
    """Raise the width of the sketch's cells to 2**exponent, merging them pair by pair. Exact counts, sums to rounding."""
    if not np.isfinite(w[CELL_EXPONENT]):
        w[CELL_EXPONENT] = exponent
    while w[CELL_EXPONENT] < exponent:
        width = ldexp(1.0, int(w[CELL_EXPONENT]))
        bare = True
        for c in range(CELLS // 2):
            even, odd = 2 * c, 2 * c + 1
            runs = w[CELL_RUNS + odd]
            total = w[CELL_SUM + odd]
            odd_sum = total + runs * width
            odd_square = w[CELL_SQUARE + odd] + 2.0 * width * total + runs * (width * width)
            merged = w[CELL_RUNS + even] + runs
            bare = bare and merged == 0.0
            w[CELL_RUNS + c] = merged
            w[CELL_SUM + c] = w[CELL_SUM + even] + odd_sum
            w[CELL_SQUARE + c] = w[CELL_SQUARE + even] + odd_square
        for c in range(CELLS // 2, CELLS):
            w[CELL_RUNS + c] = 0.0
            w[CELL_SUM + c] = 0.0
            w[CELL_SQUARE + c] = 0.0
        w[CELL_EXPONENT] += 1.0
        if bare:
            w[CELL_EXPONENT] = max(w[CELL_EXPONENT], exponent)


def add_sums(w, u, p, t, weight):
    """Add a row to the Gram matrix, the right side and the sum of squares."""
    q = 1.0 / p
    w[SQUARE] += weight * t * t
    for m in range(MOMENTS):
        term = weight
        for power in range(3):
            w[GRAM + MOMENTS * power + m] += term
            if m < COEFFICIENTS and power < 2:
                w[RIGHT + COEFFICIENTS * power + m] += term * t
            term = term * q
        weight = weight * u


def add_to_sketch(w, x, count):
    """Add a row to the load sketch."""
    exponent = int(w[CELL_EXPONENT])
    cell = int(x * POWERS[POWER_ZERO - exponent])
    offset = x - cell * POWERS[POWER_ZERO + exponent]
    weighted = offset * count
    w[CELL_RUNS + cell] += count
    w[CELL_SUM + cell] += weighted
    w[CELL_SQUARE + cell] += weighted * offset


def two_step(w, x, p, t, u, count):
    """Add a row to the sums at the fewest cores and to the mean at the highest (cores, predictor)."""
    if p < w[P_LOW]:
        w[P_LOW] = p
        for k in range(MOMENTS):
            w[LEAST_GRAM + k] = 0.0
        for k in range(COEFFICIENTS):
            w[LEAST_RIGHT + k] = 0.0
        w[LEAST_SQUARE] = 0.0
    if p == w[P_LOW]:
        term = count
        w[LEAST_SQUARE] += term * t * t
        for m in range(MOMENTS):
            w[LEAST_GRAM + m] += term
            if m < COEFFICIENTS:
                w[LEAST_RIGHT + m] += term * t
            term = term * u
    if p > w[P_HIGH]:
        w[P_HIGH] = p
        w[TOP_PREDICTOR] = -np.inf
    if p == w[P_HIGH]:
        if x > w[TOP_PREDICTOR]:
            w[TOP_PREDICTOR] = x
            w[TOP_RUNS] = 0.0
            w[TOP_SUM] = 0.0
        if x == w[TOP_PREDICTOR]:
            w[TOP_RUNS] += count
            w[TOP_SUM] += t * count
