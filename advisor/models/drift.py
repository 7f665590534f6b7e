"""Changes of speed and outliers, found in each row's ratio to what the weighting model expected.

e = log2(t / m) of a row within the predictors and cores that the model m was solved on; z = (e - centre) / scale, in whole
256ths. Two sums, each the CUSUM of Page (1954), restart at 0:

    rise = max(0, rise + min(z, CLIP) - SLACK)        fall = max(0, fall + min(-z, CLIP) - SLACK)

One that reaches `ALARM` is a change, at that very row. All of it is integers. A residual of more than a factor of four brings
a change nearer by less, one beyond a factor of ten by `ALARM` / 32 at most: a burst of outliers is no change.

Centre and scale stand still between the solves of the weighting model and are estimated at each from the rows since the last,
so a component is tested from its 32nd row on. At a change the old sums are carried to the new level and count as few rows.
A row beyond `REACH` scales is learned at that bound. A slow drift is looked for in a learner's cells, by `slow_drift`.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import sqrt

import numpy as np

from advisor.models.base_words import *
from advisor.models.layout import AT, COEFFICIENTS, FIRST_SOLVE
from advisor.models.learner_layout import AT as RECORD
from advisor.models.learner_layout import (
    SLOW_ERRORS,
    SLOW_ERRORS_AGAIN,
    SLOW_LEAST,
    SLOW_ROWS,
    SLOW_ROWS_MOST,
)  # fmt: skip
from advisor.models.logarithm import SHORT_ABOVE, SHORT_MASK, exp2_of, ln, long_of, short

SEEN, SLOW_SUM, SLOW_SQUARE, SLOW_WEIGHT, DRIFTED, DRIFTED_AT = (
    RECORD[name] for name in ("seen", "slow_sum", "slow_square", "slow_weight", "drifted", "drifted_at")
)
UNIT = 256  # of z: an error of 1/512 scale a row is far below the error of the scale
# Chosen by simulation of log-normal and Student noise, see docs/decisions/0011-drift.md.
SLACK = UNIT  # 1 scale: a model that is wrong by less than its residuals, for however long, raises no alarm
CLIP = 9 * UNIT // 4  # no single row brings a change nearer by more than 1.25 of the 6 scales: it takes 5 at least
ALARM = 6 * UNIT
REACH_SCALES = 6.0
REACH = (
    6 * UNIT
)  # a residual beyond is learned at it. More than one in 36 widen the scale instead: such rows are no exception

ROWS_MIN = 8  # scored rows that an estimate of centre and scale needs
# SCALE_MIN: log2: where rows repeat to the digit, a model is still some 20 % off at one size or another, for long
SCALE_MIN = 0.25
INFLATION = 1.0  # of the scale, by 1 / sqrt(rows): about twice its standard error
# A young model's own level is worth this many rows: E[t / m] = 1 at each solve, so that E[e] is about -(ln 2 / 2) scale**2.
PRIOR_ROWS = 64.0
HALF_LN2 = 0.34657359027997264
SPREAD_MAX = 1.0  # the scale up to which that expansion is used

# Changes that follow each other are residuals that persist: a sweep over sizes that the model fits badly, say. Each widens the
# scale by half; the next solve takes one back when half of the component's life has passed without a change.
CAUTION_MAX = 6
CAUTION_STEP = 0.5
QUICK_ROWS = 256

RETAINED_ROWS = 8.0  # what the sums of before a change count as: the shape stays until 8 new rows outweigh it
RATIO_MAX = 60.0  # log2 of one change: of the longest legal time over the shortest

E_UNIT = 1024.0  # of the sums of e since a level left 0
ROWS_BITS = 20  # of such a word: the rows; above them the sum
ROWS_MASK = (1 << ROWS_BITS) - 1
RISE_BITS, FALL_BITS, CAUTION_BITS = 48, 32, 28  # of the levels' word; below them the rows scored since the last solve
LEVEL_MASK, REST_MASK, CAUTION_MASK, SCORED_MASK = (1 << 16) - 1, (1 << 32) - 1, (1 << 4) - 1, (1 << 28) - 1

# Outlying measurements come in bursts: the further off, the more rows must agree. In log2 of a residual.
QUICK_RESIDUAL, PATIENT_RESIDUAL = 2.0, 3.3
PATIENT_STEP = ALARM // 32  # 32 rows beyond a factor of ten are a change, 20 are none

SUMS = {  # that fade, and the power of a time that each grows with: 1 / t**2 is the weight of the first three
    "gram": -2, "right": -1, "square": 0, "least_gram": 0, "least_right": 1, "least_square": 2,
    "top_runs": 0, "top_sum": 1, "cell_runs": 0, "cell_sum": 0, "cell_square": 0,
}  # fmt: skip
FADED = np.array([word for name in SUMS for word in range(AT[name].start, AT[name].stop)], np.int64)
POWERS_OF_TIME = np.repeat([*SUMS.values()], [AT[name].stop - AT[name].start for name in SUMS])
WITHIN, BEYOND, CHANGED = 0, 1, 2  # what a row is found to be


def test_row(w, n, e):
    """Return whether a row of residual e (log2) is WITHIN what was expected, BEYOND it, or reveals that speed has CHANGED."""
    rate = w[DRIFT_RATE]
    tested = rate > 0.0
    off = e - w[DRIFT_CENTRE]
    z = int(np.rint(min(max(off * (rate if tested else float(UNIT)), -1e6), 1e6)))
    outlier = tested and abs(z) > REACH
    if outlier:
        n[OUTLIERS] += 1
    z = min(max(z, -REACH), REACH)
    n[DRIFT_LEVELS] += 1
    n[DRIFT_SUM] += z
    n[DRIFT_SQUARE] += z * z
    levels = n[DRIFT_LEVELS]
    if not tested or (levels >> FALL_BITS == 0 and abs(z) <= SLACK):
        return BEYOND if outlier else WITHIN
    step = min(abs(z), CLIP) - SLACK
    if step > PATIENT_STEP and abs(off) > QUICK_RESIDUAL:
        slow = min((abs(off) - QUICK_RESIDUAL) / (PATIENT_RESIDUAL - QUICK_RESIDUAL), 1.0)
        step = int(np.rint(step + (PATIENT_STEP - step) * slow))
    against = -min(abs(z), CLIP) - SLACK
    rise = max((levels >> RISE_BITS) + (step if z > 0 else against if z < 0 else -SLACK), 0)
    fall = max((levels >> FALL_BITS & LEVEL_MASK) + (step if z < 0 else against if z > 0 else -SLACK), 0)
    added = (int(np.rint(e * E_UNIT)) << ROWS_BITS) + 1
    n[DRIFT_RISE] = n[DRIFT_RISE] + added if rise > 0 else 0
    n[DRIFT_FALL] = n[DRIFT_FALL] + added if fall > 0 else 0
    n[DRIFT_LEVELS] = rise << RISE_BITS | fall << FALL_BITS | levels & REST_MASK
    if rise >= ALARM or fall >= ALARM:
        return CHANGED
    return BEYOND if outlier else WITHIN


def bound_of(w, e):
    """Return the residual (log2) at which a row BEYOND is learned by the sums."""
    reach = REACH_SCALES * (UNIT / w[DRIFT_RATE])
    return w[DRIFT_CENTRE] + (reach if e > w[DRIFT_CENTRE] else -reach)


def quick(n):
    """Return True where the last change lies back little, see `drift.quick`."""
    rows, at = n[ROWS], n[CHANGED_AT]
    return n[CHANGES] > 0 and rows - at < max(rows >> 1, QUICK_ROWS)


def settle(w, n, grown, averaged):
    """Estimate the centre and scale of residuals since the last solve; the expected centre is worth `PRIOR_ROWS`.

    `averaged`: 1 where rows are compared with a mean, 0 with a single run. The log of a mean of k runs lies above the mean of
    logs by (ln 2 / 2) scale**2 (1 - 1/k).
    """
    scored = n[DRIFT_LEVELS] & SCORED_MASK
    caution = n[DRIFT_LEVELS] >> CAUTION_BITS & CAUTION_MASK
    if scored >= ROWS_MIN:
        many = float(scored)
        mean = float(n[DRIFT_SUM]) / UNIT / many
        square = float(n[DRIFT_SQUARE]) / (UNIT * UNIT) / many
        unit = UNIT / (w[DRIFT_RATE] if w[DRIFT_RATE] > 0.0 else float(UNIT))
        caution = max(caution - (0 if quick(n) else 1), 0)
        spread = unit * sqrt(max(square - mean * mean, 0.0) * (many / (many - 1.0)))
        spread = max(spread, SCALE_MIN) * (1.0 + INFLATION / sqrt(many)) * (1.0 + CAUTION_STEP * caution)
        share = many / (many + PRIOR_ROWS)
        bounded = min(spread, SPREAD_MAX)
        w[DRIFT_CENTRE] = share * (w[DRIFT_CENTRE] + mean * unit) - (1.0 - share) * (
            HALF_LN2 * bounded * bounded * averaged
        )
        w[DRIFT_RATE] = UNIT / spread
    if grown:
        w[DRIFT_RATE] = 0.0
    if grown or scored >= ROWS_MIN:
        scored = 0
        n[DRIFT_SUM] = 0
        n[DRIFT_SQUARE] = 0
    n[DRIFT_LEVELS] = caution << CAUTION_BITS | scored
    n[DRIFT_RISE] = 0
    n[DRIFT_FALL] = 0


def change(w, n):
    """Carry a component, just found to have changed, to its new level; return the log2 ratio.

    With r the geometric mean of t / m since the level left 0, against the centre, the weighting model is multiplied by r. The
    sums hold those rows already, at their new level: a share of k of N rows, so they are carried by f = r / (1 + k/N (r - 1)),
    w = 1 / m**2 and all, and discounted to `RETAINED_ROWS` rows. The component is then of age 32: the model is solved
    again after 16 more rows, and then at 64, 128, ...
    """
    risen = n[DRIFT_LEVELS] >> RISE_BITS >= ALARM
    word = n[DRIFT_RISE] if risen else n[DRIFT_FALL]
    since = float(max(word & ROWS_MASK, 1))
    reach = REACH_SCALES * (UNIT / w[DRIFT_RATE])
    ratio = float(word >> ROWS_BITS) / (since * E_UNIT) - w[DRIFT_CENTRE]
    ratio = min(max(ratio, -RATIO_MAX), RATIO_MAX)
    learned = exp2_of(min(max(ratio, -reach), reach))
    evidence = max(n[ROWS] - w[FORGOTTEN], 1.0)
    r = exp2_of(ratio)
    caution = (n[DRIFT_LEVELS] >> CAUTION_BITS) & CAUTION_MASK
    caution = min(caution + (1 if quick(n) else 0), CAUTION_MAX)
    carry(w, n, r, r / (1.0 + min(since / evidence, 1.0) * (learned - 1.0)), RETAINED_ROWS)
    begin_young(n)
    n[CHANGES] += 1
    n[CHANGED_AT] = n[ROWS]
    w[CHANGED_BY] = ratio
    restart(w, n)
    n[DRIFT_LEVELS] = caution << CAUTION_BITS
    return ratio


def carry(w, n, r, f, kept):
    """Carry a component's model by r and its sums by f; these then count `kept` rows at most."""
    evidence = max(n[ROWS] - w[FORGOTTEN], 1.0)
    keep = min(kept / evidence, 1.0)
    factors = (keep / (f * f), keep / f, keep, keep * f, keep * (f * f))
    for i in range(len(FADED)):
        w[FADED[i]] *= factors[2 + POWERS_OF_TIME[i]]
    for word in range(W_COEFFICIENTS, W_COEFFICIENTS + COEFFICIENTS):
        above, below = long_of(n[word] >> SHORT_ABOVE & SHORT_MASK), long_of(n[word] & SHORT_MASK)
        n[word] = short(above * r) << SHORT_ABOVE | short(below * r)
    w[W_FLOOR] *= r
    w[T_LOW] *= r
    w[FORGOTTEN] = n[ROWS] - keep * evidence


