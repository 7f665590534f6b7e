"""The fold, compiled: the same arithmetic as `fold`, row by row, on numba (the extra ``fast``).

Optional, and never a different answer: tests hold the two to the same bytes. `fold` explains the steps; here they stand in the
order in which one row takes them, and no rounds are needed. `compiled_events` has what happens to a component between rows.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportMissingImports=false
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import numpy as np
from numba import njit  # type: ignore[import-not-found]

from advisor.models import logarithm
from advisor.models.compiled_events import EVENT_KERNELS, accommodate, change, exp2, solve_weighting
from advisor.models.drift import (
    ALARM,
    CLIP,
    E_UNIT,
    FALL_BITS,
    LEVEL_MASK,
    REACH,
    REACH_SCALES,
    REST_MASK,
    RISE_BITS,
    ROWS_BITS,
    SLACK,
    UNIT,
)  # fmt: skip
from advisor.models.layout import AT, CELLS, COEFFICIENTS, DEGREE_MAX, FIRST_SOLVE, MOMENTS
from advisor.models.weighting import CORES_BITS, CORES_UNIT, TRUST

ROWS, EXTRA_RUNS, START, SOLVE_AT, UNSCORED = (
    AT[name].start for name in ("rows", "extra_runs", "start", "solve_at", "unscored")
)
X_LOW, X_HIGH, P_LOW, P_HIGH, T_LOW = (AT[name].start for name in ("x_low", "x_high", "p_low", "p_high", "t_low"))
ORIGIN, SCALE, GRAM, RIGHT, SQUARE = (AT[name].start for name in ("origin", "scale", "gram", "right", "square"))
W_COEFFICIENTS, W_ORIGIN, W_SCALE, W_LOW, W_HIGH, W_FLOOR, ERROR = (
    AT[name].start for name in ("w_coefficients", "w_origin", "w_scale", "w_low", "w_high", "w_floor", "error")
)
CELL_EXPONENT, CELL_RUNS, CELL_SUM, CELL_SQUARE = (
    AT[name].start for name in ("cell_exponent", "cell_runs", "cell_sum", "cell_square")
)
LEAST_GRAM, LEAST_RIGHT, LEAST_SQUARE = (AT[name].start for name in ("least_gram", "least_right", "least_square"))
TOP_PREDICTOR, TOP_RUNS, TOP_SUM = (AT[name].start for name in ("top_predictor", "top_runs", "top_sum"))

W_CORES, CENTRE, RATE, LEVELS, RISE, FALL, Z_SUM, Z_SQUARE, OUTLIERS, CHANGED_BY = (
    AT[name].start
    for name in (
        "w_cores", "drift_centre", "drift_rate", "drift_levels", "drift_rise", "drift_fall", "drift_sum", "drift_square",
        "outliers", "changed_by",
    )
)  # fmt: skip
CORES_MASK = (1 << CORES_BITS) - 1

# 2**e at [e + POWER_ZERO]: a multiplication by it is exact, and costs a tenth of a call of ldexp.
POWER_ZERO = 1000
POWERS = np.ldexp(1.0, np.arange(-POWER_ZERO, POWER_ZERO + 1))

# error_model: a division by zero gives inf or NaN, as in numpy. No fastmath: sums keep their order and rounding.
compiled = njit(cache=True, error_model="numpy", nogil=True)
log2 = compiled(logarithm.rough_log2_of)


@compiled
def fold_rows(words, integers, slots, x, p, t, count, noise):
    """Fold rows in their order, with every event at the very row that asks for it.

    Parameters
    ----------
    words, integers : float64 and int64 views of the table (WORDS, capacity)
    noise : float
        t0**2.

    Returns
    -------
    int64 array (k,), float64 array (k,)
        Rows that revealed a change of speed, and its log2 ratio.
    """
    found = np.empty(0, np.int64)
    ratios = np.empty(0)
    changes = 0
    for i in range(len(slots)):
        s = slots[i]
        origin, exponent = words[ORIGIN, s], words[CELL_EXPONENT, s]
        reach = CELLS * POWERS[int(max(exponent, -POWER_ZERO)) + POWER_ZERO]
        if x[i] < origin or x[i] - origin > words[SCALE, s] or x[i] >= reach:
            accommodate(words, s, x[i])
        if fold_row(words, integers, s, x[i], p[i], t[i], count[i], noise):
            change(words, integers, s)
            if changes == 0:
                found = np.empty(len(slots) - i, np.int64)
                ratios = np.empty(len(slots) - i)
            found[changes] = i
            ratios[changes] = words[CHANGED_BY, s]
            changes += 1
        if integers[ROWS, s] == integers[SOLVE_AT, s]:
            solve_weighting(words, integers, s, noise)
    return found[:changes], ratios[:changes]


@compiled
def fold_row(words, integers, s, x, p, t, count, noise):
    """Fold one row that fits its component's basis and sketch; return True where it reveals a change of speed."""
    changed = False
    u = (x - words[ORIGIN, s]) / words[SCALE, s]
    if integers[ROWS, s] - integers[START, s] < FIRST_SOLVE:
        integers[UNSCORED, s] += 1
        reference = t
    else:
        m = weigh(words, s, x, p)
        ratio = m / t
        words[ERROR, s] += abs(1.0 - ratio)
        if words[W_LOW, s] <= x <= words[W_HIGH, s] and (
            integers[W_CORES, s] >> CORES_BITS <= p * CORES_UNIT <= integers[W_CORES, s] & CORES_MASK
        ):
            t, changed = score(words, integers, s, m, ratio, t)
        reference = max(m, t * (1.0 / TRUST))
    add_sums(words, s, u, p, t, 1.0 / (reference * reference + noise) * count)
    add_to_sketch(words, s, x, count)
    two_step(words, s, x, p, t, u, count)
    words[X_LOW, s] = min(words[X_LOW, s], x)
    words[X_HIGH, s] = max(words[X_HIGH, s], x)
    words[T_LOW, s] = min(words[T_LOW, s], t)
    integers[ROWS, s] += 1
    integers[EXTRA_RUNS, s] += int(count) - 1
    return changed


