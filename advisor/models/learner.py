"""The learner of one component: cells, a Gaussian process over them, widths of intervals. Kernels: a row, a question.

A row is scored where its number says so, added to its cell, and at geometric numbers of rows the settings are chosen anew. All
of it depends on the component's own rows in their order and on nothing else: the fold is a strict left fold.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from math import sqrt

import numpy as np

from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.models.cells import *
from advisor.models.covariance import AXES, HIGHS, LOWS, REPEATED
from advisor.models.learner_layout import *
from advisor.models.logarithm import LN2
from advisor.models.posterior import predict
from advisor.models.process import DOUBT, EXCESS, SHARE, settle
from advisor.models.waiting import accepts_far_run

SCORES, COVERED, ERROR, BIAS, WIDTH, SKEW = (
    AT[name] for name in ("scores", "covered", "error", "bias", "width", "skew")
)
# What a score moves widths by from `WIDTH_SHARE_LEAST` on, beyond an interval and within.
STEPS_LEAST = WIDTH_RATES * WIDTH_SHARE_LEAST
WIDER = tuple(float(exp(step * level)) for step, level in zip(STEPS_LEAST, LEVELS, strict=True))
NARROWER = tuple(float(exp(step * (0.0 - (1.0 - level)))) for step, level in zip(STEPS_LEAST, LEVELS, strict=True))
LEVEL_REPORTED = 2  # of LEVELS: the one whose coverage is counted


def settles_at(row):
    """Return True at rows 1, 2, 3, 4, 6, 8, 12, ..: every power of two, and up to `SETTLED_EVERY` half as much again."""
    power = 1
    while power < row:
        power *= 2
    return power == row or (row <= SETTLED_EVERY and 4 * row == 3 * power)


def learn(r, n, axes, z, t, count, machine, cell, outlier, model, solution, scratch, out):
    """Learn one run: score it where its number is due, add it to its cell, choose settings where the number is due.

    `cell`: its cell, NOWHERE where it has none yet. `outlier`: the run is counted and scored, and not added. `model`: ln t as
    `cells.expected` has it, UNKNOWN where it has not.
    """
    row = n[SEEN] + 1
    if model == model and row >= FIRST_SCORED:
        # The mean of the cell is known as well as its own runs tell it.
        variance = 0.0
        if cell != NOWHERE:
            variance = variance_of_run(r, n, cell, r[MEAN + cell]) / (r[MEAN + cell] * r[MEAN + cell] * r[RUNS + cell])
        score(r, n, model, min(variance, 1.0), t, outlier)
    n[SEEN] = row
    r[SEEN_RUNS] += count
    if row > SETTLED_EVERY and cell == NOWHERE and model != model and not outlier:
        outlier = not accepts_far_run(r, n, axes, z, t, count, machine, solution, scratch, out)
        if not outlier:
            cell = cell_with(n, key_of(n, axes, z, machine))
    elif n[MACHINE] < NOWHERE:
        n[MACHINE] += 1
    if not outlier:
        for axis in range(axes - 1):
            if z[axis] > ZERO:
                word = least_at(axes) + axis
                r[word] = min(r[word], z[axis])
        add_run(r, n, axes, z, t, count, machine, cell)
    if settles_at(row):
        settle(r, n, axes, solution, scratch)


def spread_of(r, variance, reach, usual, wider=1.0):
    """Return the sd of ln t, of the model's variance and one run's relative noise: what of that repeats have shown is `wider`.

    A reach that is wider than `usual` is for noise with long tails, which the model has not: it does not widen its part.
    """
    share = min(usual / reach, 1.0)
    relative = max(r[RELATIVE], RUN_SD_REPORTED * RUN_SD_REPORTED)
    relative += max(relative - RUN_SD * RUN_SD, 0.0) * (wider * wider - 1.0)
    return sqrt(variance * share * share + relative + r[EXCESS])


def down(time, spread, absolute, reach):
    """Return the lower end of an interval: e**(-reach sd) of the time, both noises as one sd of ln t.

    A time is positive, so noise that does not scale with it reaches down by factors, too. Steps of `reach` sd below the time
    would end at 0 where that noise is as large as the time. A log-normal time of relative variance v has ln t of ln(1 + v).
    """
    return time * exp(max(-reach * sqrt(spread * spread + ln(1.0 + absolute / (time * time))), -WIDTH_MAX))


def up(time, spread, absolute, reach):
    """Return the upper end of an interval, see `down`."""
    factor = time * (exp(min(reach * spread, WIDTH_MAX)) - 1.0)
    return time + sqrt(factor * factor + reach * reach * absolute)


def score(r, n, mean, variance, t, outlier):
    """Move the widths of intervals by one prediction and what came, and keep the books on it."""
    made = n[SCORES]
    if made == 0:
        for level in range(len(LEVELS)):
            r[WIDTH + level] = WIDTHS[level]
    mean = min(max(mean, LN_ELAPSED_MIN), LN_ELAPSED_MAX)
    time, lean, within = exp(mean), 0.0, np.inf
    for level in range(len(LEVELS)):
        reach = r[WIDTH + level]
        step = WIDTH_RATES[level] * max(1.0 / (made + WIDTH_ROWS[level]), WIDTH_SHARE_LEAST)
        above, below = False, False
        if reach < within:  # what a narrower interval holds a wider one holds
            spread = spread_of(r, variance, reach, WIDTHS[level])
            above = t > time and t > up(time, spread, r[ABSOLUTE], reach / r[SKEW])
            below = t < time and t < down(time, spread, r[ABSOLUTE], reach * r[SKEW])
            within = within if above or below else reach
        beyond = above or below
        if level == LEVEL_REPORTED:
            n[COVERED] += 0 if beyond else 1
            lean = step * SKEW_SHARE * ((1.0 if below else 0.0) - (1.0 if above else 0.0))
        if not outlier:
            if step > STEPS_LEAST[level]:
                r[WIDTH + level] *= exp(step * ((1.0 if beyond else 0.0) - (1.0 - LEVELS[level])))
            else:
                r[WIDTH + level] *= WIDER[level] if beyond else NARROWER[level]
    if lean != 0.0 and not outlier:
        r[SKEW] = min(max(r[SKEW] * exp(lean), 1.0 / SKEW_MOST), SKEW_MOST)
    off = (time - t) / max(time, t)  # from -1 to 1: the ratio to a time near the timer's tick would drown all others
    r[ERROR] += abs(off)
    r[BIAS] += off
    n[SCORES] = made + 1


def answer(r, frame, points, root, alpha, scratch, z, machine, reach, beyond, longest, out):
    """Fill `out` with elapsed_s, low_s, high_s of one run at z, and the distance outside what was seen in log2.

    E[t] = e**mean, for the mean is of the arithmetic means; the interval is of `down` and `up`, of the mean's variance and one
    run's noise. `beyond`: the least reach outside. `longest`: a run was still running after so many seconds; 0 where none was.
    """
    predict(frame, points, root, alpha, r[SHARE : SHARE + LANES], scratch, z, machine, True, out)
    mean = min(max(out[0], LN_ELAPSED_MIN), LN_ELAPSED_MAX)
    outside = 0.0
    axes = int(frame[AXES])
    for axis in range(axes):
        at = z[axis] if z[axis] > ZERO else frame[LOWS + axis]
        outside += max(frame[LOWS + axis] - at, at - frame[HIGHS + axis], 0.0)
    variance = out[1] * r[DOUBT]
    if outside > 0.0:  # what cells and scores inside have shown is no promise
        reach = max(reach, beyond)
        variance = out[1] + BEYOND_SD * BEYOND_SD * outside * outside
    time = min(max(exp(mean), ELAPSED_MIN_S), ELAPSED_MAX_S)  # exp rounds
    wider = 1.0 + FURTHER_UP * frame[REPEATED] * frame[REPEATED] / (r.view(np.int64)[SCORES] + FURTHER_SCORES)
    spread, wide = spread_of(r, variance, reach, beyond), spread_of(r, variance, reach, beyond, wider)
    out[0] = time
    reach *= REACH_SLACK
    lower = down(time, spread, r[ABSOLUTE], reach * r[SKEW])
    out[1] = min(max(lower, ELAPSED_MIN_S), time)
    upper = up(time, wide, r[ABSOLUTE] * wider * wider, reach / r[SKEW])
    out[2] = max(min(upper, ELAPSED_MAX_S), longest)
    out[3] = outside / LN2
