"""Instances of task types as paper 2 met them: sizes, times and running workers, generated and seeded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mix:
    """Instances in order of their ends: sizes (instructions), seconds, workers that run."""

    sizes: Floats
    times: Floats
    running: NDArray[np.int64]


def merges(elements: int = 2**18, runs: int = 12, seed: int = 1) -> Mix:
    """Merge sort's merges (type 1): of 2^k elements, the small ones many; 12 instructions an element, slower beyond a cache."""
    random = np.random.default_rng(seed)
    sizes = np.concatenate(
        [np.repeat(2.0**level, elements // 2**level) for level in range(9, elements.bit_length())] * runs
    )
    sizes = random.permutation(sizes) * 12.0 * np.exp(0.02 * random.standard_normal(len(sizes)))
    cycles = sizes * (0.7 + 0.5 / (1.0 + np.exp(-(np.log2(sizes) - 18.0)))) + 400.0
    return _mix(sizes, cycles, random, 0.03)


def sorts(elements: int = 2**18, runs: int = 12, seed: int = 2) -> Mix:
    """Merge sort's sorts (type 2): a task either creates two others or sorts 512 elements; one as often as the other."""
    random = np.random.default_rng(seed)
    leaves = np.full(elements // 512 * runs, 512 * 9 * 14.0)
    inner = np.full(elements // 512 * runs, 900.0)
    sizes = random.permutation(np.concatenate([leaves, inner])) * np.exp(0.01 * random.standard_normal(2 * len(leaves)))
    return _mix(sizes, sizes * np.where(sizes > 10_000.0, 0.8, 1.6), random, 0.01)


def forces(instances: int = 8_000, seed: int = 3) -> Mix:
    """Fluidanimate's forces: 1 to 70 million instructions, and more of them a cycle where there are more."""
    random = np.random.default_rng(seed)
    sizes = np.exp(random.uniform(np.log(1e6), np.log(7e7), instances))
    rate = 0.6 + 0.9 * (np.log(sizes) - np.log(1e6)) / np.log(70.0)
    return _mix(sizes, sizes / rate, random, 0.05)


def regular(instances: int = 5_000, seed: int = 4) -> Mix:
    """Swaptions: all alike."""
    random = np.random.default_rng(seed)
    sizes = 2e6 * np.exp(0.002 * random.standard_normal(instances))
    return _mix(sizes, sizes, random, 0.02)


def contended(instances: int = 5_000, seed: int = 5) -> Mix:
    """Histogram: sizes alike, and longer the more workers run."""
    random = np.random.default_rng(seed)
    sizes = 1e6 * np.exp(0.002 * random.standard_normal(instances))
    running = 2 ** random.integers(0, 4, instances)
    slow = 1.0 + 0.15 * (running - 1.0)
    mix = _mix(sizes, sizes * slow, random, 0.05)
    return Mix(mix.sizes, mix.times, running)


def _mix(sizes: Floats, cycles: Floats, random: np.random.Generator, noise: float) -> Mix:
    times = cycles / 2.6e9 * np.exp(noise * random.standard_normal(len(sizes)))
    return Mix(sizes, times, random.integers(1, 9, len(sizes)))
