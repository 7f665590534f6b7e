"""The fold's events, compiled: moving a component's basis and sketch, solving its weighting model.

The same arithmetic, in the same order, as `basis`, `sketch` and `weighting`, for one component; tests hold them to the same
bytes. `compiled` has the rows.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportMissingImports=false

from __future__ import annotations

from math import frexp, ldexp, sqrt

import numpy as np
from numba import njit  # type: ignore[import-not-found]

from advisor.models import basis, logarithm, sketch
from advisor.models.drift import (
    ALARM,
    CAUTION_BITS,
    CAUTION_MASK,
    CAUTION_MAX,
    CAUTION_STEP,
    E_UNIT,
    HALF_LN2,
    INFLATION,
    KEPT_ROWS,
    PRIOR_ROWS,
    QUICK_ROWS,
    RATIO_MAX,
    REACH_SCALES,
    RISE_BITS,
    ROWS_BITS,
    ROWS_MASK,
    ROWS_MIN,
    SCALE_MIN,
    SCORED_MASK,
    SPREAD_MAX,
    UNIT,
)  # fmt: skip
from advisor.models.layout import AT, CELLS, COEFFICIENTS, FIRST_SOLVE, MOMENTS
from advisor.models.weighting import CORES_BITS, CORES_UNIT, FLOOR_SHARE, ROOT_HALF, ROUNDING, SWEEPS

ROWS, START, SOLVE_AT = (AT[name].start for name in ("rows", "start", "solve_at"))
X_LOW, X_HIGH, P_LOW, P_HIGH, T_LOW = (AT[name].start for name in ("x_low", "x_high", "p_low", "p_high", "t_low"))
ORIGIN, SCALE, GRAM, RIGHT, SQUARE = (AT[name].start for name in ("origin", "scale", "gram", "right", "square"))
W_COEFFICIENTS, W_ORIGIN, W_SCALE, W_LOW, W_HIGH, W_FLOOR = (
    AT[name].start for name in ("w_coefficients", "w_origin", "w_scale", "w_low", "w_high", "w_floor")
)
CELL_EXPONENT, CELL_RUNS, CELL_SUM, CELL_SQUARE = (
    AT[name].start for name in ("cell_exponent", "cell_runs", "cell_sum", "cell_square")
)
LEAST_GRAM, LEAST_RIGHT, LEAST_SQUARE = (AT[name].start for name in ("least_gram", "least_right", "least_square"))
TOP_RUNS, TOP_SUM, FORGOTTEN = (AT[name].start for name in ("top_runs", "top_sum", "forgotten"))
W_CORES, CENTRE, RATE, LEVELS, RISE, FALL, Z_SUM, Z_SQUARE, CHANGES, CHANGED_AT, CHANGED_BY = (
    AT[name].start
    for name in (
        "w_cores", "drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square",
        "changes", "changed_at", "changed_by",
    )
)  # fmt: skip
BLOCKS = (  # of sums over powers of u: first word, powers
    *((GRAM + MOMENTS * q, MOMENTS) for q in range(3)),
    *((RIGHT + COEFFICIENTS * q, COEFFICIENTS) for q in range(2)),
    (LEAST_GRAM, MOMENTS),
    (LEAST_RIGHT, COEFFICIENTS),
)
BLOCK_STARTS, BLOCK_POWERS = (np.array(column) for column in zip(*BLOCKS, strict=True))
BINOMIAL = np.array([row + [0.0] * (MOMENTS - len(row)) for row in basis.BINOMIAL])
COLUMNS = 2 * COEFFICIENTS
BAND, SMALLEST, MARGIN = basis.RELATIVE_BAND, basis.SMALLEST_EXPONENT, basis.MARGIN
CELLS_EXPONENT, CELL_SMALLEST = sketch.CELLS_EXPONENT, sketch.SMALLEST_EXPONENT

compiled = njit(cache=True, error_model="numpy", nogil=True)
exp2 = compiled(logarithm.exp2_of)


@compiled
def accommodate(words, s, x):
    """Move the basis and the sketch of a component so that x lies within them."""
    scale, origin = words[SCALE, s], words[ORIGIN, s]
    fresh = scale == 0.0
    if fresh:
        scale = ldexp(1.0, max(frexp(x)[1] + BAND, SMALLEST))
        origin = np.inf
    if x < origin:
        origin = max(0.0, x - MARGIN * scale)
    reach = max(x, x if fresh else words[X_HIGH, s]) - origin
    mantissa, exponent = frexp(reach)
    if mantissa == 0.5:
        exponent -= 1
    relocate(words, s, origin, max(scale, ldexp(1.0, max(exponent, SMALLEST))))
    coarsen(words, s, max(frexp(x)[1] - float(CELLS_EXPONENT), CELL_SMALLEST, words[CELL_EXPONENT, s]))


@compiled
def relocate(words, s, origin, scale):
    """Re-express all sums in another basis, see `basis.relocate`."""
    old = words[SCALE, s]
    shrink = 1.0 if old == 0.0 else old / scale
    shift = (words[ORIGIN, s] - origin if np.isfinite(words[ORIGIN, s]) else 0.0) / scale
    powers = np.ones(MOMENTS)
    for m in range(1, MOMENTS):
        powers[m] = powers[m - 1] * shift
    for block in range(len(BLOCK_STARTS)):
        first, count = BLOCK_STARTS[block], BLOCK_POWERS[block]
        factor = 1.0
        for m in range(count):
            words[first + m, s] *= factor
            factor = factor * shrink
        if shift != 0.0:
            for back in range(count):
                m = count - 1 - back
                total = words[first + m, s]
                for j in range(m):
                    total += BINOMIAL[m, j] * powers[m - j] * words[first + j, s]
                words[first + m, s] = total
    words[ORIGIN, s] = origin
    words[SCALE, s] = scale


@compiled
def coarsen(words, s, exponent):
    """Raise the width of a component's cells, see `sketch.coarsen`."""
    if not np.isfinite(words[CELL_EXPONENT, s]):
        words[CELL_EXPONENT, s] = exponent
    while words[CELL_EXPONENT, s] < exponent:
        width = ldexp(1.0, int(words[CELL_EXPONENT, s]))
        bare = True
        for c in range(CELLS // 2):
            even, odd = 2 * c, 2 * c + 1
            runs = words[CELL_RUNS + odd, s]
            total = words[CELL_SUM + odd, s]
            odd_sum = total + runs * width
            odd_square = words[CELL_SQUARE + odd, s] + 2.0 * width * total + runs * (width * width)
            merged = words[CELL_RUNS + even, s] + runs
            bare = bare and merged == 0.0
            words[CELL_RUNS + c, s] = merged
            words[CELL_SUM + c, s] = words[CELL_SUM + even, s] + odd_sum
            words[CELL_SQUARE + c, s] = words[CELL_SQUARE + even, s] + odd_square
        for c in range(CELLS // 2, CELLS):
            words[CELL_RUNS + c, s] = 0.0
            words[CELL_SUM + c, s] = 0.0
            words[CELL_SQUARE + c, s] = 0.0
        words[CELL_EXPONENT, s] += 1.0
        if bare:
            words[CELL_EXPONENT, s] = max(words[CELL_EXPONENT, s], exponent)


@compiled
def solve_weighting(words, integers, s, noise):
    """Solve the weighting model of a component that is old enough, and set when it is solved next."""
    age = integers[ROWS, s] - integers[START, s]
    if age >= FIRST_SOLVE:
        fit_cone(words, s)
        words[W_ORIGIN, s] = words[ORIGIN, s]
        words[W_SCALE, s] = words[SCALE, s]
        words[W_LOW, s] = words[X_LOW, s]
        words[W_HIGH, s] = words[X_HIGH, s]
        words[W_FLOOR, s] = FLOOR_SHARE * words[T_LOW, s]
        low, high = int(np.floor(words[P_LOW, s] * CORES_UNIT)), int(np.ceil(words[P_HIGH, s] * CORES_UNIT))
        cores = low << CORES_BITS | high
        grown = integers[W_CORES, s] != cores
        integers[W_CORES, s] = cores
        normalise(words, s, age, noise)
        settle(words, integers, s, grown)
    integers[SOLVE_AT, s] = integers[START, s] + max(FIRST_SOLVE, int(ldexp(1.0, frexp(float(age))[1])))


@compiled
def to_bernstein(v):
    """Replace the moments of u^0 .. u^3 by those of u^i (1-u)^(3-i)."""
    d0, d1, d2 = v[0] - v[1], v[1] - v[2], v[2] - v[3]
    v[0], v[1], v[2] = (d0 - d1) - (d1 - d2), d1 - d2, d2


@compiled
def fit_cone(words, s):
    """Fill the weighting model's coefficients, see `weighting._not_negative`."""
    blocks = np.empty((3, COEFFICIENTS, COEFFICIENTS))
    for q in range(3):
        for i in range(COEFFICIENTS):
            for j in range(COEFFICIENTS):
                blocks[q, i, j] = words[GRAM + MOMENTS * q + i + j, s]
            to_bernstein(blocks[q, i])
        for j in range(COEFFICIENTS):
            to_bernstein(blocks[q, :, j])
    gradient = np.empty(COLUMNS)
    roots = np.empty(COLUMNS)
    matrix = np.empty((COLUMNS, COLUMNS))
    for q in range(2):
        part = gradient[COEFFICIENTS * q : COEFFICIENTS * (q + 1)]
        for j in range(COEFFICIENTS):
            part[j] = words[RIGHT + COEFFICIENTS * q + j, s]
            diagonal = blocks[2 * q, j, j]
            bound = words[GRAM + MOMENTS * 2 * q + 2 * j, s]
            roots[COEFFICIENTS * q + j] = sqrt(diagonal) if diagonal > ROUNDING * bound else np.inf
        to_bernstein(part)
    for a in range(COLUMNS):
        gradient[a] /= roots[a]
        for b in range(COLUMNS):
            entry = blocks[a // COEFFICIENTS + b // COEFFICIENTS, a % COEFFICIENTS, b % COEFFICIENTS]
            matrix[a, b] = entry / roots[a] / roots[b]
    found = np.zeros(COLUMNS)
    for sweep in range(SWEEPS):
        for turn in range(COLUMNS):
            column = turn if sweep % 2 == 0 else COLUMNS - 1 - turn
            step = max(gradient[column], -found[column])
            found[column] += step
            for row in range(COLUMNS):
                gradient[row] -= matrix[row, column] * step
    for q in range(2):
        c = found[COEFFICIENTS * q : COEFFICIENTS * (q + 1)] / roots[COEFFICIENTS * q : COEFFICIENTS * (q + 1)]
        at = W_COEFFICIENTS + COEFFICIENTS * q
        words[at, s] = c[0]
        words[at + 1, s] = c[1] - 3.0 * c[0]
        words[at + 2, s] = c[2] - 2.0 * c[1] + 3.0 * c[0]
        words[at + 3, s] = c[3] - c[2] + c[1] - c[0]


@compiled
def normalise(words, s, age, noise):
    """Scale the weighted sums, see `weighting._normalise`."""
    runs = 0.0
    for c in range(CELLS):
        runs += words[CELL_RUNS + c, s]
    explained = 0.0
    for column in range(COLUMNS):
        explained = explained + words[W_COEFFICIENTS + column, s] * words[RIGHT + column, s]
    total = explained + noise * words[GRAM, s]
    square = words[SQUARE, s]
    share = explained / (square if square > 0.0 else 1.0)
    if age < 2 * FIRST_SOLVE:
        runs = runs * min(share * share, 1.0)
    if not (total > 0.0 and runs > 0.0):
        return
    mantissa, exponent = frexp(runs / total)
    factor = ldexp(1.0, exponent - 1 if mantissa < ROOT_HALF else exponent)
    for word in range(GRAM, SQUARE + 1):
        words[word, s] *= factor


@compiled
def quick(integers, s):
    """Return True where the last change lies back little, see `drift.quick`."""
    rows, at = integers[ROWS, s], integers[CHANGED_AT, s]
    return integers[CHANGES, s] > 0 and rows - at < max(rows >> 1, QUICK_ROWS)


@compiled
def settle(words, integers, s, grown):
    """Estimate the centre and scale of residuals, see `drift.settle`."""
    scored = integers[LEVELS, s] & SCORED_MASK
    caution = integers[LEVELS, s] >> CAUTION_BITS & CAUTION_MASK
    if scored >= ROWS_MIN:
        n = float(scored)
        mean = float(integers[Z_SUM, s]) / UNIT / n
        square = float(integers[Z_SQUARE, s]) / (UNIT * UNIT) / n
        unit = UNIT / (words[RATE, s] if words[RATE, s] > 0.0 else float(UNIT))
        caution = max(caution - (0 if quick(integers, s) else 1), 0)
        spread = unit * sqrt(max(square - mean * mean, 0.0) * (n / (n - 1.0)))
        spread = max(spread, SCALE_MIN) * (1.0 + INFLATION / sqrt(n)) * (1.0 + CAUTION_STEP * caution)
        share = n / (n + PRIOR_ROWS)
        bounded = min(spread, SPREAD_MAX)
        words[CENTRE, s] = share * (words[CENTRE, s] + mean * unit) - (1.0 - share) * (HALF_LN2 * bounded * bounded)
        words[RATE, s] = UNIT / spread
    if grown:
        words[RATE, s] = 0.0
    if grown or scored >= ROWS_MIN:
        scored = 0
        integers[Z_SUM, s] = 0
        integers[Z_SQUARE, s] = 0
    integers[LEVELS, s] = caution << CAUTION_BITS | scored
    integers[RISE, s] = 0
    integers[FALL, s] = 0


@compiled
def scaled(words, s, first, count, factor):
    """Multiply some words of a component."""
    for word in range(first, first + count):
        words[word, s] *= factor


@compiled
def change(words, integers, s):
    """Carry a component to its new level, see `drift.change`."""
    risen = integers[LEVELS, s] >> RISE_BITS >= ALARM
    word = integers[RISE, s] if risen else integers[FALL, s]
    n = float(max(word & ROWS_MASK, 1))
    reach = REACH_SCALES * (UNIT / words[RATE, s])
    ratio = float(word >> ROWS_BITS) / (n * E_UNIT) - words[CENTRE, s]
    ratio = min(max(ratio, -RATIO_MAX), RATIO_MAX)
    learned = exp2(min(max(ratio, -reach), reach))
    rows = integers[ROWS, s]
    evidence = max(rows - words[FORGOTTEN, s], 1.0)
    r = exp2(ratio)
    f = r / (1.0 + min(n / evidence, 1.0) * (learned - 1.0))
    keep = min(KEPT_ROWS / evidence, 1.0)
    scaled(words, s, GRAM, 3 * MOMENTS, keep / (f * f))
    scaled(words, s, RIGHT, COLUMNS, keep / f)
    for word in (SQUARE, TOP_RUNS):
        words[word, s] *= keep
    scaled(words, s, LEAST_GRAM, MOMENTS, keep)
    for word in (CELL_RUNS, CELL_SUM, CELL_SQUARE):
        scaled(words, s, word, CELLS, keep)
    scaled(words, s, LEAST_RIGHT, COEFFICIENTS, keep * f)
    words[TOP_SUM, s] *= keep * f
    words[LEAST_SQUARE, s] *= keep * (f * f)
    scaled(words, s, W_COEFFICIENTS, COLUMNS, r)
    for word in (W_FLOOR, T_LOW):
        words[word, s] *= r
    words[FORGOTTEN, s] = rows - keep * evidence
    integers[START, s] = rows - FIRST_SOLVE
    integers[SOLVE_AT, s] = rows + FIRST_SOLVE
    caution = (integers[LEVELS, s] >> CAUTION_BITS) & CAUTION_MASK
    caution = min(caution + (1 if quick(integers, s) else 0), CAUTION_MAX)
    integers[CHANGES, s] += 1
    integers[CHANGED_AT, s] = rows
    words[CHANGED_BY, s] = ratio
    words[CENTRE, s] = 0.0
    words[RATE, s] = 0.0
    for word in (LEVELS, RISE, FALL, Z_SUM, Z_SQUARE):
        integers[word, s] = 0
    integers[LEVELS, s] = caution << CAUTION_BITS


EVENT_KERNELS = (
    exp2, coarsen, relocate, accommodate, to_bernstein, fit_cone, normalise, quick, settle, scaled, change, solve_weighting,
)  # fmt: skip
