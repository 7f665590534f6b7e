"""Paper 1's model as the paper has it, by the name `two_step`.

The sequential time S(x) is fitted, unweighted, to the rows at the fewest cores p_min. The parallel fraction comes from the
rows at the highest (cores, then predictor): with r = T / S(x*), a = (1 - r) / ((1 - 1/p*) - r (1 - 1/p_min)), clamped to 0
for r >= 1 and to 1 for r <= p_min / p* (the formula has a pole beyond). All those rows share (p*, x*), so their running mean
is kept as (p*, x*, n, sum t) and a is evaluated with the S of the moment.

Source: extended Amdahl model, sections 3.1, 3.2 and 3.4 (the paper prints a without the "1 -", a misprint).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models.layout import AT, COEFFICIENTS, MOMENTS
from advisor.models.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST = slice(AT["least_gram"].start, AT["least_square"].stop)


def fold(table: Table, slots: Ints, x: Floats, p: Floats, t: Floats, u: Floats, count: Floats | None) -> None:
    """Fold rows whose predictors lie within their slots' bases. Cost O(n)."""
    least = table["p_low"]
    fewer = p < least[slots]
    if fewer.any():
        changed = np.unique(slots[fewer])
        np.minimum.at(least, slots[fewer], p[fewer])
        table.words[LEAST, changed] = 0.0  # the sums restart: S is at the fewest cores
    rows = np.flatnonzero(p == least[slots])
    if len(rows):
        _fold_least(table, slots[rows], t[rows], u[rows], None if count is None else count[rows])
    most = table["p_high"]
    rows = np.flatnonzero(p >= most[slots])
    if len(rows):
        more = rows[p[rows] > most[slots[rows]]]
        if len(more):
            np.maximum.at(most, slots[more], p[more])
            table["top_predictor"][slots[more]] = -np.inf
            rows = rows[p[rows] == most[slots[rows]]]
        _fold_top(table, slots[rows], x[rows], t[rows], None if count is None else count[rows])


def _fold_least(table: Table, slots: Ints, t: Floats, u: Floats, count: Floats | None) -> None:
    term = np.ones_like(u) if count is None else count
    np.add.at(table["least_square"], slots, term * t * t)
    for m in range(MOMENTS):
        np.add.at(table["least_gram"][m], slots, term)
        if m < COEFFICIENTS:
            np.add.at(table["least_right"][m], slots, term * t)
        term = term * u


def _fold_top(table: Table, slots: Ints, x: Floats, t: Floats, count: Floats | None) -> None:
    predictor = table["top_predictor"]
    larger = np.flatnonzero(x > predictor[slots])
    if len(larger):
        table["top_runs"][slots[larger]] = 0.0
        table["top_sum"][slots[larger]] = 0.0
        np.maximum.at(predictor, slots[larger], x[larger])
    rows = np.flatnonzero(x == predictor[slots])
    np.add.at(table["top_runs"], slots[rows], np.ones(len(rows)) if count is None else count[rows])
    np.add.at(table["top_sum"], slots[rows], t[rows] if count is None else t[rows] * count[rows])


def parallel_fraction(ratio: Floats, p_top: Floats, p_least: Floats) -> Floats:
    """Return a (n,) in [0, 1] from r = T_p* / S_min(x*); NaN where p* = p_min tells nothing.

    Solves T_p*(x*) / T_pmin(x*) = r for a, T_p = a S / p + (1 - a) S.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (1.0 - ratio) / ((1.0 - 1.0 / p_top) - ratio * (1.0 - 1.0 / p_least))
        a = np.where(ratio >= 1.0, 0.0, np.where(ratio <= p_least / p_top, 1.0, a))
    return np.where(p_top > p_least, np.clip(a, 0.0, 1.0), np.nan)
