"""Least squares from normal equations of few columns, in plain numbers.

The system is equilibrated (unit diagonal) and factored as L D L'. The pivot d_i is then 1 - R**2 of column i on the columns
before it; below `PIVOT_MIN` the column adds nothing that the sums can tell and is left out: its coefficient is 0.
"""

from __future__ import annotations

from math import sqrt
from operator import mul
from typing import Any

from advisor.domain.elementary import added

# 1 - R**2 of a column, below which it counts as dependent: sums of 10**6 rows carry rounding of about 1e-14 relative, and the
# coefficient of a column this close to dependent is wrong by 1e-14 / PIVOT_MIN.
PIVOT_MIN = 1e-11
TINY = 1e-300  # a diagonal below it is an empty sum


class Elimination:
    """A factored system N s = r. Cost O(k**3).

    `gains` (k): what each column in turn takes from the sum of squares, of which ``square - sum(gains[:j])`` is left after j.
    `used` (k): 1.0 where the column was used, 0.0 where it was dependent.
    """

    __slots__ = ("_inverse", "_lower", "_roots", "_z", "gains", "used")

    def __init__(self, matrix: list[list[float]], right: list[float]) -> None:
        k = len(right)
        roots = [1.0 / sqrt(max(matrix[i][i], TINY)) for i in range(k)]
        lower: list[list[float]] = []  # l_ij, j < i
        inverse: list[float] = []  # 1 / d_i
        z: list[float] = []  # L z = right
        for i in range(k):
            root, entries = roots[i], matrix[i]
            undivided: list[float] = []  # l_ij d_j
            row: list[float] = []
            for j in range(i):
                entry = entries[j] * root * roots[j] - added(map(mul, undivided, lower[j]))
                undivided.append(entry)
                row.append(entry * inverse[j])
            pivot = entries[i] * root * root - added(map(mul, undivided, row))
            inverse.append(1.0 / pivot if pivot > PIVOT_MIN else 0.0)
            z.append(right[i] * root - added(map(mul, row, z)))
            lower.append(row)
        self._roots, self._lower, self._inverse, self._z = roots, lower, inverse, z
        self.gains = [z[i] * z[i] * inverse[i] for i in range(k)]
        self.used = [(inverse[i] > 0) * 1.0 for i in range(k)]

    def solution(self, columns: int) -> list[float]:
        """Return the coefficients of the system's first `columns` columns (nested: one factoring serves every degree)."""
        return self._back([self._z[i] * self._inverse[i] for i in range(columns)])

    def quadratic(self, right: list[Any]) -> Any:
        """Return right' N**-1 right; `right` may hold arrays of any shape: elementwise."""
        # Of an empty column the value is huge and its inverse 0: in this order the product stays finite.
        return added(z * (z * inverse) for z, inverse in zip(self._forward(right), self._inverse, strict=True))

    def _forward(self, right: list[Any]) -> list[Any]:
        z: list[Any] = []
        for value, root, row in zip(right, self._roots, self._lower, strict=True):
            z.append(value * root - added(map(mul, row, z)))
        return z

    def _back(self, scaled: list[float]) -> list[float]:
        for i in reversed(range(len(scaled))):
            value = scaled[i]
            for m in range(i):
                scaled[m] = scaled[m] - self._lower[i][m] * value
        return list(map(mul, scaled, self._roots))