@compiled
def score(words, integers, s, m, ratio, t):
    """Return the time to learn of a row and whether it reveals a change, see `drift`."""
    rate = words[RATE, s]
    tested = rate > 0.0
    e = -log2(ratio)
    z = int(np.rint((e - words[CENTRE, s]) * (rate if tested else float(UNIT))))
    if tested and abs(z) > REACH:
        integers[OUTLIERS, s] += 1
        t = m * exp2(words[CENTRE, s] + (REACH_SCALES if z > 0 else -REACH_SCALES) * (UNIT / rate))
    z = min(max(z, -REACH), REACH)
    integers[LEVELS, s] += 1
    integers[Z_SUM, s] += z
    integers[Z_SQUARE, s] += z * z
    levels = integers[LEVELS, s]
    if not tested or (levels >> FALL_BITS == 0 and abs(z) <= SLACK):
        return t, False
    z = min(max(z, -CLIP), CLIP)
    rise = max((levels >> RISE_BITS) + z - SLACK, 0)
    fall = max((levels >> FALL_BITS & LEVEL_MASK) - z - SLACK, 0)
    added = (int(np.rint(e * E_UNIT)) << ROWS_BITS) + 1
    integers[RISE, s] = integers[RISE, s] + added if rise > 0 else 0
    integers[FALL, s] = integers[FALL, s] + added if fall > 0 else 0
    integers[LEVELS, s] = rise << RISE_BITS | fall << FALL_BITS | levels & REST_MASK
    return t, rise >= ALARM or fall >= ALARM


@compiled
def weigh(words, s, x, p):
    """Return the weighting model's m(x, p), see `weighting.evaluate`."""
    inside = min(max(x, words[W_LOW, s]), words[W_HIGH, s])
    u = (inside - words[W_ORIGIN, s]) / words[W_SCALE, s]
    q = 1.0 / p
    a, b = W_COEFFICIENTS, W_COEFFICIENTS + COEFFICIENTS
    m = words[a + DEGREE_MAX, s] + words[b + DEGREE_MAX, s] * q
    for back in range(DEGREE_MAX):
        j = DEGREE_MAX - 1 - back
        m = m * u + (words[a + j, s] + words[b + j, s] * q)
    if inside != x:
        c1 = words[a + 1, s] + words[b + 1, s] * q
        c2 = words[a + 2, s] + words[b + 2, s] * q
        c3 = words[a + 3, s] + words[b + 3, s] * q
        slope = c1 + u * (2.0 * c2 + u * (3.0 * c3))
        power = np.rint(inside / words[W_SCALE, s] * slope / m)
        ratio = x / inside if inside > 0.0 else 1.0
        for whole in range(1, DEGREE_MAX + 1):
            if power >= whole:
                m = m * ratio
    return max(m, words[W_FLOOR, s])


@compiled
def add_sums(words, s, u, p, t, w):
    """Add a row to the Gram matrix, the right side and the sum of squares."""
    q = 1.0 / p
    words[SQUARE, s] += w * t * t
    for m in range(MOMENTS):
        term = w
        for power in range(3):
            words[GRAM + MOMENTS * power + m, s] += term
            if m < COEFFICIENTS and power < 2:
                words[RIGHT + COEFFICIENTS * power + m, s] += term * t
            term = term * q
        w = w * u


@compiled
def add_to_sketch(words, s, x, count):
    """Add a row to the load sketch."""
    exponent = int(words[CELL_EXPONENT, s])
    cell = int(x * POWERS[POWER_ZERO - exponent])
    offset = x - cell * POWERS[POWER_ZERO + exponent]
    weighted = offset * count
    words[CELL_RUNS + cell, s] += count
    words[CELL_SUM + cell, s] += weighted
    words[CELL_SQUARE + cell, s] += weighted * offset


@compiled
def two_step(words, s, x, p, t, u, count):
    """Add a row to the sums at the fewest cores and to the mean at the highest (cores, predictor)."""
    if p < words[P_LOW, s]:
        words[P_LOW, s] = p
        for k in range(MOMENTS):
            words[LEAST_GRAM + k, s] = 0.0
        for k in range(COEFFICIENTS):
            words[LEAST_RIGHT + k, s] = 0.0
        words[LEAST_SQUARE, s] = 0.0
    if p == words[P_LOW, s]:
        term = count
        words[LEAST_SQUARE, s] += term * t * t
        for m in range(MOMENTS):
            words[LEAST_GRAM + m, s] += term
            if m < COEFFICIENTS:
                words[LEAST_RIGHT + m, s] += term * t
            term = term * u
    if p > words[P_HIGH, s]:
        words[P_HIGH, s] = p
        words[TOP_PREDICTOR, s] = -np.inf
    if p == words[P_HIGH, s]:
        if x > words[TOP_PREDICTOR, s]:
            words[TOP_PREDICTOR, s] = x
            words[TOP_RUNS, s] = 0.0
            words[TOP_SUM, s] = 0.0
        if x == words[TOP_PREDICTOR, s]:
            words[TOP_RUNS, s] += count
            words[TOP_SUM, s] += t * count


def recompile() -> None:
    """Compile every kernel afresh and replace what is cached of it; callers last, since they hold what they call."""
    for kernel in (*EVENT_KERNELS, weigh, log2, score, add_sums, add_to_sketch, two_step, fold_row, fold_rows):
        kernel.recompile()
