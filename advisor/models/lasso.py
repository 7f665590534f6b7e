"""Non-negative lasso from Gram matrices alone, its penalty chosen by K-fold cross-validation: constant space, exact paths.

Each fold keeps the Gram matrix of its own rows, of (columns, 1, target). A fold's training matrix is the sum of the others:
total - fold, written so that nothing cancels where one fold holds the largest rows. The path of

    min  ||y - X b||^2 / (2 n) + penalty * sum(b),   b >= 0

is piecewise linear in the penalty and is followed from break to break (least angle regression), so that no iteration has to
converge however alike the columns are. Source: Efron et al. 2004. scikit-learn's LassoLarsCV, which paper 3 uses, is the
oracle.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BREAKS_MAX = 200  # of one path: columns enter and leave; 8 columns took 20 at most on simulated runs
DEPENDENT = (
    1e-12  # of a column's square: one with less left, once those in use are taken out, tells nothing that they do not
)
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted sum of columns.

    Attributes
    ----------
    weights : float64 array (m,)
        Non-negative, for the columns as they were given.
    intercept : float
        Not negative; 0 where none was asked for.
    error : float
        Root mean square of the held-out residuals over that of the target; 0 is perfect, 1 is no better than zero.
    penalty : float
        Chosen, in units of scaled columns and target.
    """

    weights: Floats
    intercept: float
    error: float
    penalty: float


def rows_into(folds: Floats, fold: int, columns: Floats, target: float) -> None:
    """Add one row to its fold.

    Parameters
    ----------
    folds : float64 array (K, m + 2, m + 2)
        Gram matrices of (columns, 1, target); changed.
    columns : float64 array (m,)
    """
    row = np.append(columns, (1.0, target))
    folds[fold] += np.outer(row, row)


def fitted(folds: Floats, *, intercept: bool) -> Fit | None:
    """Return the cross-validated fit; None without rows. Cost O(K m^4), some milliseconds at m = 8.

    An intercept below zero is left out and the rest fitted anew: all that is learned here is non-negative.
    """
    total = folds.sum(axis=0)
    n = total[-2, -2]
    if n <= 0.0:
        return None
    scale = np.sqrt(np.maximum(np.diagonal(total) / n, TINY))
    scale[-2] = 1.0
    scaled = folds / scale[:, None] / scale[None, :]
    found = _cross_validated(scaled, intercept)
    weights, penalty, error = found
    level = _level(scaled.sum(axis=0), weights) if intercept else 0.0
    if level < 0.0:
        weights, penalty, error = _cross_validated(scaled, False)
        level = 0.0
    return Fit(weights * scale[-1] / scale[:-2], level * float(scale[-1]), error, penalty)


