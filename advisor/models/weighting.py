"""The weighting model m(x, p): a rough prediction that gives each row its weight w = 1 / (m**2 + t0**2).

It is never the row's own elapsed time: weight and noise would be correlated (measured: -16 % bias at 30 % noise). Only a
prediction that is off by more than `TRUST` is drawn to within that factor of the row: a young model can be wrong by a factor
of 1000 where it saw nothing, and such a row would otherwise outweigh all others for ever.

The model is part of the state, solved at the component's ages 16, 32, 64, ... only, from the sums alone. Its form is the free
one, A(u) + B(u) / p, because one elimination gives all its degrees; it only weighs, it never answers.

No transcendental function and no matrix product stands here: the fold gives the same bytes however rows are batched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models.counts import evidence
from advisor.models.criterion import criterion
from advisor.models.elimination import Elimination
from advisor.models.layout import AT, COEFFICIENTS, DEGREE_MAX, MOMENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FLOOR_SHARE = 0.5  # of the smallest elapsed time seen: no row may weigh as if it took less
TRUST = 3.0  # at log-normal noise of 30 % one row in 10,000 lies beyond: no measurable bias (docs/decisions/0002)
CHECKS = (
    np.linspace(0.0, 1.0, 9) ** 2
)  # where positivity is checked, as shares of the seen range: denser where time is short
FEATURES = slice(AT["w_coefficients"].start, AT["w_floor"].stop)  # one gather for all that an evaluation needs


def evaluate(table: Table, slots: Ints, x: Floats, p: Floats) -> Floats:
    """Return m (n,) for rows of components whose weighting model is solved. Horner, elementwise; cost O(n).

    Outside the predictors that the model was solved on it continues as a power x**s, s being its log-slope at the edge,
    rounded to a whole number from 0 to 3 (a real power is not the same bytes in every batch).
    """
    *coefficients, origin, scale, low, high, floor = table.words[FEATURES].take(slots, axis=1)
    inside = np.minimum(np.maximum(x, low), high)
    u = (inside - origin) / scale
    q = 1.0 / p
    a, b = coefficients[:COEFFICIENTS], coefficients[COEFFICIENTS:]
    m = a[DEGREE_MAX] + b[DEGREE_MAX] * q
    for j in reversed(range(DEGREE_MAX)):
        m = m * u + (a[j] + b[j] * q)
    outside = np.flatnonzero(inside != x)
    if len(outside):
        m[outside] = _continued(
            [c[outside] + d[outside] * q[outside] for c, d in zip(a, b, strict=True)],
            u[outside], scale[outside], inside[outside], x[outside], m[outside],
        )  # fmt: skip
    return np.maximum(m, floor)


def _continued(c: list[Floats], u: Floats, scale: Floats, edge: Floats, x: Floats, value: Floats) -> Floats:
    slope = c[1] + u * (2.0 * c[2] + u * (3.0 * c[3]))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.rint(edge / scale * slope / value)
        ratio = np.where(edge > 0, x / np.where(edge > 0, edge, 1.0), 1.0)
    for whole in range(1, DEGREE_MAX + 1):  # comparisons with NaN are False: such a row continues flat
        value = np.where(power >= whole, value * ratio, value)
    return value


def trusted(m: Floats, t: Floats) -> Floats:
    """Return m, drawn to within the factor `TRUST` of the rows' own elapsed times t. Elementwise."""
    return np.minimum(np.maximum(m, t * (1.0 / TRUST)), t * TRUST)


def _horner(coefficients: list[Floats], u: Floats) -> Floats:
    value = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = value * u + c
    return value + 0.0 * u


def free_normal(part: Table) -> tuple[list[list[Floats]], list[Floats]]:
    """Return the normal equations (8x8 lists of (n,)) of the free form in the order 1, 1/p, u, u/p, u**2, ..."""
    gram, right = part["gram"], part["right"]
    size = 2 * COEFFICIENTS
    matrix = [[gram[MOMENTS * (i % 2 + j % 2) + i // 2 + j // 2] for j in range(size)] for i in range(size)]
    return matrix, [right[COEFFICIENTS * (i % 2) + i // 2] for i in range(size)]


def solve(part: Table) -> None:
    """Solve the weighting models of all slots of `part` from their sums, in place. Cost O(n).

    The degree has the least criterion (see `criterion`) among those whose A and B are not negative on the
    seen range and whose predictions stay above half the smallest elapsed time seen; at last the mean.
    """
    n = part.size
    matrix, right = free_normal(part)
    system = Elimination(matrix, right)
    square, rows = part["square"], evidence(part)
    low, high = (part["x_low"] - part["origin"]) / part["scale"], (part["x_high"] - part["origin"]) / part["scale"]
    checks = low + CHECKS[:, None] * (high - low)
    floor, q = FLOOR_SHARE * part["t_low"], 1.0 / part["p_high"]
    best = np.full(n, np.inf)
    chosen = np.zeros((2 * COEFFICIENTS, n))
    chosen[0] = right[0] / np.maximum(matrix[0][0], 1e-300)
    left, used = square.copy(), np.zeros(n)
    for degree in range(COEFFICIENTS):
        for column in (2 * degree, 2 * degree + 1):
            left = left - system.gains[column]
            used = used + system.used[column]
        found = system.solution(2 * degree + 2)
        score = criterion(left, square, rows, used)
        serial, parallel = (_horner(found[family::2], checks) for family in (0, 1))
        valid = ((serial >= 0) & (parallel >= 0) & (serial + parallel * q >= floor)).all(axis=0)
        better = valid & (score < best)
        best = np.where(better, score, best)
        for column in range(2 * COEFFICIENTS):
            value = found[column] if column < len(found) else 0.0
            at = column // 2 + COEFFICIENTS * (column % 2)
            chosen[at] = np.where(better, value, chosen[at])
    part["w_coefficients"][:] = chosen
    part["w_origin"][:] = part["origin"]
    part["w_scale"][:] = part["scale"]
    part["w_low"][:] = part["x_low"]
    part["w_high"][:] = part["x_high"]
    part["w_floor"][:] = FLOOR_SHARE * part["t_low"]
