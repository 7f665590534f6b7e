"""Pseudo-random numbers that are the same everywhere for the same seed, which a library's need not be: splitmix64.

Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary

Floats = NDArray[np.float64]
STEP, MIX_A, MIX_B = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MASK_64 = 2**64 - 1


def splitmix(seed: int) -> Iterator[int]:
    """Yield whole numbers from 0 to 2**64 - 1."""
    state = seed & MASK_64
    while True:
        state = (state + STEP) & MASK_64
        z = ((state ^ (state >> 30)) * MIX_A) & MASK_64
        z = ((z ^ (z >> 27)) * MIX_B) & MASK_64
        yield z ^ (z >> 31)


def uniforms(seed: int, count: int) -> Floats:
    """Return numbers in (0, 1), (count,): the mixed counter, started at a place of its own for each seed."""
    with np.errstate(over="ignore"):
        start = np.uint64((seed * MIX_B) & MASK_64)
        z = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(STEP)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_A)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_B)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def normals(seed: int, count: int) -> Floats:
    """Return standard normal numbers, (count,), by Box and Muller."""
    u, v = uniforms(2 * seed, count), uniforms(2 * seed + 1, count)
    return np.sqrt(-2.0 * elementary.log(u)) * np.cos(2.0 * np.pi * v)
