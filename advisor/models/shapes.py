"""The shapes a run time may have: non-negative sums of terms in predictors and cores, one line a shape.

A shape is fitted to the support points by non-negative least squares of relative errors, from its Gram matrix alone, and joins
the others under the evidence of `advisor.models.process`. To add one, add its line: the law suite and the benchmark take it in.

Terms are written in v = product of x_j / highest x_j (0 < v), and p. `ONE` is a column of the same shape.
Sources: Ernest (Venkataraman et al., NSDI 2016); paper 1 of this project (Amdahl with a sequential time in x); paper 3's
intermediate models and Extra-P's performance model normal form (n log n, powers); Universal Scalability Law for contention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Terms = Callable[[Floats, Floats], list[Floats]]

TERMS_MAX = 8  # columns of the batched solve
SWAPS = 24  # of columns in and out of the active set; block pivoting needs about 4
SINGLE_AFTER = 8  # exchanges of whole blocks before single columns are exchanged, which cannot cycle
RIDGE = 1e-9  # of an equilibrated diagonal: columns that the points cannot tell apart share
SLACK = 1e-10  # a gradient or coefficient this small is zero


def _log(v: Floats) -> Floats:
    return np.log1p(v * 1023.0)  # v log v from v = 1/1024 up; 0 at 0


def _loglog(v: Floats) -> Floats:
    return np.log1p(_log(v))


SHAPES: Mapping[str, Terms] = {
    "constant": lambda v, p: [np.ones_like(v)],
    "ernest": lambda v, p: [np.ones_like(v), v / p, np.log(p + 1.0), p],
    "linear amdahl": lambda v, p: [np.ones_like(v), v, 1.0 / p, v / p],
    "cubic amdahl": lambda v, p: [v, v / p, v * v, v * v / p, v * v * v, v * v * v / p, 1.0 / p, np.ones_like(v)],
    "contention": lambda v, p: [v, v / p, v * np.log(p + 1.0), v * p, v * np.square(p - 1.0) / p],
    "n log n": lambda v, p: [
        np.ones_like(v), v, v / p, v * _log(v), v * _log(v) / p, v * v * _log(v) / p, v * _loglog(v) / p,
    ],
    "roots": lambda v, p: [np.ones_like(v), np.sqrt(v), np.sqrt(v) / p, v / np.sqrt(p), v, v / p],
}  # fmt: skip


def columns_of(v: Floats, p: Floats) -> Floats:
    """Return the terms (shapes, TERMS_MAX, n) of all shapes at n points; missing terms are zero."""
    columns = np.zeros((len(SHAPES), TERMS_MAX, len(v)))
    for i, terms in enumerate(SHAPES.values()):
        for j, term in enumerate(terms(v, p)):
            columns[i, j] = term
    return columns


def fitted(columns: Floats, t: Floats, weight: Floats) -> Floats:
    """Return the coefficients (shapes, TERMS_MAX) >= 0 that minimise sum w ((t - f) / t)**2, for all shapes at once.

    Parameters
    ----------
    columns : float64 array (shapes, TERMS_MAX, n)
    t : float64 array (n,)
        Times at the points.
    weight : float64 array (n,)
        Weights of the squared relative errors.
    """
    scaled = columns * (np.sqrt(weight) / t)
    right = scaled @ np.sqrt(weight)
    gram = scaled @ scaled.transpose(0, 2, 1)
    size = np.sqrt(np.einsum("sii->si", gram))
    there = size > 0
    size = np.where(there, size, 1.0)
    gram = gram / size[:, :, None] / size[:, None, :]
    return nonnegative(gram, right / size, there) / size


def nonnegative(gram: Floats, right: Floats, there: NDArray[np.bool_]) -> Floats:
    """Return c >= 0 minimising c' G c / 2 - c' r, for a stack of equilibrated problems, by block principal pivoting.

    Parameters
    ----------
    gram : float64 array (s, k, k)
        Unit diagonals.
    right : float64 array (s, k)
    there : bool array (s, k)
        Columns that exist.

    Notes
    -----
    Portugal, Judice and Vicente (1994). After `SWAPS` exchanges negative coefficients are cut to zero: none was seen.
    """
    stack, k = right.shape
    unit = np.eye(k)
    active = there.copy()
    found = np.zeros((stack, k))
    for swap in range(SWAPS):
        both = active[:, :, None] & active[:, None, :]
        matrix = np.where(both, gram, 0.0) + unit * np.where(active, RIDGE, 1.0)[:, :, None]
        found = np.linalg.solve(matrix, np.where(active, right, 0.0)[:, :, None])[:, :, 0]
        gradient = (gram @ found[:, :, None])[:, :, 0] - right
        wrong = np.where(active, found < -SLACK, gradient < -SLACK) & there
        if not wrong.any():
            break
        if swap >= SINGLE_AFTER:
            last = k - 1 - wrong[:, ::-1].argmax(axis=1)
            single = np.zeros_like(wrong)
            single[np.arange(stack), last] = True
            wrong &= single
        active ^= wrong
    return np.where(active, np.maximum(found, 0.0), 0.0)
