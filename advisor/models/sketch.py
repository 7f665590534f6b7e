"""The load sketch: which predictors a component meets, unweighted, in 16 cells that merge by doubling.

Cell c covers [c 2**e, (c + 1) 2**e) and holds the runs, sum and sum of squares of x - c 2**e. Expectations of any function of
the predictor are taken over the two points mean +- sd of each cell.
"""

from __future__ import annotations

from math import ldexp, sqrt

import numpy as np
from numpy.typing import NDArray

from advisor.models.layout import CELLS
from advisor.models.table import Table

Floats = NDArray[np.float64]


def points(table: Table, slot: int) -> tuple[Floats, Floats]:
    """Return predictors (n,), n <= 32, and their shares of the observed load: mean +- sd of each cell, half the cell each.

    In plain numbers: sixteen cells cost a fifth of what arrays of them do.
    """
    runs: list[float] = table["cell_runs"][:, slot].tolist()
    sums: list[float] = table["cell_sum"][:, slot].tolist()
    squares: list[float] = table["cell_square"][:, slot].tolist()
    exponent, low, high = (float(table[name][slot]) for name in ("cell_exponent", "x_low", "x_high"))
    if not sum(runs):
        return np.empty(0), np.empty(0)
    width, high, whole = ldexp(1.0, int(exponent)) if exponent > -np.inf else 1.0, max(low, high), sum(runs)
    found: dict[float, float] = {}
    for cell in range(CELLS):
        if runs[cell]:
            mean = sums[cell] / runs[cell]
            sd = sqrt(max(squares[cell] / runs[cell] - mean * mean, 0.0))
            share = runs[cell] / whole * 0.5
            # A cell of few, uneven predictors can have mean - sd below its edge; x stays within what was seen.
            for beside in (-sd, sd):
                x = min(max(cell * width + mean + beside, low), high)
                found[x] = found.get(x, 0.0) + share
    predictors = sorted(found)
    return np.array(predictors), np.array([found[x] for x in predictors])
