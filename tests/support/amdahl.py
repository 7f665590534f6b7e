"""Amdahl's curves as tables: two counts suffice, since tables are linear in 1/p between theirs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.domain.curves import TabulatedCurves

MOST = 2**20  # cores that any plan may have


def amdahl_curves(serial_s: NDArray[np.float64], parallel_s: NDArray[np.float64]) -> TabulatedCurves:
    """Return curves T_c(p) = serial_s + parallel_s / p of n components, (n,) each."""
    return TabulatedCurves.from_arrays(
        [1, MOST], np.stack([serial_s + parallel_s, serial_s + parallel_s / MOST], axis=1)
    )
