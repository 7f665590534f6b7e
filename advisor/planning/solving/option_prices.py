"""The lowest latency of shapes of any number, by a price on cores (Lagrange): where programs are too large."""

from __future__ import annotations

import numpy as np

from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.options import NOTHING, Options
from advisor.planning.solving.search import Problem

MULTIPLIER_STEPS = 60  # of the bisection for the price of a core


def priced_shapes(problem: Problem, stays: Floats, cores: int | None = None) -> tuple[float, Ints]:
    """Return a bound of the latency and shapes near it, by a price on cores (Lagrange), for structures of any size.

    sum_c v_c stay_c is at most the latency's value where nothing is joined; at joins the branch that is slowest for the
    solution counts, which bounds the maximum from below for that branch. Cost O(n shapes MULTIPLIER_STEPS).
    """
    options, n = problem.options, len(problem.options.number)
    limit = cores or problem.cores
    weights = _critical(problem, stays)
    finite = np.where(np.isfinite(stays), stays, 1e300)
    values = np.where(options.weight < NOTHING, weights[:, None] * finite, np.inf)
    rows, low, high = np.arange(n), 0.0, float(np.where(options.weight < NOTHING, values, 0.0).max()) + 1.0
    wide, bound = np.where(options.weight < NOTHING, options.weight, 0), -np.inf
    shapes = options.weight.argmin(axis=1)
    for _ in range(MULTIPLIER_STEPS):
        price = (low * high) ** 0.5 if low > 0 else high * 1e-6 if high > 1e-300 else 0.0
        priced = values + price * wide
        some = priced.argmin(axis=1)
        bound = max(bound, float(priced[rows, some].sum()) - price * limit)
        if options.weight[rows, some].sum() <= limit:
            shapes, high = some, price
        else:
            low = price
        if high <= low * (1 + 1e-9):
            break
    return bound, _filled(options, values, shapes, limit)


def _critical(problem: Problem, stays: Floats) -> Floats:
    """Return each component's weight in the latency, (n,): its visits, but 0 off the slowest branch of a join."""
    structure = problem.model.structure
    weights = problem.model.visits.copy()
    if not structure.joins:
        return weights
    least = np.where(np.isfinite(stays), stays, np.inf).min(axis=1)
    nodes = structure.network.nodes
    time = np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        if index in structure.rows:
            time[index] = structure.ratios[structure.rows[index]] * least[structure.rows[index]]
        else:
            time[index] = sum(time[child] for child in node.children)
    silent = np.zeros(len(nodes), np.bool_)
    for index in range(len(nodes) - 1, -1, -1):
        children = nodes[index].children
        slowest = max(children, key=lambda child: time[child]) if children else -1
        for child in children:
            silent[child] = silent[index] or (index in structure.joins and child != slowest)
    for index, row in structure.rows.items():
        if silent[index]:
            weights[row] = 0.0
    return weights


def _filled(options: Options, values: Floats, shapes: Ints, cores: int) -> Ints:
    """Return the shapes with what is left of the cores given to the largest gains per core."""
    shapes = shapes.copy()
    rows = np.arange(len(shapes))
    left = cores - int(options.weight[rows, shapes].sum())
    blocked = np.zeros(len(shapes), np.bool_)
    while left > 0 and not blocked.all():
        best, best_row, best_shape = 0.0, -1, -1
        for row in np.flatnonzero(~blocked).tolist():
            extra = options.weight[row] - options.weight[row, shapes[row]]
            gain = np.where(
                (extra > 0) & (extra <= left), (values[row, shapes[row]] - values[row]) / np.maximum(extra, 1), 0
            )
            place = int(gain.argmax())
            if gain[place] <= 0:
                blocked[row] = True
            elif gain[place] > best:
                best, best_row, best_shape = float(gain[place]), row, place
        if best_row < 0:
            break
        left -= int(options.weight[best_row, best_shape] - options.weight[best_row, shapes[best_row]])
        shapes[best_row] = best_shape
    return shapes
