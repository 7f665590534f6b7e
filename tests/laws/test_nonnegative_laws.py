"""Non-negative least squares, by the conditions of its optimum."""

from __future__ import annotations

import numpy as np

from advisor.models import nonnegative


def test_nonnegative_least_squares_meets_the_conditions_of_an_optimum():
    """c >= 0, gradient >= 0, and one of them 0 for each column (Karush, Kuhn, Tucker); the problem is convex."""
    rng = np.random.default_rng(3)
    for _ in range(500):
        k, n = int(rng.integers(1, 10)), 30
        a = rng.normal(rng.choice([0.0, 1.0]), 1.0, (n, k))
        a /= np.sqrt(np.square(a).sum(axis=0))
        t = rng.normal(0.0, 1.0, n) + 2.0 * a[:, 0]
        c = nonnegative.solve(a, t)
        gradient = a.T @ (a @ c - t)
        size = 1e-6 * (1.0 + np.abs(a.T @ t).max())
        assert (c >= 0).all()
        assert (gradient > -size).all()
        assert np.abs(gradient * c).max() < size
