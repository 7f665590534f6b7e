"""Uncertain task times: an ensemble of analyses gives an interval for the makespan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advisor.domain import elementary
from advisor.domain.rows import whole
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue
from advisor.simulation.draws import normals

Floats = NDArray[np.float64]
DRAWS = 64  # analyses of an ensemble: its quantiles at 0.9 are then good to a tenth of the interval's width
FLOOR = 1e-9  # of a bound relative to the other, so that its logarithm exists


@dataclass(frozen=True, slots=True)
class Uncertain:
    """Task times with the interval that each has at `level`."""

    # times, low, high: float64 arrays (n,): in the graph's unit, low <= high
    times: Floats
    low: Floats
    high: Floats
    level: float = 0.9  # share of runs that each interval should hold


def drawn(graph: TaskGraph, given: Uncertain, number: int, *, seed: int = 0, shared: float = 1.0) -> Floats:
    """Return one draw of all task times, (n,).

    Times are log-normal about the given ones, with the spread of their intervals. A prediction is uncertain because runs
    differ and
    because the model is; the second is shared by all tasks of a type. `shared` is its part of the variance: 1 takes the
    types to be
    slow or fast as a whole, which gives the widest interval of a makespan, 0 takes all to be chance, which averages out.
    """
    spread = elementary.log(
        np.maximum(given.high, FLOOR) / np.maximum(given.low, FLOOR * np.maximum(given.high, FLOOR))
    )
    sigma = np.where(given.times > 0, spread / (2.0 * NormalDist().inv_cdf((1.0 + given.level) / 2.0)), 0.0)
    count = len(graph)
    types = np.asarray(graph.columns.get("type", np.zeros(count, np.int64)), np.int64)
    common = normals(3 * (seed + 1) + 1009 * number, int(types.max(initial=0)) + 1)[types]
    own = normals(3 * (seed + 1) + 1009 * number + 1, count)
    return given.times * elementary.exp(sigma * (np.sqrt(shared) * common + np.sqrt(1.0 - shared) * own))


def makespans(
    graph: TaskGraph,
    given: Uncertain,
    run: Callable[[TaskGraph], float],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    shared: float = 1.0,
) -> Floats:
    """Return the makespans of `draws` analyses, (draws,), each with task times of its own, ascending."""
    if not 0.0 <= shared <= 1.0:
        raise InvalidValue("shared", shared, "from 0 to 1")
    draws = whole("draws", draws, 1)
    found = [run(graph.timed(drawn(graph, given, number, seed=seed, shared=shared))) for number in range(draws)]
    return np.sort(np.asarray(found, np.float64))


def interval(sorted_makespans: Floats, level: float) -> tuple[float, float]:
    """Return the central interval that holds `level` of the makespans."""
    low, high = np.quantile(sorted_makespans, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def uncertain(times: ArrayLike, low: ArrayLike, high: ArrayLike, level: float) -> Uncertain:
    """Return checked uncertain times; raises InvalidValue."""
    values = tuple(np.asarray(value, np.float64) for value in (times, low, high))
    if len({value.shape for value in values}) != 1 or values[0].ndim != 1:
        raise InvalidValue("low, high", [value.shape for value in values], "one number a task, as times")
    if not (np.isfinite(values).all() and (values[1] >= 0).all() and (values[1] <= values[2]).all()):
        raise InvalidValue("low, high", "outside", "0 <= low <= high, finite")
    if not 0.0 < level < 1.0:
        raise InvalidValue("level", level, "between 0 and 1")
    return Uncertain(values[0], values[1], values[2], level)
