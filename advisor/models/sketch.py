"""The load sketch: which predictors a component meets, unweighted, in 16 cells that merge by doubling.

Cell c covers [c 2**e, (c + 1) 2**e) and holds the runs, sum and sum of squares of x - c 2**e. Expectations of any function of
the predictor are taken over the two points mean +- sd of each cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models.layout import CELLS
from advisor.models.table import Table

Floats = NDArray[np.float64]

SMALLEST_EXPONENT = -64.0  # with it the cells reach 2**-60, below which predictors count as 0
CELLS_EXPONENT = 4  # 2**4 = CELLS


def exponent_for(x: Floats) -> Floats:
    """Return the smallest cell exponent whose 16 cells hold x."""
    return np.maximum(np.frexp(x)[1] - float(CELLS_EXPONENT), SMALLEST_EXPONENT)


def coarsen(part: Table, exponent: Floats) -> None:
    """Raise the cell width of each slot to at least 2**exponent, merging cells pair by pair. Exact counts, sums to rounding."""
    empty = ~np.isfinite(part["cell_exponent"])
    part["cell_exponent"][empty] = exponent[empty]
    runs, total, square = part["cell_runs"], part["cell_sum"], part["cell_square"]
    while (short := part["cell_exponent"] < exponent).any():
        slots = np.flatnonzero(short)
        width = np.ldexp(1.0, part["cell_exponent"][slots].astype(np.int64))
        n, s, q = runs[:, slots], total[:, slots], square[:, slots]
        odd_s = s[1::2] + n[1::2] * width
        odd_q = q[1::2] + 2.0 * width * s[1::2] + n[1::2] * (width * width)
        for block, merged in ((runs, n[::2] + n[1::2]), (total, s[::2] + odd_s), (square, q[::2] + odd_q)):
            block[: CELLS // 2, slots] = merged
            block[CELLS // 2 :, slots] = 0.0
        part["cell_exponent"][slots] += 1.0
        # All cells of an empty sketch merge in one step, and a cell holding nothing costs nothing to skip.
        bare = slots[~runs[:, slots].any(axis=0)]
        part["cell_exponent"][bare] = np.maximum(part["cell_exponent"][bare], exponent[bare])


def add(table: Table, slots: NDArray[np.int64], x: Floats, count: Floats | None) -> None:
    """Add predictors that lie within the cells of their slots. Cost O(n)."""
    exponent = table["cell_exponent"][slots].astype(np.int32)
    cell = np.ldexp(x, -exponent).astype(np.int64)
    offset = x - np.ldexp(cell.astype(np.float64), exponent)
    at = cell * table.words.shape[1] + slots
    weighted = offset if count is None else offset * count
    np.add.at(table["cell_runs"].reshape(-1), at, np.ones_like(x) if count is None else count)
    np.add.at(table["cell_sum"].reshape(-1), at, weighted)
    np.add.at(table["cell_square"].reshape(-1), at, weighted * offset)


def points(part: Table) -> tuple[Floats, Floats]:
    """Return predictors (32, n) and their shares (32, n) of the observed load: mean +- sd of each cell, half the cell each."""
    runs = part["cell_runs"]
    exponent = np.where(np.isfinite(part["cell_exponent"]), part["cell_exponent"], 0.0).astype(np.int64)
    edge = np.ldexp(np.arange(CELLS, dtype=np.float64)[:, None], exponent[None, :])
    some = np.maximum(runs, 1e-300)
    mean = part["cell_sum"] / some
    sd = np.sqrt(np.maximum(part["cell_square"] / some - mean * mean, 0.0))
    share = runs / np.maximum(runs.sum(axis=0), 1e-300)
    # A cell of few, uneven predictors can have mean - sd below its edge; x stays within what was seen.
    low, high = part["x_low"], part["x_high"]
    x = np.clip(np.concatenate([edge + mean - sd, edge + mean + sd]), low, np.maximum(low, high))
    return x, np.concatenate([share, share]) * 0.5
