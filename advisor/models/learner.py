"""The learner of one component: cells, a Gaussian process over them, widths of intervals. Kernels: a row, a question.

A row is scored where its number says so, added to its cell, and at geometric numbers of rows the settings are chosen anew. All
of it depends on the component's own rows in their order and on nothing else: the fold is a strict left fold.
"""

from __future__ import annotations

from math import sqrt

from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.models.cells import ABSOLUTE, LEAST, RELATIVE, SEEN, SEEN_RUNS, add_run, exp, ln
from advisor.models.learner_layout import (
    AT, CELLS, FIRST_SCORED, LANES, LEVELS, SETTLED_EVERY, WIDTH_MAX, WIDTH_RATE, WIDTH_ROWS, WIDTH_SHARE_LEAST, WIDTHS, ZERO,
)  # fmt: skip
from advisor.models.logarithm import LN2
from advisor.models.process import AXES, HIGHS, LOWS, SHARE, predict, refresh, settle

SCORES, COVERED, ERROR, BIAS, WIDTH = (AT[name] for name in ("scores", "covered", "error", "bias", "width"))
LEVEL_TOLD = 2  # of LEVELS: the one whose coverage is counted


def settles_at(row):
    """Return True at rows 1, 2, 3, 4, 6, 8, 12, ..: every power of two, and up to `SETTLED_EVERY` half as much again."""
    power = 1
    while power < row:
        power *= 2
    return power == row or (row <= SETTLED_EVERY and 4 * row == 3 * power)


def scores_at(row):
    """Return True where a row is predicted before it is learned: all up to 16, then 8 to 16 a doubling of rows."""
    if row < FIRST_SCORED:
        return False
    pause = 1
    while row > 16 * pause:
        pause *= 2
    return row % pause == 0


def learn(r, n, axes, z, t, count, machine, wild, solution, scratch, out):
    """Learn one run: score it where its number is due, add it to its cell, choose settings where the number is due.

    A `wild` run is counted and scored, and not added.
    """
    row = n[SEEN] + 1
    if scores_at(row):
        refresh(r, n, axes, solution, scratch)
        frame, points, root, alpha = solution
        predict(frame, points, root, alpha, r[SHARE : SHARE + LANES], scratch, z, machine, True, out)
        score(r, n, out[0], out[1], t, wild)
    for axis in range(axes - 1):
        if z[axis] > ZERO:
            r[LEAST + axis] = min(r[LEAST + axis], z[axis])
    n[SEEN] = row
    r[SEEN_RUNS] += count
    if not wild:
        add_run(r, n, axes, z, t, count, machine)
    if settles_at(row):
        settle(r, n, axes, solution, scratch)


def noise_at(r, mean):
    """Return the variance of one run's ln t about a mean ln t."""
    return r[RELATIVE] + r[ABSOLUTE] * exp(min(max(-2.0 * mean, -600.0), 600.0))


def score(r, n, mean, variance, t, wild):
    """Move the widths of intervals by one prediction and what came, and keep the books on it."""
    made = n[SCORES]
    if made == 0:
        for level in range(len(LEVELS)):
            r[WIDTH + level] = WIDTHS[level]
    miss = ln(t) - mean
    distance = abs(miss) / sqrt(variance + noise_at(r, mean))
    if distance <= r[WIDTH + LEVEL_TOLD]:
        n[COVERED] += 1
    if not wild:
        step = WIDTH_RATE * max(1.0 / (made + WIDTH_ROWS), WIDTH_SHARE_LEAST)
        for level in range(len(LEVELS)):
            beyond = 1.0 if distance > r[WIDTH + level] else 0.0
            r[WIDTH + level] *= exp(step * (beyond - (1.0 - LEVELS[level])))
    ratio = exp(min(max(-miss, -40.0), 40.0))
    r[ERROR] += abs(1.0 - ratio)
    r[BIAS] += ratio - 1.0
    n[SCORES] = made + 1


def answer(r, frame, points, root, alpha, scratch, z, machine, reach, longest, out):
    """Fill `out` with elapsed_s, low_s, high_s of one run at z, and the distance outside what was seen in log2.

    E[t] = e**mean, for the mean is of the arithmetic means; the interval is e**(mean +- reach sd), sd**2 being the mean's
    variance and one run's noise. `longest`: a run was still running after so many seconds; 0 where none was.
    """
    predict(frame, points, root, alpha, r[SHARE : SHARE + LANES], scratch, z, machine, True, out)
    mean = min(max(out[0], LN_ELAPSED_MIN), LN_ELAPSED_MAX)
    half = min(reach * sqrt(out[1] + noise_at(r, mean)), WIDTH_MAX)
    outside = 0.0
    axes = int(frame[AXES])
    for axis in range(axes):
        at = z[axis] if z[axis] > ZERO else frame[LOWS + axis]
        outside += max(frame[LOWS + axis] - at, at - frame[HIGHS + axis], 0.0)
    out[0] = exp(mean)
    out[1] = exp(max(mean - half, LN_ELAPSED_MIN))
    out[2] = max(exp(min(mean + half, LN_ELAPSED_MAX)), longest)
    out[3] = outside / LN2


LN_ELAPSED_MIN, LN_ELAPSED_MAX = ln(ELAPSED_MIN_S), ln(ELAPSED_MAX_S)
