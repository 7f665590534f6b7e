"""The fold of rows, in their order, into a component's sums and its learner: one source, compiled as it stands.

A row is tested against what was expected of it (by the learner's cells, by the weighting model where a component has none),
added to the exact sums, and learned; then comes whatever its number makes due. State depends on the component's own rows in
their order: cut a batch anywhere and the bytes are the same. Questions read what rows have left.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np

from advisor import kernels
from advisor.domain.limits import ELAPSED_MAX_S, PREDICTOR_MAX, PREDICTOR_RESOLUTION
from advisor.kernels import prefetch
from advisor.models.asked_points import (
    answer_one,
    answer_points,
    cross_covariance,
    place_logs,
    place_row,
    predict_points,
    room_of,
)  # fmt: skip
from advisor.models.base_words import *
from advisor.models.cells import *
from advisor.models.combine import forget_sums, merge_cells_of, merge_sums
from advisor.models.contention import FIELDS as CONTENTION
from advisor.models.contention import LAYOUT as CONTENTION_LAYOUT
from advisor.models.contention import add_to_epoch, correction, end_epoch
from advisor.models.core_rule import choose_among, choose_at, noise_of
from advisor.models.cores_seen import note_run
from advisor.models.covariance import LEVEL, RESIDUAL, STRAIGHT, features_at, further_at
from advisor.models.drift import (
    CHANGED,
    DRIFTED,
    DRIFTED_AT,
    REACH,
    RETAINED_ROWS,
    WITHIN,
    begin_young,
    bound_of,
    carry,
    change,
    forget_slow,
    restart,
    slow_drift,
    test_row,
)  # fmt: skip
from advisor.models.layout import COEFFICIENTS, FIRST_SOLVE, NOISE, WORDS
from advisor.models.learner import learn
from advisor.models.learner_layout import *
from advisor.models.logarithm import LN2, exp2_of, log2_of, rough_log2_of
from advisor.models.posterior import predict
from advisor.models.process import SHARE, lay_out, refresh, settle, solve_laid_out
from advisor.models.records import RecordTable
from advisor.models.sums import add_sums, add_to_sketch, hold, two_step
from advisor.models.weighting import TRUST, fit_cone, knows, solve_weighting, weigh

DRIFTED_MOST = 100.0  # ln of all drift that was followed, either way
SPREAD_MOST = 1.0  # sd of ln t up to which a killed run is learned as longer than it was
ROWS_AHEAD = 2  # whose memory is asked for: each has some 70 lines, and the nearest cache several hundred
ABSENT = -1  # place of a component without a learner's record


def product_of(point, axes):
    """Return the one predictor of the sums: the product of all, which is the work of most kernels."""
    x = 1.0
    for axis in range(axes - 1):
        x *= point[axis]
    return 0.0 if x < PREDICTOR_RESOLUTION else min(x, PREDICTOR_MAX)


def fold_one(base, slot, learners, place, axes, point, t, count, machine, solution, scratch, out):
    """Fold one row into the words of its component; return the log2 ratio of a change of speed that it reveals, else 0.

    A negative `t` is a run that was killed: it would have taken longer than -t.

    Parameters
    ----------
    base, learners : float64 arrays (slots, WORDS), (places, words of a record)
    place : int
        Of the component's record in `learners`, ABSENT where it has none.
    point : float64 array (2 AXES_MAX,)
        Predictors and cores; its second half is filled with their logs.
    machine : int
        Its number, negative where none is named.
    """
    w = base[slot]
    n = w.view(np.int64)
    x, p = product_of(point, axes), point[axes - 1]
    hold(w, x)
    w[T_HIGH] = max(w[T_HIGH], t)
    has = place != ABSENT
    r = learners[place] if has else w
    m = r.view(np.int64)
    z = point[AXES_MAX:]
    if has:
        place_logs(point, axes)
        machine = place_of_machine(m, machine)
    if t < 0.0:
        t = beyond_bound(w, n, r, m, has, axes, x, p, machine, -t, solution, scratch, point, out)
        if t == 0.0:
            n[UNFINISHED] += 1
            return 0.0
    found, outlier, learned, reference = WITHIN, False, t, t
    cell = cell_with(m, key_of(m, axes, z, machine)) if has else NOWHERE
    beside = standing_for(r, m, axes, z, machine, cell) if has else NOWHERE
    model = expected(r, m, axes, z, beside) if has else UNKNOWN
    if n[ROWS] - n[START] < FIRST_SOLVE:
        n[UNSCORED] += 1
    else:
        found, outlier, learned, reference = test_against(w, n, r, has, beside, model, x, p, t)
    learn_sums(w, x, p, learned, reference, count)
    n[ROWS] += 1
    note_run(w, n, p, count)
    if has:
        learn(r, m, axes, z, t, count, machine, cell, outlier, model, solution, scratch, out)
    ratio = 0.0
    if found == CHANGED:
        ratio = change(w, n)
        if has:
            move_level(r, m, ratio)
    elif has:
        follow_drift(w, n, r, m)
    if n[ROWS] == n[SOLVE_AT]:
        # The rows since the last solve were compared with cells of half as many runs.
        solve_weighting(w, n, max(1.0 - 2.0 * m[COUNT] / max(m[SEEN], 1), 0.0) if has else 1.0)
    return ratio


def test_against(w, n, r, has, beside, model, x, p, t):
    """Test a row against what its learner's cells expect, or the weighting model where it has none that say.

    Return what the test found, whether the row is an outlier, the time that the sums learn, and that which weighs it.
    """
    weighed = weigh(w, n, x, p)
    w[ERROR] += min(abs(t - weighed) / max(t, weighed), 1.0)  # bounded, as the score of learner.score
    found, outlier, learned, residual, judged, reported = WITHIN, False, t, 0.0, False, True
    if has:
        judged = beside != NOWHERE
        if judged:
            residual = log2_of(t) - model / LN2
            reported = r[OUTLIER + beside] == 0.0
            if (
                not reported
            ):  # that differs from an outlying cell is no change of speed; from both, it is an outlier, too
                own = log2_of(t / r[MEAN + beside])
                residual = own if abs(own) < abs(residual) else residual
    else:
        judged = knows(w, n, x, p)
        if judged:
            residual = -rough_log2_of(weighed / t)
    if judged:
        rate = w[DRIFT_RATE]
        outlier = rate > 0.0 and abs(np.rint((residual - w[DRIFT_CENTRE]) * rate)) > REACH
        # The sums bound a row that their own rough model finds an outlier as well, where it knows such rows.
        if outlier and not (knows(w, n, x, p) and abs((rough_log2_of(weighed / t) + w[DRIFT_CENTRE]) * rate) <= REACH):
            learned = t * exp2_of(bound_of(w, residual) - residual)
        if reported:
            found = test_row(w, n, residual)
    return found, outlier, learned, max(weighed, learned * (1.0 / TRUST))


def learn_sums(w, x, p, learned, reference, count):
    """Add a row to the exact sums, weighed by its `reference` time, and to the ranges."""
    at = (x - w[ORIGIN]) / w[SCALE]
    add_sums(w, at, p, learned, 1.0 / (reference * reference + NOISE) * count)
    add_to_sketch(w, x, count)
    two_step(w, x, p, learned, at, count)
    w[X_LOW] = min(w[X_LOW], x)
    w[X_HIGH] = max(w[X_HIGH], x)
    w[T_LOW] = min(w[T_LOW], learned)


def beyond_bound(w, n, r, m, has, axes, x, p, machine, bound, solution, scratch, point, out):
    """Return what a run that was killed after `bound` seconds is learned as, 0 where that is what one takes at most anyway.

    Of runs longer than b the mean is about b (1 + s), s the sd of ln t, where b is near the mean or above it.
    """
    expected_s, spread = 0.0, RUN_SD
    if has and m[COUNT] > 0:
        refresh(r, m, axes, solution, scratch)
        frame, points, root, alpha = solution
        predict(frame, points, root, alpha, r[SHARE : SHARE + LANES], scratch, point[AXES_MAX:], machine, False, out)
        expected_s = exp2_of(min(max(out[0], LN_ELAPSED_MIN), LN_ELAPSED_MAX) / LN2)
        spread = min(max(sqrt(r[RELATIVE]), RUN_SD), SPREAD_MOST)
    elif n[ROWS] - n[START] >= FIRST_SOLVE:
        expected_s = weigh(w, n, x, p)
    found = min(bound * (1.0 + spread), ELAPSED_MAX_S)
    return found if found > expected_s else 0.0


def fold_rows(
    base, slots, learners, places, axes, predictors, cores, times, counts, machines, contentions, homes, others, solution,
    scratch, point, out, found, ratios,
):  # fmt: skip
    """Fold rows of components over the same axes in their order; return how many changes of speed they reveal.

    Parameters
    ----------
    slots, places, machines : int64 arrays (n,)
    predictors : float64 array (n, d)
    cores, times, counts : float64 arrays (n,)
    contentions : float64 array (records, words)
        See `contention`; the times in them are those that were measured.
    homes : int64 array (n,)
        Of each row's component among them, ABSENT where the row does not tell `others`, the busy cores (n,): else the row is
        folded as an idle machine would have run it.
    found, ratios : int64 and float64 arrays (n,)
        Filled with the rows that reveal a change, and its log2 ratio.
    """
    changes = 0
    for i in range(len(slots)):
        ahead = i + ROWS_AHEAD
        if ahead < len(slots):
            fetch_ahead(base, slots[ahead], learners, places[ahead])
        place_row(point, axes, predictors, cores, i)
        t, w = times[i], base[slots[i]]
        n = w.view(np.int64)
        due = n[SOLVE_AT]
        if homes[i] != ABSENT:
            c = contentions[homes[i]]
            k = c.view(np.int64)
            t /= correction(c, k, others[i])
            add_to_epoch(c, k, w, n, product_of(point, axes), cores[i], times[i], others[i], counts[i])
        ratio = fold_one(
            base, slots[i], learners, places[i], axes, point, t, counts[i], machines[i], solution, scratch, out
        )
        if ratio != 0.0:
            found[changes] = i
            ratios[changes] = ratio
            changes += 1
        if homes[i] != ABSENT:
            w[T_HIGH] = max(w[T_HIGH], times[i])  # as it was measured
            if n[SOLVE_AT] != due:
                c = contentions[homes[i]]
                factor = end_epoch(c, c.view(np.int64))
                if factor != 1.0:
                    carry_one(base, slots[i], learners, places[i], factor)
    return changes


def fetch_ahead(base, slot, learners, place):
    """Ask for the memory of a row's component, some rows before its turn comes."""
    prefetch(base[slot])
    if place != ABSENT:
        prefetch(learners[place])


