"""Non-negative lasso from Gram matrices alone, its penalty chosen by K-fold cross-validation: constant space, exact paths.

Each fold keeps the Gram matrix of its own rows, of (columns, 1, target). A fold's training matrix is the sum of the others:
total - fold, written so that nothing cancels where one fold holds the largest rows. The path of

    min  ||y - X b||^2 / (2 n) + penalty * sum(b),   b >= 0

is piecewise linear in the penalty and is followed from break to break (least angle regression), so that no iteration has to
converge however alike the columns are: at each, one column of one tableau is exchanged, as in parametric programming. Source:
Efron et al. 2004. scikit-learn's LassoLarsCV, which paper 3 uses, is the oracle.
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

    Cost O(K b m^2) for b breaks: about a millisecond at m = 15.

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

    Of a column in use, the weight is ``ends - penalty * slopes``; of another it is how far its correlation with the residual
    lies below the penalty, but for the sign. So the next break is where the first of them is 0, and there the column enters
    or leaves. A column that is all but a sum of those in use stays out, as in scikit-learn's path.
    """
    own = np.diagonal(gram).copy()
    table = np.column_stack([gram, right, np.ones(len(right))])
    used, left = np.zeros(len(right), np.bool_), -1
    penalties, found = [math.inf], [np.zeros(len(right))]
    while penalties[-1] > 0.0 and len(found) < BREAKS_MAX:
        ends, slopes = table[:, -2], table[:, -1]
        apart = (np.diagonal(table) > DEPENDENT * own) & (own > DEPENDENT)
        turning = np.where(used, slopes < 0.0, (slopes > 0.0) & apart)
        turning[left] &= left < 0  # the column that has just left may not come back at once
        breaks = np.where(turning, ends / np.where(turning, slopes, 1.0), 0.0)
        column = int(breaks.argmax())
        penalties.append(min(max(float(breaks[column]), 0.0), penalties[-1]))
        found.append(np.where(used, np.maximum(ends - penalties[-1] * slopes, 0.0), 0.0))
        if penalties[-1] > 0.0:
            _exchange(table, column)
            used[column] = not used[column]
            left = -1 if used[column] else column
    if penalties[-1] > 0.0:  # the path stopped early: its end stands for what would follow
        penalties.append(0.0)
        found.append(found[-1])
    return np.array(penalties[1:]), np.array(found[1:])


def _exchange(table: Floats, k: int) -> None:
    """Exchange a column's weight with its residual, Jordan's step: twice is never."""
    row, column = table[k] / table[k, k], -table[:, k] / table[k, k]
    column[k] = 1.0 / table[k, k]
    table -= table[:, k : k + 1] * row
    table[k], table[:, k] = row, column


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
