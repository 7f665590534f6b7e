"""Non-negative least squares of small systems, and which of their unknowns the lines determine."""

from __future__ import annotations

import numpy as np

from advisor.domain.vectors import Bools, Floats

RANK_TOLERANCE = 1e-9  # relative, of singular values, and of what an unknown has in the null space


def solve(matrix: Floats, right: Floats) -> Floats:
    """Return x (n,) >= 0 of least |matrix x - right|. Cost O(n) solves of O(m n**2).

    Source: Lawson and Hanson 1974, chapter 23.
    """
    n = matrix.shape[1]
    plain, _ = _least_squares(matrix, right)
    if (plain >= 0.0).all():
        return plain
    x, free = np.zeros(n), np.zeros(n, np.bool_)
    small = 10.0 * np.finfo(np.float64).eps * (np.abs(matrix).sum(axis=0).max(initial=0.0) + 1.0) * max(matrix.shape)
    for _ in range(3 * n + 1):
        gradient = (matrix * (right - (matrix * x).sum(axis=1))[:, None]).sum(axis=0)
        gradient[free] = -np.inf
        best = int(gradient.argmax()) if n else 0
        if not n or gradient[best] <= small:
            break
        free[best] = True
        while True:
            trial = np.zeros(n)
            trial[free] = _least_squares(matrix[:, free], right)[0]
            wrong = free & (trial <= 0.0)
            if not wrong.any():
                x = trial
                break
            step = float((x[wrong] / (x[wrong] - trial[wrong])).min()) if (x[wrong] > 0).any() else 0.0
            x += step * (trial - x)
            free &= x > 0.0
            x[~free] = 0.0
            if not free.any():
                break
    return x


def solve_where_known(matrix: Floats, right: Floats) -> tuple[Floats, Bools]:
    """Return `solve`, and which unknowns (n,) all least-squares solutions agree on."""
    return solve(matrix, right), _least_squares(matrix, right)[1]


def _least_squares(matrix: Floats, right: Floats) -> tuple[Floats, Bools]:
    """Return x (n,) of least |matrix x - right|, 0 for columns that are sums of others, and which unknowns are known.

    Modified Gram-Schmidt of the matrix with its right side beside it: stable as Householder's (Bjorck 1967), in operations of
    one order on every processor, as LAPACK's are not. Cost O(m n**2).
    """
    n = matrix.shape[1]
    rest = np.column_stack([matrix, right])
    least = RANK_TOLERANCE * np.sqrt((matrix * matrix).sum(axis=0).max(initial=0.0))
    triangle, used = np.zeros((n, n + 1)), np.zeros(n, np.bool_)
    for j in range(n):
        length = np.sqrt((rest[:, j] * rest[:, j]).sum())
        if length <= least:
            continue
        way = rest[:, j] / length
        triangle[j, j:] = (way[:, None] * rest[:, j:]).sum(axis=0)
        rest[:, j:] -= np.multiply.outer(way, triangle[j, j:])
        used[j] = True
    # each column of `shares` is the right side, or a column that is left out, in terms of the columns in use
    columns = np.append(np.flatnonzero(~used), n)
    shares = np.zeros((n, len(columns)))
    for j in np.flatnonzero(used)[::-1].tolist():
        shares[j] = (triangle[j, columns] - (triangle[j, j + 1 : n, None] * shares[j + 1 :]).sum(axis=0)) / triangle[
            j, j
        ]
    known = used & (np.abs(shares[:, :-1]).max(axis=1, initial=0.0) <= np.sqrt(RANK_TOLERANCE))
    return shares[:, -1], known
