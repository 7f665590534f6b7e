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
    plain: Floats = np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], np.float64)
    if (plain >= 0.0).all():
        return plain
    x, free = np.zeros(n), np.zeros(n, np.bool_)
    small = 10.0 * np.finfo(np.float64).eps * (np.abs(matrix).sum(axis=0).max(initial=0.0) + 1.0) * max(matrix.shape)
    for _ in range(3 * n + 1):
        gradient = matrix.T @ (right - matrix @ x)
        gradient[free] = -np.inf
        best = int(gradient.argmax()) if n else 0
        if not n or gradient[best] <= small:
            break
        free[best] = True
        while True:
            trial = np.zeros(n)
            trial[free] = np.linalg.lstsq(matrix[:, free], right, rcond=None)[0]
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
    _, values, rows = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.count_nonzero(values > RANK_TOLERANCE * values.max(initial=0.0)))
    loose = np.abs(rows[rank:]).max(axis=0, initial=0.0)
    return solve(matrix, right), loose <= np.sqrt(RANK_TOLERANCE)
