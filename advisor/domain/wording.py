"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Final

UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
ROUNDED: Final = 0.9995  # of a unit is reported as one of it


def seconds(value: float | None) -> str:
    """Return seconds with three digits and the unit that suits them."""
    if value is None or not math.isfinite(value):
        return "–"
    scale, unit = UNITS[-1]
    for each in UNITS:
        if abs(value) >= ROUNDED * each[0]:
            scale, unit = each
            break
    return f"{value / scale:.3g} {unit}" if abs(value) < 1000 else f"{value:.0f} s"
