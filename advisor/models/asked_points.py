"""What a component's record answers at points that are asked for, and the arrays that a question needs. Kernels."""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportConstantRedefinition=false

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from advisor.domain.limits import PREDICTOR_RESOLUTION
from advisor.domain.vectors import Floats
from advisor.models.cells import log_predictor
from advisor.models.covariance import (
    CELLS_USED,
    FRAME_WORDS,
    INVERSE,
    SCRATCH_ROWS,
    covary,
    in_lane,
    point_rows,
    stand_at,
)  # fmt: skip
from advisor.models.learner import answer
from advisor.models.learner_layout import AXES_MAX, CELLS, LANES
from advisor.models.logarithm import LN2, log2_of
from advisor.models.posterior import predict, whiten
from advisor.models.process import DOUBT, SHARE


def place_row(point, axes, predictors, cores, i):
    """Put the i-th of some points, predictors (n, d) and cores (n,), into `point`."""
    for axis in range(axes - 1):
        point[axis] = predictors[i, axis]
    point[axes - 1] = cores[i]


def place_logs(point, axes):
    """Fill the second half of `point` with the logs of the first."""
    for axis in range(axes - 1):
        point[AXES_MAX + axis] = log_predictor(point[axis] if point[axis] >= PREDICTOR_RESOLUTION else 0.0)
    point[AXES_MAX + axes - 1] = log2_of(point[axes - 1]) * LN2


def answer_one(learners, place, axes, point, machine, reach, beyond, longest, solution, scratch, out):
    """Fill `out` (4,) with elapsed_s, low_s, high_s and the distance outside what was seen, at one point.

    Parameters
    ----------
    machine : int
        Its place in the record, 0 for one that was not seen, -1 for any of those seen.
    reach, beyond : float
        Half-width of the interval in standard deviations; beyond what was seen it is at least `beyond`.
    longest : float
        Seconds that a run was seen running, where none that ended took so long; else 0.
    """
    frame, points, root, alpha = solution
    place_logs(point, axes)
    answer(learners[place], frame, points, root, alpha, scratch, point[AXES_MAX:], machine, reach, beyond, longest, out)


def answer_points(
    learners, place, axes, predictors, cores, machine, reach, beyond, longest, solution, scratch, point, out
):  # fmt: skip
    """Fill `out` (n, 4) as `answer_one` does, at predictors (n, d) and cores (n,)."""
    for i in range(len(cores)):
        place_row(point, axes, predictors, cores, i)
        answer_one(learners, place, axes, point, machine, reach, beyond, longest, solution, scratch, out[i])


def cross_covariance(
    learners, place, axes, predictors, cores, others, other_cores, solution, scratch, point, white, out
):  # fmt: skip
    """Fill `out` (n, m) with the covariances of ln t's mean at two sets of points: the settings' mean ones.

    `white` is scratch (n + m, cells, LANES). Cost O((n + m) cells**2 + n m cells).
    """
    frame, points, root, _ = solution
    share = learners[place, SHARE : SHARE + LANES]
    n, m, count, rows = len(cores), len(other_cores), int(frame[CELLS_USED]), scratch[0]
    for i in range(n + m):
        stand(frame, points, predictors, cores, others, other_cores, i, axes, point, CELLS)
        whiten(frame, points, root, rows, white[i])
    for i in range(n):
        stand(frame, points, predictors, cores, others, other_cores, i, axes, point, CELLS)
        for j in range(m):
            stand(frame, points, predictors, cores, others, other_cores, n + j, axes, point, CELLS + 1)
            covary(points, CELLS, CELLS + 1, CELLS + 2, axes, rows)
            total = 0.0
            for lane in range(LANES):
                left = in_lane(lane, rows[0, 0], rows[1, 0], rows[2, 0], rows[3, 0], rows[4, 0])
                for k in range(count):
                    left -= white[i, k, lane] * white[n + j, k, lane]
                total += share[lane] * left
            out[i, j] = total


def stand(frame, points, predictors, cores, others, other_cores, i, axes, point, column):
    """Put the i-th of two sets of points into a column of a solution."""
    if i < len(cores):
        place_row(point, axes, predictors, cores, i)
    else:
        place_row(point, axes, others, other_cores, i - len(cores))
    place_logs(point, axes)
    stand_at(frame, points, point[AXES_MAX:], axes, column)


def predict_points(learners, place, axes, predictors, cores, machine, want_variance, solution, scratch, point, out):
    """Fill `out` (n, 2) with mean and variance of ln t at points, from a record's solution.

    `machine`: its place in the record, 0 for one that was not seen, -1 for any of those seen.
    """
    frame, points, root, alpha = solution
    share = learners[place, SHARE : SHARE + LANES]
    for i in range(len(cores)):
        place_row(point, axes, predictors, cores, i)
        place_logs(point, axes)
        predict(frame, points, root, alpha, share, scratch, point[AXES_MAX:], machine, want_variance, out[i])
        out[i, 1] *= learners[place, DOUBT]


class QuestionRoom(NamedTuple):
    """What one thread needs beside state to fold and ask over a number of axes: a solution and scratch, some 150 KB."""

    solution: tuple[Floats, Floats, Floats, Floats]
    scratch: tuple[Floats, Floats, Floats, Floats]
    point: Floats
    out: Floats


def solution_of(axes: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the empty arrays of a solution: frame, points, root, alpha."""
    points = np.zeros((point_rows(axes), CELLS + 2))  # two more for points that are asked for
    return np.zeros(FRAME_WORDS), points, np.zeros((CELLS, CELLS, LANES)), np.zeros((CELLS, LANES))


def room_of(axes: int) -> QuestionRoom:
    """Return room to fold and ask in."""
    planes = np.zeros((INVERSE + 1, CELLS, CELLS))
    scratch = np.zeros((SCRATCH_ROWS, CELLS + 2)), planes, np.zeros((CELLS, LANES)), np.zeros((3, CELLS))
    return QuestionRoom(solution_of(axes), scratch, np.zeros(2 * AXES_MAX), np.zeros(LANES))
