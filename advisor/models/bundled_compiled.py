"""`bundled`, compiled by numba (the extra ``fast``): the same source, so the same operations in the same order."""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportMissingImports=false

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
from numba import njit  # type: ignore[import-not-found]

from advisor.domain.bundle import P_KNOTS_MAX
from advisor.models import bundled, logarithm

# No fastmath: sums keep their order and rounding. Not cached on disk: functions made of others' code have no file of their own.
_compile = njit(error_model="numpy", nogil=True)
_IN_ORDER = (
    "clamped", "log_x", "p_segment", "along", "time_at_knot", "width_at_knot", "x_row", "half_widths", "form_value", "grid_log",
    "predict", "_of_monotone", "_row", "_crossing", "choose_cores",
)  # fmt: skip


def _compiled() -> dict[str, Any]:
    names = dict(vars(bundled))
    names["log2_of"], names["exp2_of"] = _compile(logarithm.log2_of), _compile(logarithm.exp2_of)
    for name in _IN_ORDER:
        names[name] = _compile(FunctionType(getattr(bundled, name).__code__, names, name))
    return names


_FUNCTIONS = _compiled()
predict = _FUNCTIONS["predict"]
choose_cores = _FUNCTIONS["choose_cores"]


def room() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return what `choose_cores` works in."""
    return np.zeros(P_KNOTS_MAX + 1), np.zeros(P_KNOTS_MAX + 1)
