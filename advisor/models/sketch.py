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
