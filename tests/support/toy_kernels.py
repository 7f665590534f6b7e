"""A small source of kernels, for tests of how any source becomes compiled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from advisor import kernels

SCALE = 0.3


def grow(values: Any, place: int, x: float) -> None:
    """Add to one value what its neighbour decides."""
    values[place] += SCALE * math.exp(x / (1.0 + abs(values[place - 1])))


def fold(values: Any, beside: Any, x: float) -> tuple[float, int]:
    """Grow all values and those beside; return the last one and how many have grown."""
    grown = 0
    for place in range(len(values)):
        grow(values, place, x)
        grow(beside[0], place, x / 3.0)
        beside[1][place] += 1
        grown += 2
    return values[-1], grown


def examples() -> Iterator[tuple[str, Any]]:
    """Yield the types that `fold` is called with."""
    yield "fold", (np.zeros(1), (np.zeros(1), np.zeros(1, np.int64)), 1.0)


KERNELS = kernels.Source(__name__, (fold,), examples)
