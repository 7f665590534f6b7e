"""Answers of a shape by name (`advisor.models.shapes`), fitted to the cells of a learner when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from advisor.domain import elementary
from advisor.domain.answers import Prediction
from advisor.domain.limits import ELAPSED_MAX_S, ELAPSED_MIN_S
from advisor.domain.vectors import Floats
from advisor.engine.learners import Solved
from advisor.errors import InvalidValue
from advisor.models import process
from advisor.models.learner_layout import WIDTH_MAX
from advisor.models.logarithm import LN2
from advisor.models.shapes import Scale, Shape, fit, names_of

RELATIVE_LEAST = 0.01  # of a cell's mean: a closer one does not outweigh all others


@dataclass(frozen=True, slots=True)
class Shaped:
    """A shape fitted to a component's cells."""

    solved: Solved
    name: str
    shape: Shape
    variance: float  # of one run's ln t about it: the noise law and what the shape leaves unexplained


def fitted(solved: Solved, name: str) -> Shaped:
    """Return the named shape fitted by least squares of relative errors to the cells. Cost O(cells).

    Raises InvalidValue when the shape is for more predictors than the component has.
    """
    frame, points, _, _ = solved.solution
    axes, count = int(frame[process.AXES]), int(frame[process.CELLS_USED])
    z = np.ascontiguousarray(points[:axes, :count].T)
    y = points[process.further_at(axes) + process.LOG_TIME, :count].copy()
    runs = solved.table.floats("runs")[solved.place][:count]
    weight = runs / (1.0 + RELATIVE_LEAST * runs)
    powers = tuple(_slope(z[:, axis], y) for axis in range(axes - 1))
    scale = Scale(tuple(z[:, :-1].max(axis=0).tolist()), powers, float(y.max()))
    if name not in names_of(axes - 1):
        raise InvalidValue("model", name, f"a shape of {axes - 1} predictors: {', '.join(names_of(axes - 1))}")
    shape = fit(name, scale, z, y, weight)
    if shape is None:
        raise InvalidValue("model", name, "a shape that the component's runs determine", "observe other settings")
    relative = float(solved.table.column("relative")[solved.place])
    misfit = elementary.weighted(weight, np.square(y - shape(z))) / float(weight.sum())
    return Shaped(solved, name, shape, relative + misfit)


def _slope(z: Floats, y: Floats) -> float:
    spread = z - z.mean()
    square = elementary.weighted(spread, spread)
    return min(max(elementary.weighted(spread, y) / square, 0.0), 3.0) if square > 0.0 else 1.0


def predict(found: Shaped, x: Any, p: Any, level: float, runs: int) -> Prediction:
    """Return what the shape predicts, for floats or elementwise."""
    frame = found.solved.solution[0]
    axes = int(frame[process.AXES])
    vectors = np.asarray(x, np.float64)[..., None] if axes == 2 else np.asarray(x, np.float64)
    shape = np.broadcast_shapes(vectors.shape[:-1], np.shape(p))
    flat = np.broadcast_to(vectors, (*shape, axes - 1)).reshape(-1, axes - 1)
    z = np.empty((len(flat), axes))
    z[:, -1] = elementary.log(np.broadcast_to(p, shape).reshape(-1))
    for axis in range(axes - 1):
        positive = flat[:, axis] > 0.0
        z[:, axis] = np.where(
            positive, elementary.log(np.where(positive, flat[:, axis], 1.0)), frame[process.ZEROS + axis]
        )
    low, high = (frame[at : at + axes] for at in (process.LOWS, process.HIGHS))
    outside = (np.maximum(low - z, 0.0) + np.maximum(z - high, 0.0)).sum(axis=1) / LN2
    mean = found.shape(z)
    half = min(found.solved.reach_at(level)[0] * sqrt(found.variance), WIDTH_MAX)
    columns = [
        np.clip(elementary.exp(np.clip(mean + d, -650.0, 650.0)), ELAPSED_MIN_S, ELAPSED_MAX_S)
        for d in (0, -half, half)
    ]
    value, least, most, beyond = (
        float(column[0]) if not shape else column.reshape(shape) for column in (*columns, outside)
    )
    return Prediction(value, least, most, found.name, (), runs, beyond)
