"""Non-negative lasso from Gram matrices alone, its penalty chosen by K-fold cross-validation: constant space, exact paths.

Each fold keeps the Gram matrix of its own rows, of (columns, 1, target). A fold's training matrix is the sum of the others:
total - fold, written so that nothing cancels where one fold holds the largest rows. The path of

    min  ||y - X b||^2 / (2 n) + penalty * sum(b),   b >= 0

is piecewise linear in the penalty and is followed from break to break (least angle regression), so that no iteration has to
converge however alike the columns are. Source: Efron et al. 2004. scikit-learn's LassoLarsCV, which paper 3 uses, is the
oracle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats

BREAKS_MAX = 200  # of one path: columns enter and leave; 8 columns took 20 at most on simulated runs
# DEPENDENT: of a column's square: one with less left, once those in use are taken out, tells nothing that they do not
DEPENDENT = 1e-12
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class LassoFit:
    """A fitted sum of columns."""

    weights: Floats  # (m,), non-negative, for the columns as they were given
    intercept: float  # not negative; 0 where none was asked for
    error: float  # root mean square of the held-out residuals over that of the target; 1 is no better than zero
    penalty: float  # chosen, in units of scaled columns and target


def rows_into(folds: Floats, fold: int, columns: Floats, target: float, scale: float = 1.0) -> None:
    """Add one row, columns (m,), to its fold: `folds` are Gram matrices (K, m + 2, m + 2) of (columns, 1, target).

    Its squared error counts divided by the square of `scale`.
    """
    row = np.append(columns, (1.0, target)) / scale
    folds[fold] += np.outer(row, row)


def fitted(folds: Floats, *, intercept: bool) -> LassoFit | None:
    """Return the cross-validated fit; None without rows.

    Cost O(K b m k) for b breaks and k columns in use: about a millisecond at m = 15.

    An intercept below zero is left out and the rest fitted anew: all that is learned here is non-negative.
    """
    total = folds.sum(axis=0)
    n = total[-2, -2]
    if n <= 0.0:
        return None
    scale = np.sqrt(np.maximum(np.diagonal(total) / n, TINY))
    scale[-2] = 1.0
    scaled = folds / scale[:, None] / scale[None, :]
    weights, penalty, error = _cross_validated(scaled, intercept)
    level = _level(scaled.sum(axis=0), weights) if intercept else 0.0
    if level < 0.0:
        weights, penalty, error = _cross_validated(scaled, False)
        level = 0.0
    return LassoFit(weights * scale[-1] / scale[:-2], level * float(scale[-1]), error, penalty)


def path(gram: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the breaks of the path, penalties (b,) falling to 0 and weights (b, m), for X'X/n and X'y/n.

    A column that is all but a sum of those in use stays out, as in scikit-learn's path. Plain numbers: of so few columns, a
    call of numpy takes longer than what it works out.
    """
    rows: list[list[float]] = gram.tolist()
    aims: list[float] = right.tolist()
    columns = range(len(aims))
    barred = [rows[k][k] <= DEPENDENT for k in columns]
    weights = [0.0] * len(aims)
    entering = max(columns, key=lambda k: 0.0 if barred[k] else aims[k], default=-1)
    penalty = max(0.0, aims[entering]) if entering >= 0 and not barred[entering] else 0.0
    penalties, found = [penalty], [weights]
    active: list[int] = []
    factor: list[list[float]] = []
    left = -1
    while penalty > 0.0 and len(found) < BREAKS_MAX:
        if entering >= 0:
            if _extended(factor, rows, active, entering):
                active.append(entering)
            else:
                barred[entering] = True
        if not active:
            break
        towards = _solved(factor)
        step, entering, leaving = _next_break(rows, aims, weights, towards, penalty, active, barred, left)
        weights = weights.copy()
        for at, column in enumerate(active):
            weights[column] = max(weights[column] + step * towards[at], 0.0)
        penalty = max(penalty - step, 0.0) if entering >= 0 or leaving >= 0 else 0.0
        if leaving >= 0:
            place = active.index(leaving)
            behind = active[place + 1 :]
            del active[place:], factor[place:]
            weights[leaving] = 0.0
            for column in behind:
                _extended(factor, rows, active, column, again=True)
                active.append(column)
        left = leaving  # the column that has just left may not come back at once
        penalties.append(penalty)
        found.append(weights)
    if penalty > 0.0:  # the path stopped early: its end stands for what would follow
        penalties.append(0.0)
        found.append(weights)
    return np.array(penalties), np.array(found)


def _extended(
    factor: list[list[float]], gram: list[list[float]], active: list[int], column: int, *, again: bool = False
) -> bool:
    """Add a column to the Cholesky factor of the active ones; False, and nothing added, where it is all but a sum of them.

    One that is added `again` was more than a sum of more of them: it is so still, whatever rounding says.
    """
    of_column = gram[column]
    row: list[float] = []
    rest = of_column[column]
    for at, above in enumerate(factor):
        value = of_column[active[at]]
        for k in range(at):
            value -= above[k] * row[k]
        value /= above[at]
        row.append(value)
        rest -= value * value
    if active and rest <= DEPENDENT * of_column[column]:
        if not again:
            return False
        rest = DEPENDENT * of_column[column]
    row.append(math.sqrt(rest))
    factor.append(row)
    return True


