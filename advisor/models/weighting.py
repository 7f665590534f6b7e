"""The weighting model m(x, p): a rough prediction that gives each row its weight w = 1 / (m**2 + t0**2).

It is never the row's own elapsed time: weight and noise would be correlated (measured: -16 % bias at 30 % noise). Only where m
is below the row's elapsed time by more than `TRUST` does that time bound the weight: a young model can be wrong by a factor of
1000 where it saw nothing, and such a row would otherwise outweigh all others for ever. Nothing bounds m from above: a row that
was short by chance must not weigh more for it, or the model follows the shortest runs (measured: -80 % at log-normal noise of
sd 1, -99 % at exponential noise).

The model is part of the state, solved at the component's ages 16, 32, 64, ... only, from the sums alone. Its form is
A(u) + B(u) / p, both in the cone of the cubic Bernstein polynomials u^i (1-u)^(3-i): it is positive whatever the rows were,
where an unconstrained polynomial dips to zero and gives the rows there all the weight. It only weighs, it never answers. At
each solve the sums are scaled, by a power of two, so that sum w (m**2 + t0**2) is the number of runs: what younger, wronger
models weighed counts as many runs as it was, and no more. It is kept by its values over the predictors seen, which are not
negative, in 31 bits each.

No transcendental function and no matrix product stands here: the fold must give the same bytes however rows are batched.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import frexp, ldexp, sqrt

import numpy as np

from advisor.models.base_words import *
from advisor.models.drift import settle
from advisor.models.layout import CELLS, COEFFICIENTS, DEGREE_MAX, FIRST_SOLVE, MOMENTS, NOISE
from advisor.models.logarithm import SHORT_ABOVE, SHORT_MASK, long_of, short

FLOOR_SHARE = 0.5  # of the smallest elapsed time seen: no row may weigh as if it took less
TRUST = 30.0  # of log-normal noise of sd 1 one row in 3000 lies beyond: no measurable bias; see test_weighting.py
SWEEPS = 30  # of coordinate descent: the weights settle by 8, the error that status tells of the model by 30
ROUNDING = 1e-11  # of a sum; the differences that make a column of the cone lose about as much
ROOT_HALF = 0.7071067811865476  # between it and its double lies the nearest power of two
CORES_UNIT = 1024.0  # of w_cores: cores are 2**-10 .. 2**20, so each bound takes at most 30 bits
CORES_BITS = 32
CORES_MASK = (1 << CORES_BITS) - 1
COLUMNS = 2 * COEFFICIENTS  # u**j p**-q, in the order of right
SPAN_LEAST = 1e-30  # of predictors: what is divided by, where they are all one


def coefficient(n, word, q):
    """Return A_j + B_j q of a word of coefficients."""
    return long_of(n[word] >> SHORT_ABOVE & SHORT_MASK) + long_of(n[word] & SHORT_MASK) * q


def bernstein(c0, c1, c2, c3, low, high, j):
    """Return the j-th coefficient, from low to high, of the cubic c0 + c1 u + c2 u**2 + c3 u**3: its polar form there."""
    r, s, t = low if j < 3 else high, low if j < 2 else high, low if j < 1 else high
    return c0 + c1 * ((r + s + t) / 3.0) + c2 * ((r * s + s * t + t * r) / 3.0) + c3 * (r * s * t)


def weigh(w, n, x, p):
    """Return m(x, p) of a component's weighting model.

    Outside the predictors that the model was solved on it continues as a power x**s, s being its log-slope at the edge,
    rounded to a whole number from 0 to 3.
    """
    low, high = w[W_LOW], w[W_HIGH]
    inside, span = min(max(x, low), high), max(high - low, SPAN_LEAST)
    v, q = (inside - low) / span, 1.0 / p
    c0, c1 = coefficient(n, W_COEFFICIENTS, q), coefficient(n, W_COEFFICIENTS + 1, q)
    c2, c3 = coefficient(n, W_COEFFICIENTS + 2, q), coefficient(n, W_COEFFICIENTS + 3, q)
    rest = 1.0 - v
    m = rest * rest * (c0 * rest + 3.0 * c1 * v) + v * v * (3.0 * c2 * rest + c3 * v)
    if inside != x and high > low:
        power = np.rint(inside / span * 3.0 * (c1 - c0 if x < low else c3 - c2) / m)
        ratio = x / inside if inside > 0.0 else 1.0
        for whole in range(1, DEGREE_MAX + 1):
            if power >= whole:
                m = m * ratio
    return max(m, w[W_FLOOR])


def knows(w, n, x, p):
    """Return whether a row lies within the predictors and cores that the weighting model was solved on."""
    units = p * CORES_UNIT
    word = n[W_CORES]
    return w[W_LOW] <= x <= w[W_HIGH] and word >> CORES_BITS <= units <= word & CORES_MASK


def packed_cores(low, high):
    """Return a range of cores in one word: floor(low 1024) << 32 | ceil(high 1024)."""
    return int(np.floor(low * CORES_UNIT)) << CORES_BITS | int(np.ceil(high * CORES_UNIT))


def solve_weighting(w, n, averaged):
    """Solve the weighting model of a component that is old enough, and set when next. `averaged`: see `drift.settle`."""
    age = n[ROWS] - n[START]
    if age >= FIRST_SOLVE:
        model = np.empty(COLUMNS)
        fit_cone(w, model, 1.0, 0.0, 0.0, 1.0, SWEEPS)
        low, high = (w[X_LOW] - w[ORIGIN]) / w[SCALE], (w[X_HIGH] - w[ORIGIN]) / w[SCALE]
        for j in range(COEFFICIENTS):
            above = bernstein(model[0], model[1], model[2], model[3], low, high, j)
            below = bernstein(model[4], model[5], model[6], model[7], low, high, j)
            n[W_COEFFICIENTS + j] = short(above) << SHORT_ABOVE | short(below)
        w[W_LOW] = w[X_LOW]
        w[W_HIGH] = w[X_HIGH]
        w[W_FLOOR] = FLOOR_SHARE * w[T_LOW]
        cores = packed_cores(w[P_LOW], w[P_HIGH])
        grown = n[W_CORES] != cores
        n[W_CORES] = cores
        normalise(w, age, model)
        settle(w, n, grown, averaged)
    n[SOLVE_AT] = n[START] + max(FIRST_SOLVE, int(ldexp(1.0, frexp(float(age))[1])))


def to_bernstein(v):
    """Replace the moments of u^0 .. u^3 by those of u^i (1-u)^(3-i)."""
    d0, d1, d2 = v[0] - v[1], v[1] - v[2], v[2] - v[3]
    v[0], v[1], v[2] = (d0 - d1) - (d1 - d2), d1 - d2, d2


def fit_cone(w, model, one, by_one, two, by_two, sweeps):
    """Fill `model` with A_0 .. A_3, B_0 .. B_3, over powers of u, of the best A(u) + B(u) / p in a cone; return how many of the
    cone's own coefficients are not 0.

    It is spanned by products of u^i (1-u)^(3-i) and of `one` + `by_one` / p or `two` + `by_two` / p, which are to be positive.
    """
    flat, steep = (one, two), (by_one, by_two)
    blocks = np.empty((3, COEFFICIENTS, COEFFICIENTS))
    for q in range(3):
        for i in range(COEFFICIENTS):
            for j in range(COEFFICIENTS):
                blocks[q, i, j] = w[GRAM + MOMENTS * q + i + j]
            to_bernstein(blocks[q, i])
        for j in range(COEFFICIENTS):
            to_bernstein(blocks[q, :, j])
    gradient = np.empty(COLUMNS)
    roots = np.empty(COLUMNS)
    matrix = np.empty((COLUMNS, COLUMNS))
    for a in range(COLUMNS):
        q, i = a // COEFFICIENTS, a % COEFFICIENTS
        gradient[a] = flat[q] * w[RIGHT + i] + steep[q] * w[RIGHT + COEFFICIENTS + i]
        for b in range(COLUMNS):
            r, j = b // COEFFICIENTS, b % COEFFICIENTS
            matrix[a, b] = (
                flat[q] * flat[r] * blocks[0, i, j]
                + (flat[q] * steep[r] + steep[q] * flat[r]) * blocks[1, i, j]
                + steep[q] * steep[r] * blocks[2, i, j]
            )
        bound = flat[q] * flat[q] * w[GRAM + 2 * i] + steep[q] * steep[q] * w[GRAM + 2 * MOMENTS + 2 * i]
        roots[a] = sqrt(matrix[a, a]) if matrix[a, a] > ROUNDING * bound else np.inf
    for q in range(2):
        to_bernstein(gradient[COEFFICIENTS * q : COEFFICIENTS * (q + 1)])
    for a in range(COLUMNS):
        gradient[a] /= roots[a]
        for b in range(COLUMNS):
            matrix[a, b] = matrix[a, b] / roots[a] / roots[b]
    found = np.zeros(COLUMNS)
    for sweep in range(sweeps):
        for turn in range(COLUMNS):
            column = turn if sweep % 2 == 0 else COLUMNS - 1 - turn
            step = max(gradient[column], -found[column])
            found[column] += step
            for row in range(COLUMNS):
                gradient[row] -= matrix[row, column] * step
    used = 0.0
    for q in range(2):
        c = found[COEFFICIENTS * q : COEFFICIENTS * (q + 1)] / roots[COEFFICIENTS * q : COEFFICIENTS * (q + 1)]
        powers = (c[0], c[1] - 3.0 * c[0], c[2] - 2.0 * c[1] + 3.0 * c[0], c[3] - c[2] + c[1] - c[0])
        for j in range(COEFFICIENTS):
            model[j] = (model[j] if q else 0.0) + flat[q] * powers[j]
            model[COEFFICIENTS + j] = (model[COEFFICIENTS + j] if q else 0.0) + steep[q] * powers[j]
            used += 1.0 if c[j] > 0.0 else 0.0
    return used


def normalise(w, age, model):
    """Scale the weighted sums by a power of two, so that they count as many runs as there are."""
    runs = 0.0
    for c in range(CELLS):
        runs += w[CELL_RUNS + c]
    explained = 0.0
    for column in range(COLUMNS):
        explained = explained + model[column] * w[RIGHT + column]
    total = explained + NOISE * w[GRAM]
    square = w[SQUARE]
    share = explained / (square if square > 0.0 else 1.0)
    if age < 2 * FIRST_SOLVE:
        runs = runs * min(share * share, 1.0)
    if not (total > 0.0 and runs > 0.0):
        return
    mantissa, exponent = frexp(runs / total)
    factor = ldexp(1.0, exponent - 1 if mantissa < ROOT_HALF else exponent)
    for word in range(GRAM, SQUARE + 1):
        w[word] *= factor
