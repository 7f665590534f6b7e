"""The rule that compares core counts, and what it asks of a learner: kernels.

Scores are times, or core-seconds. A count is good enough where its score is within the tolerance of the least, or where it is
not shown to be worse: of m runs on it, n on the best and N on all, with a variance v of ln t, the difference has the standard
error e = sqrt(v (1/m + 1/n)), and is shown beyond max(2, sqrt(2 ln(1 + N/m))) e, times `HELD` where the last run was and `LEFT`
elsewhere: noise moves the count less to and fro. Runs are those on the nearest seen count; where that is the same for both,
predictions alone tell them apart. v is 1/4 at most, for noisier times have several modes.
Without this one unlucky run would keep a job that cannot use cores off few of them for ever, for nothing is tried; and the
longer nobody runs there, the rarer the bad luck must be (Lattimore and Szepesvari, Bandit Algorithms, ch. 9). Where log2 m is
more than `RARE` n the doubt is about the best: then the best is run, which ends it. Else a count that is much slower would be
excused for ever by the few runs on the best. Where trials are asked for, they find out: no count is excused.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from math import sqrt

import numpy as np

from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.models.asked_points import answer_one, place_logs
from advisor.models.cells import LN_ELAPSED_MAX, LN_ELAPSED_MIN
from advisor.models.cores_seen import END, FIRST, LAST, RUNS_BITS, RUNS_MOST, UNIT
from advisor.models.learner_layout import AXES_MAX, LANES
from advisor.models.logarithm import LN2, exp, ln, log2_of
from advisor.models.noise_law import run_noise
from advisor.models.posterior import predict
from advisor.models.process import EXCESS, SHARE

STAYS = 1.5  # tolerances by which the last count may be worse than the best: noise moves no count
TOO_MANY = (3.0, 4.0)  # more than a third above the fewest that are good enough is given up
SURE = 2.0  # standard errors, at least: chance has one in 44 beyond
HELD, LEFT = 1.35, 0.9  # of these: where the last run was, and elsewhere
RARE = 1.0  # log2 of the runs on a count, for each run on the best: beyond, they do not excuse it
NOISIEST = 0.25  # variance of ln t that is believed
FURTHEST = 40.0  # of a logarithm: keeps `exp` finite
EQUAL = 1e-12  # relative: times closer than this are one time, and fewer cores win
TIMES, HIGHS, SCORES = 0, 1, 2  # rows of the columns of a question


def place_near(n, cores):
    """Return the place of the seen count that is nearest by ratio, of two equally near the smaller."""
    at = FIRST
    while at + 1 < END and n[at + 1] != 0:
        if cores * cores <= (n[at] >> RUNS_BITS) / UNIT * ((n[at + 1] >> RUNS_BITS) / UNIT):
            break
        at += 1
    return at


def runs_of(n):
    """Return all runs."""
    found = 0
    for at in range(FIRST, END):
        found += n[at] & RUNS_MOST
    return float(found)


def surely(columns, place, risk):
    """Return the least score of more cores than at a place, raised as far as the intervals of both are wider than the least."""
    least, found = np.inf, np.inf
    for i in range(columns.shape[1]):
        least = min(least, ln(columns[HIGHS, i] / columns[TIMES, i]))
    own = ln(columns[HIGHS, place] / columns[TIMES, place]) - least
    for more in range(place + 1, columns.shape[1]):
        wider = ln(columns[HIGHS, more] / columns[TIMES, more]) - least
        found = min(found, columns[SCORES, more] * exp(min(risk * (own + wider), FURTHEST)))
    return found


def noise_of(learners, place):
    """Return the variance of ln t of a run, at the component's typical time: elsewhere the timer's share may mislead."""
    return run_noise(learners[place], learners[place].view(np.int64)) - learners[place, EXCESS]


def choose_among(base, slot, counts, noise, tolerance, risk, of_cores, columns):
    """Return the places of the count that the rule gives, of the fewest cores that are good enough, and of the best.

    Parameters
    ----------
    base, slot
        The words of the sums: which counts were seen, and the last one.
    counts : float64 array (n,)
        Ascending.
    noise : float
        Variance of ln t of a run; 0 where nobody knows it.
    risk : float
        More cores are taken only where they are better though the share `risk` of what intervals are wider counts.
    of_cores : bool
        Scores are core-seconds, not times.
    columns : float64 array (3, n)
        Times, and with a risk the upper ends of their intervals; the scores are filled in.
    """
    n = base[slot].view(np.int64)
    least = np.inf
    for i in range(len(counts)):
        columns[SCORES, i] = columns[TIMES, i] * counts[i] if of_cores else columns[TIMES, i]
        least = min(least, columns[SCORES, i])
    best = 0
    while columns[SCORES, best] > least * (1.0 + EQUAL):
        best += 1
    slack, noise = max(tolerance, EQUAL), min(noise, NOISIEST)
    mine, here, all_runs = place_near(n, counts[best]), place_near(n, base[slot, LAST]), runs_of(n)
    runs = float(n[mine] & RUNS_MOST)
    fewest = 0
    while fewest < best:
        score, bound = columns[SCORES, fewest], least
        if risk > 0.0:
            bound = max(bound, surely(columns, fewest, risk))
        if score <= bound * (1.0 + slack):
            break
        near = place_near(n, counts[fewest])
        if noise > 0.0 and runs > 0.0 and near != mine:
            own = float(n[near] & RUNS_MOST)
            error, sure = sqrt(noise * (1.0 / own + 1.0 / runs)), max(SURE, sqrt(2.0 * ln(1.0 + all_runs / own)))
            sure *= HELD if near == here else LEFT
            excuse = exp(min(sure * error, FURTHEST))
            if score <= bound * excuse:
                # the best is for counts that are excused without a risk: a larger one never gives more cores
                if score <= least * excuse and score > bound * exp(error) and log2_of(own) > RARE * runs:
                    fewest = best
                break
        fewest += 1
    last = base[slot, LAST]
    if TOO_MANY[0] * last <= TOO_MANY[1] * counts[fewest]:
        for i in range(len(counts)):
            if counts[i] == last and columns[SCORES, i] <= least * (1.0 + STAYS * slack):
                return i, fewest, best
    return fewest, fewest, best


def choose_at(
    base, slot, learners, place, axes, counts, machine, reach, beyond, longest, tolerance, risk, of_cores, excused, solution,
    scratch, point, columns, out,
):  # fmt: skip
    """Return as `choose_among` for a run at the predictors in `point`; fill `out` as `answer_one` on the chosen count.

    `excused`: counts that are not shown to be worse are good enough, too.
    """
    frame, points, root, alpha = solution
    place_logs(point, axes)
    share, z, wide = learners[place, SHARE : SHARE + LANES], point[AXES_MAX:], risk > 0.0
    for i in range(len(counts)):
        if wide:
            point[axes - 1] = counts[i]
            answer_one(learners, place, axes, point, machine, reach, beyond, longest, solution, scratch, out)
            columns[TIMES, i], columns[HIGHS, i] = out[0], out[2]
            continue
        z[axes - 1] = log2_of(counts[i]) * LN2
        predict(frame, points, root, alpha, share, scratch, z, machine, wide, out)
        mean = min(max(out[0], LN_ELAPSED_MIN), LN_ELAPSED_MAX)
        columns[TIMES, i] = min(max(exp(mean), ELAPSED_MIN_S), ELAPSED_MAX_S)
    noise = noise_of(learners, place) if excused else 0.0
    found = choose_among(base, slot, counts, noise, tolerance, risk, of_cores, columns)
    point[axes - 1] = counts[found[0]]
    answer_one(learners, place, axes, point, machine, reach, beyond, longest, solution, scratch, out)
    return found