def _solved(factor: list[list[float]]) -> list[float]:
    """Return the x with L L' x = 1."""
    found: list[float] = []
    for at, row in enumerate(factor):
        value = 1.0
        for k in range(at):
            value -= row[k] * found[k]
        found.append(value / row[at])
    for at in range(len(factor) - 1, -1, -1):
        row = factor[at]
        value = found[at] = found[at] / row[at]
        for k in range(at):
            found[k] -= row[k] * value
    return found


def _next_break(
    gram: list[list[float]], right: list[float], weights: list[float], towards: list[float], penalty: float,
    active: list[int], barred: list[bool], left: int,
) -> tuple[float, int, int]:  # fmt: skip
    """Return how far it goes until a column enters or leaves, and which one; -1: none does."""
    least, entering, leaving = math.inf, -1, -1
    pairs = [(column, weights[column], towards[at]) for at, column in enumerate(active)]
    for column, weight, way in pairs:
        if way < 0.0 and -weight / way < least:
            least, leaving = -weight / way, column
    for column, row in enumerate(gram):
        if barred[column] or column == left or column in active:
            continue
        slope, residual = 0.0, right[column]
        for other, weight, way in pairs:
            slope += row[other] * way
            residual -= row[other] * weight
        if slope < 1.0 and (penalty - residual) / (1.0 - slope) < least:
            least, entering, leaving = (penalty - residual) / (1.0 - slope), column, -1
    least = max(0.0, least)
    return (penalty, -1, -1) if least >= penalty else (least, entering, leaving)


def _cross_validated(folds: Floats, intercept: bool) -> tuple[Floats, float, float]:
    total = folds.sum(axis=0)
    penalties, weights = path(*_normal(total, intercept))
    used = [k for k in range(len(folds)) if folds[k, -2, -2] > 0.0]
    if len(used) < 2:
        return weights[-1], 0.0, _root(total, weights[-1], intercept)
    paths = [(k, *path(*_normal(total_without(folds, k), intercept))) for k in used]
    grid = np.unique(np.concatenate([each[1] for each in paths]))
    losses = np.zeros(len(grid))
    for k, own, own_weights in paths:
        at = _at(grid, own, own_weights)
        train = total_without(folds, k)
        n = folds[k, -2, -2]
        level = (
            (train[-2, -1] - elementary.weighted(train[-2, :-2], at.T)) / _weight(train)
            if intercept
            else np.zeros(len(at))
        )
        row = np.column_stack([-at, -level, np.ones(len(at))])
        losses += np.maximum((elementary.product(row, folds[k]) * row).sum(axis=1), 0.0) / n
    best = int(np.flatnonzero(losses == losses.min())[-1])
    chosen = _at(grid[best : best + 1], penalties, weights)[0]
    target = total[-1, -1] / total[-2, -2]
    return chosen, float(grid[best]), float(np.sqrt(max(losses[best] / len(used), 0.0) / max(target, TINY)))


def total_without(folds: Floats, k: int) -> Floats:
    """Return the matrix of all rows outside fold k."""
    return folds[:k].sum(axis=0) + folds[k + 1 :].sum(axis=0)


def _weight(matrix: Floats) -> float:
    """Return the sum of the rows' weights, 1 where there are none."""
    return float(matrix[-2, -2]) or 1.0


def _normal(matrix: Floats, intercept: bool) -> tuple[Floats, Floats]:
    """Return X'X/n and X'y/n, of columns and target less their means where there is an intercept."""
    n = _weight(matrix)
    whole = matrix / n
    if intercept:
        whole = whole - np.outer(whole[:, -2], whole[-2, :])
    m = len(matrix) - 2
    return whole[:m, :m], whole[:m, -1]


def _at(grid: Floats, penalties: Floats, weights: Floats) -> Floats:
    """Return the weights (g, m) at penalties of a grid: linear between the breaks, zero above the first."""
    rising = penalties[::-1]
    found = np.empty((len(grid), weights.shape[1]))
    for column in range(weights.shape[1]):
        found[:, column] = np.interp(grid, rising, weights[::-1, column])
    return found


def _level(matrix: Floats, weights: Floats) -> float:
    n = _weight(matrix)
    return float((matrix[-2, -1] - elementary.weighted(matrix[-2, :-2], weights)) / n)


def _root(matrix: Floats, weights: Floats, intercept: bool) -> float:
    """Return the root mean square of the residuals of a matrix's rows over that of the target."""
    row = np.append(-weights, (-_level(matrix, weights) if intercept else -0.0, 1.0))
    return float(
        np.sqrt(max(elementary.weighted(row, elementary.weighted(row, matrix)), 0.0) / max(float(matrix[-1, -1]), TINY))
    )
