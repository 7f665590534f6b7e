"""The weighting model m(x, p): a rough prediction that gives each row its weight w = 1 / (m**2 + t0**2).

It is never the row's own elapsed time: weight and noise would be correlated (measured: -16 % bias at 30 % noise). Only where m
is below the row's elapsed time by more than `TRUST` does that time bound the weight: a young model can be wrong by a factor of
1000 where it saw nothing, and such a row would otherwise outweigh all others for ever. Nothing bounds m from above: a row that
was short by chance must not weigh more for it, or the model follows the shortest runs (measured: -80 % at log-normal noise of
sd 1, -99 % at exponential noise).

The model is part of the state, solved at the component's ages 16, 32, 64, ... only, from the sums alone. Its form is
A(u) + B(u) / p, both in the cone of the cubic Bernstein polynomials u^i (1-u)^(3-i): it is positive whatever the rows were,
where an unconstrained polynomial dips to zero and gives the rows there all the weight. It only weighs, it never answers. At
each solve the sums are scaled, by a power of two, so that sum w (m**2 + t0**2) is the number of runs: what younger, wronger
models weighed counts as many runs as it was, and no more.

No transcendental function and no matrix product stands here: the fold must give the same bytes however rows are batched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models.counts import age
from advisor.models.layout import AT, COEFFICIENTS, DEGREE_MAX, FIRST_SOLVE, MOMENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COLUMNS = [
    (j, q) for q in range(2) for j in range(COEFFICIENTS)
]  # u**j p**-q, in the order of w_coefficients and right

FLOOR_SHARE = 0.5  # of the smallest elapsed time seen: no row may weigh as if it took less
TRUST = 30.0  # of log-normal noise of sd 1 one row in 3000 lies beyond: no measurable bias; see test_weighting.py
SWEEPS = 30  # of coordinate descent: the weights settle by 8, the error that status tells of the model by 30
ROUNDING = 1e-11  # of a sum; the differences that make a column of the cone lose about as much
ROOT_HALF = 0.7071067811865476  # between it and its double lies the nearest power of two
FEATURES = slice(AT["w_coefficients"].start, AT["w_cores"].stop)  # one gather for all that an evaluation needs
CORES_UNIT = 1024.0  # of w_cores: cores are 2**-10 .. 2**20, so each bound takes at most 30 bits
CORES_BITS = 32


def evaluate(table: Table, slots: Ints, x: Floats, p: Floats) -> Floats:
    """Return m (n,) for rows of components whose weighting model is solved. Horner, elementwise; cost O(n).

    Outside the predictors that the model was solved on it continues as a power x**s, s being its log-slope at the edge,
    rounded to a whole number from 0 to 3 (a real power is not the same bytes in every batch).
    """
    return judged(table, slots, x, p)[0]


def judged(table: Table, slots: Ints, x: Floats, p: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return m (n,) as `evaluate` does, and whether each row lies within the predictors and cores that m was solved on."""
    return judged_by(table.words[FEATURES].take(slots, axis=1), x, p)


