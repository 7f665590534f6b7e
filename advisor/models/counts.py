"""Counts of a component, read from the few words that a fold has to touch.

A fold adds 1 to ``rows`` and nothing else where it can; what else counts rows is an offset to it that changes rarely.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models.table import Table

ALL = slice(None)


def runs(table: Table, at: Any = ALL) -> NDArray[np.int64]:
    """Return the exact number of learned runs: a row with count c is c runs."""
    return table.integers("rows")[at] + table.integers("extra_runs")[at]


def evidence(table: Table, at: Any = ALL) -> NDArray[np.float64]:
    """Return the rows that the sums still stand for: what the solver takes for n."""
    return table.integers("rows")[at] - table["forgotten"][at]


def scored(table: Table, at: Any = ALL) -> NDArray[np.int64]:
    """Return the rows that the weighting model predicted before they were learned."""
    return table.integers("rows")[at] - table.integers("unscored")[at]
