"""Which of several nested forms the evidence supports.

BIC with a small-sample penalty: n ln(RSS / n) + k ln(n) n / (n - k - 1). The second factor is that of AICc; it keeps a form
with nearly as many coefficients as rows from winning by interpolation. RSS is never believed below the rounding of the sums.
"""

from __future__ import annotations

from math import inf, log
from typing import Any

import numpy as np

ROUNDING = 1e-13  # of the sum of squares: the residual is a difference of sums and means nothing below


def criterion(residual: Any, square: Any, evidence: Any, used: Any) -> Any:
    """Return the criterion, elementwise; the least wins, infinity means too few rows.

    Parameters
    ----------
    residual, square : array
        Weighted residual sum of squares, and the sum of squares it is a part of.
    evidence : array
        Rows n (lowered by forgetting).
    used : array
        Coefficients k that the form could determine.
    """
    if isinstance(residual, float):
        return _criterion_of_one(residual, float(square), float(evidence), float(used))
    rows = np.maximum(evidence, 1.0)
    spare = rows - used - 1.0
    safe = np.maximum(residual, ROUNDING * square + 1e-300)
    log_rows = _log(rows)
    fit = rows * _log(safe / rows)
    return np.where(spare > 0, fit + used * log_rows * rows / np.where(spare > 0, spare, 1.0), np.inf)


def _criterion_of_one(residual: float, square: float, evidence: float, used: float) -> float:
    rows = max(evidence, 1.0)
    spare = rows - used - 1.0
    if spare <= 0:
        return inf
    return rows * log(max(residual, ROUNDING * square + 1e-300) / rows) + used * log(rows) * rows / spare


def _log(value: Any) -> Any:
    # np.log may take another path for one value than for many, a last-bit difference that could tip a choice which is part
    # of the state; the mantissa is therefore rounded to 2**-20, far below any evidence.
    mantissa, exponent = np.frexp(value)
    return np.rint(np.log(mantissa) * 2.0**20) * 2.0**-20 + exponent * 0.6931471805599453