def path(gram: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return the breaks of the path, penalties (b,) falling to 0 and weights (b, m), for X'X/n and X'y/n.

    A column that is all but a sum of those in use stays out, as in scikit-learn's path.
    """
    weights = np.zeros(len(right))
    left_out = np.diagonal(gram) <= DEPENDENT
    penalty = float(np.where(left_out, 0.0, right).max(initial=0.0))
    penalties, found = [penalty], [weights]
    active: list[int] = []
    entering, barred = int(np.where(left_out, -np.inf, right).argmax()) if penalty > 0.0 else -1, -1
    while penalty > 0.0 and len(found) < BREAKS_MAX:
        if entering >= 0:
            if _independent(gram, active, entering):
                active.append(entering)
            else:
                left_out[entering] = True
        if not active:
            break
        towards = np.zeros(len(right))
        towards[active] = np.linalg.solve(gram[np.ix_(active, active)], np.ones(len(active)))
        step, entering, leaving = _next_break(gram, right, weights, towards, penalty, active, left_out, barred)
        weights = np.maximum(weights + step * towards, 0.0)
        penalty = max(penalty - step, 0.0) if entering >= 0 or leaving >= 0 else 0.0
        if leaving >= 0:
            active.remove(leaving)
            weights[leaving] = 0.0
        barred = leaving  # the column that has just left may not come back at once
        penalties.append(penalty)
        found.append(weights)
    if penalty > 0.0:  # the path stopped early: its end stands for what would follow
        penalties.append(0.0)
        found.append(weights)
    return np.array(penalties), np.array(found)


def _independent(gram: Floats, active: list[int], column: int) -> bool:
    """Return whether a column is more than a sum of the active ones: what is left of its square."""
    if not active:
        return True
    towards = np.linalg.solve(gram[np.ix_(active, active)], gram[active, column])
    return float(gram[column, column] - gram[column, active] @ towards) > DEPENDENT * float(gram[column, column])


def _next_break(
    gram: Floats, right: Floats, weights: Floats, towards: Floats, penalty: float,
    active: list[int], left_out: NDArray[np.bool_], barred: int,
) -> tuple[float, int, int]:  # fmt: skip
    """Return how far it goes until a column enters or leaves, and which one; -1: none does."""
    slope = gram @ towards
    residual = right - gram @ weights
    steps = np.full(len(right), np.inf)
    used = np.zeros(len(right), np.bool_)
    used[active] = True
    falls = used & (towards < 0.0)
    steps[falls] = -weights[falls] / towards[falls]
    comes = ~used & ~left_out & (slope < 1.0)
    if barred >= 0:
        comes[barred] = False
    steps[comes] = (penalty - residual[comes]) / (1.0 - slope[comes])
    column = int(steps.argmin())
    step = max(0.0, float(steps[column]))
    if step >= penalty:
        return penalty, -1, -1
    return (step, -1, column) if used[column] else (step, column, -1)


def _cross_validated(folds: Floats, intercept: bool) -> tuple[Floats, float, float]:
    total = folds.sum(axis=0)
    penalties, weights = path(*_normal(total, intercept))
    used = [k for k in range(len(folds)) if folds[k, -2, -2] > 0.0]
    if len(used) < 2:
        return weights[-1], 0.0, _root(total, weights[-1], intercept, total)
    paths = [(k, *path(*_normal(total_without(folds, k), intercept))) for k in used]
    grid = np.unique(np.concatenate([each[1] for each in paths]))
    losses = np.zeros(len(grid))
    for k, own, own_weights in paths:
        at = _at(grid, own, own_weights)
        train = total_without(folds, k)
        n = folds[k, -2, -2]
        level = (
            (train[-2, -1] - at @ train[-2, :-2]) / max(float(train[-2, -2]), 1.0) if intercept else np.zeros(len(at))
        )
        row = np.column_stack([-at, -level, np.ones(len(at))])
        losses += np.maximum(((row @ folds[k]) * row).sum(axis=1), 0.0) / n
    best = int(np.flatnonzero(losses == losses.min())[-1])
    chosen = _at(grid[best : best + 1], penalties, weights)[0]
    target = total[-1, -1] / total[-2, -2]
    return chosen, float(grid[best]), float(np.sqrt(max(losses[best] / len(used), 0.0) / max(target, TINY)))


def total_without(folds: Floats, k: int) -> Floats:
    """Return the matrix of all rows outside fold k."""
    return folds[:k].sum(axis=0) + folds[k + 1 :].sum(axis=0)


def _normal(matrix: Floats, intercept: bool) -> tuple[Floats, Floats]:
    """Return X'X/n and X'y/n, of columns and target less their means where there is an intercept."""
    n = max(float(matrix[-2, -2]), 1.0)
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
    n = max(float(matrix[-2, -2]), 1.0)
    return float((matrix[-2, -1] - matrix[-2, :-2] @ weights) / n)


def _squares(matrix: Floats, weights: Floats, level: float) -> float:
    """Return the sum of squared residuals of the rows of a matrix."""
    row = np.append(-weights, (-level, 1.0))
    return max(float(row @ matrix @ row), 0.0)


def _root(matrix: Floats, weights: Floats, intercept: bool, train: Floats) -> float:
    level = _level(train, weights) if intercept else 0.0
    return float(np.sqrt(_squares(matrix, weights, level) / max(float(matrix[-1, -1]), TINY)))
