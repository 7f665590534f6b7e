"""How many cores for one invocation."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import CoreChoice

Floats = NDArray[np.float64]
Point = tuple[float, float, float, float]

ALL_COUNTS = 256  # core counts tried one by one; beyond, every power of 2**(1/32) as well: 2 % apart
PER_DOUBLING = 32
EQUAL = 1e-12  # relative: times closer than this are one time, and fewer cores win


def choose(
    values: Callable[[Floats], Floats], one: Callable[[float], Point], name: str, cores_max: int, tolerance: float
) -> CoreChoice:
    """Return the fewest cores whose predicted time is within `tolerance` of the fastest. Cost O(min(cores_max, 256)).

    Parameters
    ----------
    values : callable
        Core counts (n,) to elapsed times (n,).
    one : callable
        A core count to (elapsed_s, low_s, high_s, extrapolates).
    """
    counts = np.arange(1, min(cores_max, ALL_COUNTS) + 1)
    if cores_max > ALL_COUNTS:
        first, last = (int(log2(n) * PER_DOUBLING) for n in (ALL_COUNTS, cores_max))
        steps = np.linspace(first, last, last - first + 1) / PER_DOUBLING
        counts = np.unique(np.concatenate([counts, np.rint(2.0**steps).astype(np.int64), [cores_max]]))
    elapsed = values(counts.astype(np.float64))
    fastest = int(np.argmax(elapsed <= elapsed.min() * (1.0 + EQUAL)))
    fewest = int(np.argmax(elapsed <= elapsed[fastest] * (1.0 + max(tolerance, EQUAL))))
    cores = int(counts[fewest])
    value, low, high, outside = one(float(cores))
    best = f"{counts[fastest]} core{'s' if counts[fastest] > 1 else ''} at {elapsed[fastest]:.3g} s"
    if fewest == fastest:
        why = f"{best} is the fastest predicted of 1 to {cores_max}"
    else:
        loss = elapsed[fewest] / elapsed[fastest] - 1.0
        taken = "1 core takes" if cores == 1 else f"{cores} cores take"
        why = f"{taken} {loss:.1%} longer than the fastest, {best}, within the tolerance of {tolerance:.1%}"
    return CoreChoice(
        cores, value, low, high, name, int(counts[fastest]), float(elapsed[fastest]), outside, why
    )  # fmt: skip