def follow_drift(w, n, r, m):
    """Carry a component to the level of a slow drift, where its rows reveal one; its shape and its schedules stay."""
    moved = slow_drift(r, m)
    if moved != 0.0:
        factor = exp2_of(moved / LN2)
        carry(w, n, factor, factor, SLOW_RETAINED)
        carry_level(r, m, moved, SLOW_RETAINED)
        r[DRIFTED] = min(max(r[DRIFTED] + moved, -DRIFTED_MOST), DRIFTED_MOST)
        m[DRIFTED_AT] = n[ROWS]


def move_level(r, m, ratio):
    """Carry a learner's record to a new level, t becoming t 2**ratio; its schedules begin anew."""
    carry_level(r, m, ratio * LN2, RETAINED_RUNS)
    forget_slow(r, m)
    m[SEEN] = 0
    r[SEEN_RUNS] = 0.0


def carry_one(base, slot, learners, place, factor):
    """Carry what a component has learned to a new level, for its rows were corrected too little or too much."""
    w = base[slot]
    n = w.view(np.int64)
    carry(w, n, factor, factor, RETAINED_ROWS)
    begin_young(n)
    restart(w, n)
    if place != ABSENT:
        r = learners[place]
        move_level(r, r.view(np.int64), log2_of(factor))


