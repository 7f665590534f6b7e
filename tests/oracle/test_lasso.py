"""The lasso from Gram matrices: scikit-learn's LassoLarsCV, given the same folds, and non-negative least squares predict the
same."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.linear_model import Lasso, LassoLarsCV

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import printed_program

from advisor.models.lasso import fitted, path, rows_into
from advisor.models.program_model import FOLDS
from advisor.models.program_terms import INTERMEDIATE, Point

SEEDS = range(6)
CLOSE = 0.01  # of the target, on the mean: their path is not exact, nor so their penalty


def rows(seed: int, name: str, n: int = 60, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Columns of an intermediate model at random points, and a target that some of them make up."""
    rng = np.random.default_rng(seed)
    columns_at, intercept = printed_program.MODELS.get(name) or (
        INTERMEDIATE[name].columns,
        INTERMEDIATE[name].intercept,
    )
    points = [
        Point(
            2.0 ** rng.uniform(4, 10),
            float(rng.integers(1, 9)),
            rng.uniform(1, 2),
            rng.uniform(1, 9),
            rng.uniform(1, 9),
            1.0,
        )
        for _ in range(n)
    ]
    columns = np.stack([columns_at(point) for point in points])
    used = rng.random(columns.shape[1]) < 0.5
    used[rng.integers(len(used))] = True
    weights = rng.uniform(0.5, 2.0, columns.shape[1]) * used / columns.mean(axis=0)
    target = columns @ weights + (3.0 if intercept else 0.0)
    return columns, target * (1.0 + noise * rng.standard_normal(n)) + 1e-3


def grams(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    m = columns.shape[1]
    folds = np.zeros((FOLDS, m + 2, m + 2))
    for number, (row, value) in enumerate(zip(columns, target, strict=True)):
        rows_into(folds, number % FOLDS, row, float(value))
    return folds


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["serial_work", "creates", "delay", "no_work", "inflation"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Regressors in active set:sklearn.exceptions.ConvergenceWarning")
def test_predictions_are_those_of_scikit_learn(seed: int, name: str) -> None:
    columns, target = rows(seed, name)
    intercept = printed_program.MODELS[name][1]
    scale = np.sqrt((columns**2).mean(axis=0))
    number = np.arange(len(target)) % FOLDS
    folds = [(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(FOLDS)]
    theirs = LassoLarsCV(positive=True, fit_intercept=intercept, cv=folds, max_n_alphas=10**6).fit(
        columns / scale, target
    )
    ours = fitted(grams(columns, target), intercept=intercept)
    assert ours is not None
    mine = columns @ ours.weights + ours.intercept
    if theirs.intercept_ >= 0.0:
        assert np.abs(mine - theirs.predict(columns / scale)).mean() <= CLOSE * np.abs(target).mean()
    assert (ours.weights >= 0.0).all()
    assert ours.intercept >= 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_path_is_exact(seed: int) -> None:
    """Against coordinate descent: scikit-learn's path of non-negative weights leaves the optimum once a column drops out."""
    columns, target = rows(seed, "delay", noise=0.3)
    columns = columns / np.sqrt((columns**2).mean(axis=0))
    n = len(target)
    penalties, weights = path(columns.T @ columns / n, columns.T @ target / n)
    for share in (0.9, 0.5, 0.1, 0.01):
        at = share * penalties[0]
        theirs = Lasso(alpha=at, positive=True, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(columns, target)
        mine = [np.interp(at, penalties[::-1], column[::-1]) for column in weights.T]
        np.testing.assert_allclose(columns @ np.array(mine), theirs.predict(columns), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_end_of_the_path_is_non_negative_least_squares(seed: int) -> None:
    columns, target = rows(seed, "no_work_span" if seed % 2 else "delay", noise=0.2)
    columns = columns / np.sqrt((columns**2).mean(axis=0))
    n = len(target)
    _, weights = path(columns.T @ columns / n, columns.T @ target / n)
    exact, _ = nnls(columns, target)
    np.testing.assert_allclose(columns @ weights[-1], columns @ exact, rtol=1e-6, atol=1e-8)


def test_columns_that_are_one_and_rows_that_are_one() -> None:
    one = np.outer(np.arange(1.0, 41.0), np.ones(3))
    fit = fitted(grams(one, 2.0 * one[:, 0]), intercept=False)
    assert fit is not None
    np.testing.assert_allclose(one @ fit.weights, 2.0 * one[:, 0], rtol=1e-3)
    flat = np.ones((40, 3))
    fit = fitted(grams(flat, np.full(40, 7.0)), intercept=True)
    assert fit is not None
    np.testing.assert_allclose(flat @ fit.weights + fit.intercept, 7.0, rtol=1e-9)
    assert fitted(np.zeros((FOLDS, 5, 5)), intercept=True) is None