def begin_young(n):
    """Let a component be of age 16: its model is solved again after 16 more rows."""
    n[START] = n[ROWS] - FIRST_SOLVE
    n[SOLVE_AT] = n[ROWS] + FIRST_SOLVE


def restart(w, n):
    """Forget centre, scale and levels; the next solve but one brings a test again."""
    w[DRIFT_CENTRE] = 0.0
    w[DRIFT_RATE] = 0.0
    n[DRIFT_LEVELS] = 0
    n[DRIFT_RISE] = 0
    n[DRIFT_FALL] = 0
    n[DRIFT_SUM] = 0
    n[DRIFT_SQUARE] = 0


def score_level(r, n, mean, step, variance, weight):
    """Add to the sums of `slow_drift` a run `step` above its cell's mean; `weight`: its runs, fewer in a young cell."""
    steepness = weight * mean / variance
    score = steepness * step
    r[SLOW_SUM] += score
    r[SLOW_SQUARE] += score * score
    r[SLOW_WEIGHT] += steepness * mean


def slow_drift(r, n):
    """Return ln of a slow drift that a component's rows reveal, looked for at every `SLOW_ROWS` of them, else 0.

    Runs are compared with the means of their cells before them: without a drift these steps have mean 0 under any noise. With V
    the variance of a run, the level is off by S / I, S = sum m (t - m) / V and I = sum m**2 / V; its error is sqrt(sum of the
    squared terms of S) / I, which a few outliers widen as much as they move S.
    """
    total, square, weight = r[SLOW_SUM], r[SLOW_SQUARE], r[SLOW_WEIGHT]
    if weight == 0.0 or n[SEEN] % SLOW_ROWS:
        return 0.0
    errors = SLOW_ERRORS_AGAIN if total * r[DRIFTED] > 0.0 else SLOW_ERRORS
    found = total * total > errors * errors * square and abs(total) > SLOW_LEAST * weight
    if found or n[SEEN] % SLOW_ROWS_MOST == 0:
        forget_slow(r, n)
    return ln(max(1.0 + total / weight, 0.5)) if found else 0.0


def forget_slow(r, n):
    """Look for a slow drift from the start."""
    r[SLOW_SUM], r[SLOW_SQUARE], r[SLOW_WEIGHT] = 0.0, 0.0, 0.0