def judged_by(features: Floats, x: Floats, p: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what `judged` does, of models given as the words (14, n) of `FEATURES`."""
    *coefficients, origin, scale, low, high, floor, cores = features
    inside = np.minimum(np.maximum(x, low), high)
    u = (inside - origin) / scale
    q = 1.0 / p
    a, b = coefficients[:COEFFICIENTS], coefficients[COEFFICIENTS:]
    m = a[DEGREE_MAX] + b[DEGREE_MAX] * q
    for j in reversed(range(DEGREE_MAX)):
        m = m * u + (a[j] + b[j] * q)
    known = inside == x
    outside = np.flatnonzero(~known)
    if len(outside):
        m[outside] = _continued(
            [c[outside] + d[outside] * q[outside] for c, d in zip(a, b, strict=True)],
            u[outside], scale[outside], inside[outside], x[outside], m[outside],
        )  # fmt: skip
    return np.maximum(m, floor), known & knows_cores(cores.view(np.int64), p)


def _continued(c: list[Floats], u: Floats, scale: Floats, edge: Floats, x: Floats, value: Floats) -> Floats:
    slope = c[1] + u * (2.0 * c[2] + u * (3.0 * c[3]))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.rint(edge / scale * slope / value)
        ratio = np.where(edge > 0, x / np.where(edge > 0, edge, 1.0), 1.0)
    for whole in range(1, DEGREE_MAX + 1):  # comparisons with NaN are False: such a row continues flat
        value = np.where(power >= whole, value * ratio, value)
    return value


def packed_cores(low: Floats, high: Floats) -> Ints:
    """Return a range of cores (n,) in one word: floor(low 1024) << 32 | ceil(high 1024)."""
    return (np.floor(low * CORES_UNIT).astype(np.int64) << CORES_BITS) | np.ceil(high * CORES_UNIT).astype(np.int64)


def knows_cores(word: Ints, p: Floats) -> NDArray[np.bool_]:
    """Return where p (n,) lies within a range that `packed_cores` gave. Elementwise."""
    units = p * CORES_UNIT
    return (units >= word >> CORES_BITS) & (units <= word & (1 << CORES_BITS) - 1)


def trusted(m: Floats, t: Floats) -> Floats:
    """Return m, but no less than the rows' own elapsed times t over `TRUST`. Elementwise."""
    return np.maximum(m, t * (1.0 / TRUST))


def solve(part: Table, timer_noise_s: float) -> None:
    """Solve the weighting models of all slots of `part` from their sums, in place, and scale the sums. Cost O(n)."""
    coefficients = _not_negative(part)
    part["w_coefficients"][:] = coefficients
    part["w_origin"][:] = part["origin"]
    part["w_scale"][:] = part["scale"]
    part["w_low"][:] = part["x_low"]
    part["w_high"][:] = part["x_high"]
    part["w_floor"][:] = FLOOR_SHARE * part["t_low"]
    part["w_cores"][:] = packed_cores(part["p_low"], part["p_high"])
    _normalise(part, coefficients, timer_noise_s)


def _not_negative(part: Table) -> Floats:
    """Return the coefficients (8, n) of nearly least squares with A and B in the cone of the Bernstein polynomials.

    Coordinate descent, from zero, on the sums re-expressed in u^i (1-u)^(3-i) p^-q and equilibrated.
    """
    gram = part["gram"].reshape(3, MOMENTS, -1)
    blocks = [_bernstein([_bernstein(list(g[i : i + COEFFICIENTS])) for i in range(COEFFICIENTS)]) for g in gram]
    matrix = np.array([[blocks[q + r][i][j] for j, r in COLUMNS] for i, q in COLUMNS])
    gradient = np.array([_bernstein(list(r)) for r in part["right"].reshape(2, COEFFICIENTS, -1)]).reshape(
        matrix.shape[1:]
    )
    # A column that is zero to rounding, next to the sums it is a difference of, tells nothing: it gets the coefficient 0.
    diagonal = matrix[range(len(COLUMNS)), range(len(COLUMNS))]
    bound = np.array([gram[2 * q, 2 * j] for j, q in COLUMNS])
    roots = np.sqrt(np.where(diagonal > ROUNDING * bound, diagonal, np.inf))
    matrix = matrix / roots[:, None] / roots
    gradient = gradient / roots
    found = np.zeros_like(gradient)
    forth = range(len(COLUMNS))
    for sweep in range(SWEEPS):
        for column in forth if sweep % 2 == 0 else reversed(forth):
            step = np.maximum(gradient[column], -found[column])
            found[column] += step
            gradient -= matrix[:, column] * step
    found = (found / roots).reshape(2, COEFFICIENTS, -1)
    return np.array([_powers(list(family)) for family in found]).reshape(gradient.shape)


def _bernstein(moments: list[Any]) -> list[Any]:
    """Return the moments of u^i (1-u)^(3-i), i = 0 .. 3, from those of u^0 .. u^3: repeated differences."""
    m0, m1, m2, m3 = (np.asarray(m) for m in moments)
    d0, d1, d2 = m0 - m1, m1 - m2, m2 - m3
    return [(d0 - d1) - (d1 - d2), d1 - d2, d2, m3]


def _powers(c: list[Floats]) -> list[Floats]:
    """Return the coefficients of u^0 .. u^3 of sum c_i u^i (1-u)^(3-i)."""
    return [c[0], c[1] - 3.0 * c[0], c[2] - 2.0 * c[1] + 3.0 * c[0], c[3] - c[2] + c[1] - c[0]]


def _normalise(part: Table, coefficients: Floats, timer_noise_s: float) -> None:
    """Scale the weighted sums by the power of two that brings sum w (m**2 + t0**2) nearest to the number of runs."""
    runs = np.zeros(part.size)
    for cell in part["cell_runs"]:  # the runs that the sums stand for: forgetting lowers both alike
        runs += cell
    explained = np.zeros(part.size)
    for column in range(len(COLUMNS)):  # of least squares on a cone, sum w m**2 = c' r
        explained = explained + coefficients[column] * part["right"][column]
    total = explained + timer_noise_s * timer_noise_s * part["gram"][0]
    # The first rows were weighed by their own times, which follows the shortest: the noisier they are the less they count.
    # (At exponential noise the mean is then 11 % low after 100 rows and 1 % after 1000, else 23 and 2.5 %.)
    share = explained / np.where(part["square"] > 0, part["square"], 1.0)
    runs = runs * np.where(age(part) < 2 * FIRST_SOLVE, np.minimum(share * share, 1.0), 1.0)
    some = (total > 0) & (runs > 0)
    mantissa, exponent = np.frexp(np.where(some, runs / np.where(some, total, 1.0), 1.0))
    factor = np.where(some, np.ldexp(1.0, np.where(mantissa < ROOT_HALF, exponent - 1, exponent)), 1.0)
    for field in ("gram", "right", "square"):
        part[field][...] *= factor
