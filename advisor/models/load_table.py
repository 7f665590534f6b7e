"""A component's load, and its expected times by cores under it, from its learner: kernels.

The load sketch says which predictors a component meets, unweighted, in 16 cells that merge by doubling. Cell c covers
[c 2**e, (c + 1) 2**e) and holds the runs, sum and sum of squares of x - c 2**e. Expectations of any function of the predictor
are taken over the two points mean +- sd of each cell.

E[T(x, p)] over the load is taken on few predictors: T(x, 1) is asked at every point of the load, but speedups T(x, p) / T(x, 1)
only at NODES of them, between which they are linear in logs: they change slowly with x. Nodes are the shortest, the longest,
and between them those at equal parts of work and of log time, taken half and half: work is where errors count, and where much
log time lies speedups change.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from math import ldexp, sqrt
from typing import Any

import numpy as np

from advisor import kernels
from advisor.models.asked_points import place_logs, room_of
from advisor.models.base_words import CELL_EXPONENT, CELL_RUNS, CELL_SQUARE, CELL_SUM, X_HIGH, X_LOW
from advisor.models.cells import ABSOLUTE, RELATIVE
from advisor.models.layout import CELLS
from advisor.models.layout import WORDS as BASE_WORDS
from advisor.models.learner_layout import AXES_MAX, LANES, LearnerTable
from advisor.models.learner_layout import CELLS as CELLS_LEARNED
from advisor.models.logarithm import exp
from advisor.models.posterior import predict
from advisor.models.prediction import SD_MAX
from advisor.models.process import DOUBT, SHARE
from advisor.models.table import Table

POINTS_MAX = max(2 * CELLS, CELLS_LEARNED)  # of a load: two a cell of the sketch, or the learner's own cells
NODES = 6  # points of the load at which speedups are asked for
LOG_LEAST = 1e-9  # of two times: closer ones are one
WITHIN_MAX = 2.0  # variance of log time inside a cell: beyond, its mean is a guess about the tail
LOG_LEAST_S, LOG_MOST_S = -20.7, 20.7  # ln of the legal times
ANY_MACHINE = -1
PATIENCE = 16  # interpreted calls: each takes some milliseconds
# Columns of scratch, by point of the load in order of time: ln T(x, 1), work, standing in that order, weights of nodes.
LOG, WORK, STANDING, WEIGHTS = 0, 1, 2, 3
COLUMNS = WEIGHTS + NODES


def load_points(w, found, shares):
    """Fill in predictors (2 CELLS,), rising, and their shares of a component's load: mean +- sd of each cell, half the cell
    each; return how many they are.
    """
    runs, count = 0.0, 0
    for cell in range(CELLS):
        runs += w[CELL_RUNS + cell]
    if runs == 0.0:
        return 0
    low, high = w[X_LOW], max(w[X_LOW], w[X_HIGH])
    width = ldexp(1.0, int(w[CELL_EXPONENT])) if w[CELL_EXPONENT] > -np.inf else 1.0
    for cell in range(CELLS):
        if w[CELL_RUNS + cell] == 0.0:
            continue
        mean = w[CELL_SUM + cell] / w[CELL_RUNS + cell]
        sd = sqrt(max(w[CELL_SQUARE + cell] / w[CELL_RUNS + cell] - mean * mean, 0.0))
        share = w[CELL_RUNS + cell] / runs * 0.5
        # A cell of few, uneven predictors can have mean - sd below its edge; x stays within what was seen.
        for side in range(2):
            x = min(max(cell * width + mean + (sd if side else -sd), low), high)
            spot = count
            while spot > 0 and found[spot - 1] >= x:
                spot -= 1
            if spot < count and found[spot] == x:
                shares[spot] += share
                continue
            for later in range(count - spot):
                found[count - later], shares[count - later] = found[count - later - 1], shares[count - later - 1]
            found[spot], shares[spot] = x, share
            count += 1
    return count


def log_time(learners, place, axes, cores, want_variance, solution, scratch, point, out):
    """Return the mean of ln t at the predictor in `point`, and its standard deviation where that is wanted."""
    frame, points, root, alpha = solution
    point[axes - 1] = cores
    place_logs(point, axes)
    share = learners[place, SHARE : SHARE + LANES]
    predict(frame, points, root, alpha, share, scratch, point[AXES_MAX:], ANY_MACHINE, want_variance, out)
    spread = sqrt(max(out[1] * learners[place, DOUBT], 0.0)) if want_variance else 0.0
    return min(max(out[0], LOG_LEAST_S), LOG_MOST_S), spread


def at_predictor(axes, predictors, i, point):
    """Put a point of the load into `point`."""
    for axis in range(axes - 1):
        point[axis] = predictors[i, axis]


def times_alone(learners, place, axes, predictors, share, inside, solution, scratch, point, out, order, room):
    """Fill `room` with T(x, 1) and work by point of the load, and `order` with the points by time; return their work."""
    total = 0.0
    for i in range(len(share)):
        at_predictor(axes, predictors, i, point)
        here, _ = log_time(learners, place, axes, 1.0, False, solution, scratch, point, out)
        # What lies about a centre, evenly in the logs, takes exp(v / 2) times as long on the mean, v = sum (slope sd)^2.
        within = 0.0
        for axis in range(axes - 1):
            if inside[axis] > 0.0:
                at_predictor(axes, predictors, i, point)
                point[axis] *= exp(inside[axis])
                aside, _ = log_time(learners, place, axes, 1.0, False, solution, scratch, point, out)
                within += (aside - here) * (aside - here)
        here += 0.5 * min(within, WITHIN_MAX)
        room[i, LOG], room[i, WORK] = here, exp(here) * share[i]
        total += room[i, WORK]
        spot = i
        while spot > 0 and room[order[spot - 1], LOG] > here:
            order[spot] = order[spot - 1]
            spot -= 1
        order[spot] = i
    return total


def chosen_nodes(n, order, room, total, nodes):
    """Fill `nodes` with those of n points that stand for the load, and the weights of each point in `room`; return how many."""
    first = room[order[0], LOG]
    span = max(room[order[n - 1], LOG] - first, LOG_LEAST)
    done = 0.0
    for spot in range(n):
        i = order[spot]
        done += room[i, WORK]
        room[i, STANDING] = 0.5 * done / total + 0.5 * (room[i, LOG] - first) / span
    most, count, spot = room[order[n - 1], STANDING], 0, 0
    for k in range(NODES):
        while spot < n - 1 and room[order[spot], STANDING] < most * k / (NODES - 1):
            spot += 1
        if count == 0 or room[order[spot], LOG] - room[nodes[count - 1], LOG] > LOG_LEAST:
            nodes[count] = order[spot]
            count += 1
    left = 0
    for spot in range(n):
        i = order[spot]
        for k in range(count):
            room[i, WEIGHTS + k] = 0.0
        while left < count - 2 and room[nodes[left + 1], LOG] <= room[i, LOG]:
            left += 1
        share = 0.0
        if count > 1:
            low, high = room[nodes[left], LOG], room[nodes[left + 1], LOG]
            share = min(max((room[i, LOG] - low) / (high - low), 0.0), 1.0)
            room[i, WEIGHTS + left + 1] = share
        room[i, WEIGHTS + left] = 1.0 - share
    return count


def load_table(
    learners, place, axes, predictors, share, inside, counts, reach, solution, scratch, point, lanes, order, nodes, room,
    at_nodes, out,
):  # fmt: skip
    """Fill `out` (2, m) with expected times and upper bounds by counts; return a run's squared coefficient of variation, its
    noise with E[t**2] = f**2 (1 + relative) + absolute at a predictor.

    Parameters
    ----------
    predictors, share : float64 arrays (n, d), (n,)
        The load.
    inside : float64 array (d,)
        The sd of the logs of predictors about each point, 0 where it stands for itself.
    counts : float64 array (m,)
        Cores, from 1.
    reach : float
        Standard deviations of ln T that the upper bound lies above.
    order, nodes, room, at_nodes : scratch (n,), (NODES,), (n, COLUMNS), (NODES, 3), or more
    """
    total = times_alone(learners, place, axes, predictors, share, inside, solution, scratch, point, lanes, order, room)
    count = chosen_nodes(len(share), order, room, total, nodes)
    relative, absolute = learners[place, RELATIVE], learners[place, ABSOLUTE]
    squares = absolute / (total * total)
    for i in range(len(share)):
        if share[i] > 0.0:
            here = room[i, WORK] / share[i] / total
            squares += share[i] * here * here * (1.0 + relative)
    for k in range(count):
        at_predictor(axes, predictors, nodes[k], point)
        at_nodes[k, 0], _ = log_time(learners, place, axes, 1.0, False, solution, scratch, point, lanes)
    for j in range(len(counts)):
        for k in range(count):
            at_predictor(axes, predictors, nodes[k], point)
            wanted = reach > 0.0 and (k % 2 == 0 or k == count - 1)
            mean, spread = log_time(learners, place, axes, counts[j], wanted, solution, scratch, point, lanes)
            at_nodes[k, 1], at_nodes[k, 2] = mean - at_nodes[k, 0], spread
        # What is not known changes slowly with x, and takes four times as long as a mean.
        for k in range(1, count - 1, 2):
            at_nodes[k, 2] = 0.5 * (at_nodes[k - 1, 2] + at_nodes[k + 1, 2])
        expected, upper = 0.0, 0.0
        for i in range(len(share)):
            speedup, deviation = 0.0, 0.0
            for k in range(count):
                weight = room[i, WEIGHTS + k]
                speedup += weight * at_nodes[k, 1]
                deviation += weight * at_nodes[k, 2]
            value = room[i, WORK] * exp(speedup)
            expected += value
            upper += value * exp(min(reach * deviation, SD_MAX))
        out[0, j], out[1, j] = expected, max(expected, upper)
    return max(squares - 1.0, 0.0)


def points_of(table: Table, slot: int) -> tuple[Any, Any]:
    """Return predictors (n,), n <= 32, rising, and their shares of the observed load of a component."""
    x, share = np.empty((2, 2 * CELLS))
    count = KERNELS.load_points(table.records[slot], x, share)
    return x[:count], share[:count]


def scratch_of() -> tuple[Any, Any, Any, Any]:
    """Return scratch of `load_table` for any load."""
    whole = np.zeros(POINTS_MAX + NODES, np.int64)
    return whole[:POINTS_MAX], whole[POINTS_MAX:], np.zeros((POINTS_MAX, COLUMNS)), np.zeros((NODES, 3))


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    records, (solution, scratch, point, out) = LearnerTable(2, 1).words, room_of(2)
    some, rows = np.zeros(1), np.zeros((1, 1))
    yield "load_table", (records, 0, 2, rows, some, some, some, 1.0, solution, scratch, point, out, *scratch_of(), rows)
    yield "load_points", (np.zeros(BASE_WORDS), some, some)


KERNELS = kernels.Source(__name__, (load_table, load_points), _examples, patience=PATIENCE)
