"""A record's support points in natural logs: their centres, their noise, and what is wild among them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from advisor.models.posterior import LN2, Points, compiled
from advisor.models.support import AXES_MAX, KEY_BITS, LOWEST, POINTS, SupportTable

Floats = NDArray[np.float64]

RUN_SD = 0.1  # of one run, before there are repeats: counts as one repeat
SCATTER_LEAST = 1e-9  # of the sums: less is rounding
WILD = 4.0  # standard deviations of an error
ZERO_BELOW = 2.0  # x = 0 stands a factor of 4 below the least positive x
ANY_ZERO = LOWEST + 3.0  # log2 of a predictor is above, but of 0
TRIM_RUNS = 3.0  # a cell of so many runs can lose its least and its greatest


def points_of(table: SupportTable, slot: int, timer_noise_s: float = 0.0, *, quick: bool = False) -> Points:
    """Return the points of a record; runs near `timer_noise_s` are as noisy as the timer. Cost O(POINTS).

    `quick`: compiled where that is to be had; the last digits differ.
    """
    used = int(table.count("points")[slot])
    record = table.words[slot]
    at = table.at
    runs, y, yy, low, high = (
        record[at[name].start : at[name].start + used] for name in ("runs", "y", "yy", "low", "high")
    )
    sums = record[at["z"]].reshape(table.axes, POINTS)[:, :used]
    keys = record.view(np.int64)[at["key"]][:used]
    machine = keys >> (KEY_BITS * table.axes)
    kernels = compiled() if quick else None
    if kernels is not None:
        z, mean, runs, spread, zero, torn, inside, timer = kernels.points(
            record[at["z"]], runs, y, yy, low, high, record[at["zz"]], record[at["zy"]], timer_noise_s,
            ANY_ZERO, ZERO_BELOW, SCATTER_LEAST, (RUN_SD / LN2) ** 2, WILD, TRIM_RUNS, LN2,
        )  # fmt: skip
        return Points(z, mean, runs, spread, machine, zero, torn, inside, timer)
    means = sums / runs
    z = means.T
    zero = np.minimum.reduce(np.where(z > ANY_ZERO, z, np.inf), axis=0) - ZERO_BELOW
    zero[~np.isfinite(zero)] = 0.0
    z = np.maximum(z, zero)
    mean = y / runs
    spread = np.maximum(yy - y * mean, 0.0)
    share, inside = _inside(table, record, sums, means, runs, y, float(np.add.reduce(spread)))
    spread *= share
    torn = np.zeros(used)
    if float(np.maximum.reduce(runs, initial=0.0)) >= 2.0:
        mean, spread, torn = _trimmed(mean, spread, runs, y, yy, low, high)
    square = LN2 * LN2
    timer = np.square(timer_noise_s * np.exp2(-mean))
    return Points(
        z * LN2, mean * LN2, runs.copy(), spread * square, machine, zero * LN2, torn * square,
        inside * LN2, timer,
    )  # fmt: skip


@lru_cache(maxsize=AXES_MAX)
def _triangle(axes: int) -> NDArray[np.int64]:
    """Return the place (axes, axes) of each pair of axes among the sums of their products."""
    places = np.zeros((axes, axes), np.int64)
    places[np.triu_indices(axes)] = np.arange(axes * (axes + 1) // 2)
    return np.maximum(places, places.T)


def _inside(
    table: SupportTable, record: Floats, z: Floats, means: Floats, runs: Floats, y: Floats, spread: float
) -> tuple[float, Floats]:
    """Return the share of the spread inside cells that is no lean on z, and the sd (axes,) of z inside cells, in log2.

    The sums over all rows less those between cells give z's scatter inside cells, and least squares on it what y owes to
    z there.

    Parameters
    ----------
    z, means : float64 arrays (axes, k)
        The cells' sums of z, and their means.
    """
    axes, at = table.axes, table.at
    if spread <= 0.0:
        return 1.0, np.zeros(axes)
    total = record[at["zz"]][_triangle(axes)]
    scatter = total - means @ z.T
    own, size = scatter.diagonal(), total.diagonal()
    free: NDArray[np.bool_] = own > SCATTER_LEAST * (1.0 + size)
    count = int(np.count_nonzero(free))
    if not count:
        return 1.0, np.zeros(axes)
    lean: Floats = record[at["zy"]] - means @ y
    inner, ridge = scatter, SCATTER_LEAST * (1.0 + size)
    if count < axes:
        lean, inner, ridge = lean[free], scatter[free][:, free], ridge[free]
    coefficients: Floats = np.asarray(np.linalg.solve(inner + np.diag(ridge), lean), np.float64)
    explained = float(lean @ coefficients)
    free_rows = max(float(np.add.reduce(runs)) - len(runs), 1.0)
    # Each coefficient takes its share by chance alone.
    share = max(spread - explained, 0.0) / spread * free_rows / max(free_rows - count, 1.0)
    return min(max(share, 0.0), 1.0), np.sqrt(np.where(free, own, 0.0) / free_rows)


def _trimmed(
    mean: Floats, spread: Floats, runs: Floats, y: Floats, yy: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return mean, spread and further variance of cells where runs that are wild beside the others move nothing.

    Of three and more runs the least and the greatest are left out; of two that contradict each other neither is believed.
    """
    many = runs >= TRIM_RUNS
    two = (runs >= 2.0) & ~many
    rest = np.where(many, runs - 2.0, 1.0)
    inner = np.where(many, (y - low - high) / rest, mean)
    inner_spread = np.where(many, np.maximum(yy - low * low - high * high - rest * inner * inner, 0.0), 0.0)
    # The greatest pair is left out of the noise that it is measured by; the belief before any repeat counts as one.
    total = (RUN_SD / LN2) ** 2 + np.add.reduce(inner_spread)
    pairs = int(np.count_nonzero(two))
    if pairs:
        spreads = np.where(two, spread, 0.0)
        total = total + np.add.reduce(spreads) - np.maximum.reduce(spreads)
    pooled = total / (1.0 + np.add.reduce(rest - 1.0) + max(pairs - 1, 0))
    reach = 2.0 * WILD * np.sqrt(np.maximum(inner_spread / rest, pooled))
    wild = many & ((high - inner > reach) | (inner - low > reach))
    torn = two & (high - low > reach)
    return (
        np.where(wild, inner, mean),
        np.where(wild, inner_spread, np.where(torn, 0.0, spread)),
        np.where(torn, spread, 0.0),
    )