def refresh_one(learners, place, axes, solution, scratch):
    """Solve a record as it is now."""
    r = learners[place]
    refresh(r, r.view(np.int64), axes, solution, scratch)


def refresh_leaning(learners, place, axes, slopes, solution, scratch):
    """Solve a record as `refresh_one` does, with prior coefficients `slopes` (axes + 2,) of the straight features."""
    frame, points, _, _ = solution
    r = learners[place]
    n = r.view(np.int64)
    lay_out(r, n, axes, frame, points)
    first, residual, count = features_at(axes), further_at(axes) + RESIDUAL, n[COUNT]
    level = 0.0
    for cell in range(count):
        for feature in range(axes + 2):
            points[residual, cell] -= slopes[feature] * points[first + feature, cell]
        level += points[residual, cell] / count
    for cell in range(count):
        points[residual, cell] -= level
    frame[LEVEL] += level
    solve_laid_out(r, n, solution, scratch)
    for feature in range(axes + 2):
        frame[STRAIGHT + 1 + feature] += slopes[feature]


def settle_one(learners, place, axes, solution, scratch):
    """Choose a record's settings anew, otherwise than by a row: after a merge, or of converted cells."""
    r = learners[place]
    settle(r, r.view(np.int64), axes, solution, scratch)


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    base, records = np.zeros((1, WORDS)), LearnerTable(2, 1).words
    solution, scratch, point, out = room_of(2)
    whole, some, rows = np.zeros(1, np.int64), np.zeros(1), np.zeros((1, 2))
    yield "fold_one", (base, 0, records, 0, 2, point, 1.0, 1.0, -1, solution, scratch, out)
    batch = (base, whole, records, whole, 2, np.zeros((1, 1)), some, some, some, whole)
    beside = (RecordTable(CONTENTION, CONTENTION_LAYOUT, 1).words, whole, some)
    yield "fold_rows", (*batch, *beside, solution, scratch, point, out, whole, some)
    yield "refresh_one", (records, 0, 2, solution, scratch)
    yield "refresh_leaning", (records, 0, 2, np.zeros(4), solution, scratch)
    yield "choose_among", (base, 0, some, 0.0, 0.05, 0.0, False, np.zeros((3, 1)))
    yield "noise_of", (records, 0)
    chosen = (base, 0, records, 0, 2, some, -1, 1.8, 1.8, 0.0, 0.05, 0.0, False, True)
    yield "choose_at", (*chosen, solution, scratch, point, np.zeros((3, 1)), out)
    yield "settle_one", (records, 0, 2, solution, scratch)
    yield "predict_points", (records, 0, 2, np.zeros((1, 1)), some, -1, True, solution, scratch, point, rows)
    yield "answer_one", (records, 0, 2, point, -1, 1.8, 1.8, 0.0, solution, scratch, out)
    asked = (records, 0, 2, np.zeros((1, 1)), some)
    yield "answer_points", (*asked, -1, 1.8, 1.8, 0.0, solution, scratch, point, rows)
    white = np.zeros((2, CELLS, LANES))
    yield "cross_covariance", (*asked, np.zeros((1, 1)), some, solution, scratch, point, white, rows)
    yield "merge_sums", (base, 0, base, 0)
    yield "merge_cells_of", (records, 0, records, 0, 2)
    yield "fit_cone", (base[0], np.zeros(2 * COEFFICIENTS), 1.0, 0.0, 0.0, 1.0, 1)
    yield "forget_sums", (base, 0)


KERNELS = kernels.Source(
    __name__,
    (
        fold_one, fold_rows, refresh_one, refresh_leaning, settle_one, answer_one, answer_points, predict_points,
        cross_covariance, merge_sums, merge_cells_of, forget_sums, fit_cone, choose_among, choose_at, noise_of,
    ),
    _examples,
)  # fmt: skip
