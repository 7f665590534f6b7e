"""A hash of 64-bit values: what a choice or a sample rests on that no stream can steer."""

from __future__ import annotations

import numpy as np

from advisor.domain.vectors import Words


def mixed(values: Words, salt: int) -> Words:
    """Return 64 well mixed bits of each value (n,): splitmix64 (Steele, Lea, Flood 2014). Cost O(n)."""
    z = (values ^ np.uint64(salt)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
