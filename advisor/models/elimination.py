"""Least squares from normal equations, elementwise: for one system of floats or for arrays of systems alike.

A system is given as nested lists whose entries are floats, or arrays of one shape (one system an element). Every step is
an elementwise operation in a fixed order, so a system's result does not depend on what it is batched with: that is what
lets the weighting model, which is part of the state, be solved in batches without breaking the law "cut anywhere, same bytes".

The systems are equilibrated (unit diagonal) and factored as L D L'. The pivot d_i is then 1 - R**2 of column i on the columns
before it; below `PIVOT_MIN` the column adds nothing that the sums can tell and is left out: its coefficient is 0.
"""

from __future__ import annotations

from math import sqrt
from operator import mul
from typing import Any

import numpy as np

# 1 - R**2 of a column, below which it counts as dependent: sums of 10**6 rows carry rounding of about 1e-14 relative, and the
# coefficient of a column this close to dependent is wrong by 1e-14 / PIVOT_MIN.
PIVOT_MIN = 1e-11

Entry = Any  # float, or float64 array
TINY = 1e-300  # a diagonal below it is an empty sum


def reciprocal_root(value: Entry) -> Entry:
    """Return value**-1/2; a value of (nearly) 0 gives a large number, which its row of zeros turns into zeros."""
    return 1.0 / sqrt(max(value, TINY)) if isinstance(value, float) else 1.0 / np.sqrt(np.maximum(value, TINY))


def pivot_reciprocal(value: Entry) -> Entry:
    """Return 1 / value, and 0 where the pivot says that the column is dependent."""
    if isinstance(value, float):
        return 1.0 / value if value > PIVOT_MIN else 0.0
    return (value > PIVOT_MIN) / np.maximum(value, PIVOT_MIN)


class Elimination:
    """A factored system N s = r.

    Attributes
    ----------
    gains : list of k entries
        What each column in turn takes from the sum of squares; the sum of squares left after the first j columns is
        ``square - sum(gains[:j])``.
    used : list of k entries
        1.0 where the column was used, 0.0 where it was dependent.

    Cost O(k**3) operations, each on all systems at once.
    """

    __slots__ = ("_inverse", "_lower", "_roots", "_z", "gains", "used")

    def __init__(self, matrix: list[list[Entry]], right: list[Entry]) -> None:
        k = len(right)
        roots = [reciprocal_root(matrix[i][i]) for i in range(k)]
        lower: list[list[Entry]] = []  # l_ij, j < i
        inverse: list[Entry] = []  # 1 / d_i
        z: list[Entry] = []  # L z = right
        for i in range(k):
            root, entries = roots[i], matrix[i]
            undivided: list[Entry] = []  # l_ij d_j
            row: list[Entry] = []
            for j in range(i):
                entry = entries[j] * root * roots[j] - sum(map(mul, undivided, lower[j]))
                undivided.append(entry)
                row.append(entry * inverse[j])
            inverse.append(pivot_reciprocal(entries[i] * root * root - sum(map(mul, undivided, row))))
            z.append(right[i] * root - sum(map(mul, row, z)))
            lower.append(row)
        self._roots, self._lower, self._inverse, self._z = roots, lower, inverse, z
        self.gains = [z[i] * z[i] * inverse[i] for i in range(k)]
        self.used = [(inverse[i] > 0) * 1.0 for i in range(k)]

    def solution(self, columns: int) -> list[Entry]:
        """Return the coefficients of the system's first `columns` columns (nested: one factoring serves every degree)."""
        return self._back([self._z[i] * self._inverse[i] for i in range(columns)])

    def quadratic(self, right: list[Entry]) -> Entry:
        """Return right' N**-1 right; `right` may hold entries of any shape where the system is one of floats."""
        # Of an empty column the value is huge and its inverse 0: in this order the product stays finite.
        return sum(z * (z * inverse) for z, inverse in zip(self._forward(right), self._inverse, strict=True))

    def solve(self, right: list[Entry]) -> list[Entry]:
        """Return N**-1 right for another right side."""
        return self._back(list(map(mul, self._forward(right), self._inverse)))

    def _forward(self, right: list[Entry]) -> list[Entry]:
        z: list[Entry] = []
        for value, root, row in zip(right, self._roots, self._lower, strict=True):
            z.append(value * root - sum(map(mul, row, z)))
        return z

    def _back(self, scaled: list[Entry]) -> list[Entry]:
        for i in reversed(range(len(scaled))):
            value = scaled[i]
            for m in range(i):
                scaled[m] = scaled[m] - self._lower[i][m] * value
        return list(map(mul, scaled, self._roots))
