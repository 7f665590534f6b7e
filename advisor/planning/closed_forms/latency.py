"""Own cores for each component: the lowest latency, and the fewest cores for a latency.

The latency is sum_c D_c(p_c). One more core on top of p gains parallel/(p (p+1)), ever less, so taking the largest
gains first is optimal for every number of cores. The gain down to which cores are taken is found by bisection, then
exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from advisor.planning.asked.demand import TIE, Demand, Floats, Ints
from advisor.planning.closed_forms.throughput import THRESHOLDS_FEW, steps

# A parallel part below this share of the whole latency cannot be seen in a double, on however many cores.
NOTHING = 1e-17


def lowest_latency(demand: Demand, cores: int) -> Ints:
    """Return the cores p_c, sum p_c <= cores, with the lowest latency; cores that gain nothing stay free.

    Cost O(n log(P) + n log(n)). `cores` is at least the sum of ``demand.low``.
    """
    top = _useful(demand)
    if top.sum() <= cores:
        return top
    few, many = _bracket(demand, top, lambda taken: bool(taken.sum() <= cores))
    component, gain = _gains(demand, few, many)
    return _with_largest(few, component, gain, cores - int(few.sum()))


def least_cores_for_latency(demand: Demand, latency_s: float) -> Ints | None:
    """Return the fewest cores whose latency is at most `latency_s`, or None when no number of cores reaches it.

    Cost O(n log(P) + n log(n)).
    """
    limit = latency_s * (1 + TIE)
    top = _useful(demand)
    if demand.latency_s(top) > limit:
        return None
    if demand.latency_s(demand.low) <= limit:
        return demand.low.copy()
    few, many = _bracket(demand, top, lambda taken: demand.latency_s(taken) > limit)
    component, gain = _gains(demand, few, many)
    reached = demand.latency_s(few) - np.cumsum(np.sort(gain)[::-1])
    count = int(np.searchsorted(-reached, -limit)) + 1
    return _with_largest(few, component, gain, min(count, len(gain)))


def _useful(demand: Demand) -> Ints:
    """Return the most cores that are of use: all that are allowed, but the fewest where all of them gain nothing."""
    gains = demand.parallel_s > NOTHING * demand.latency_s(demand.low)
    return np.where(gains, demand.high, demand.low)


def _taken(demand: Demand, top: Ints, gain: float) -> Ints:
    """Return p_c such that every core up to p_c gains at least `gain`: p (p-1) <= parallel/gain."""
    with np.errstate(over="ignore"):
        cores = np.floor((1 + np.sqrt(1 + 4 * (demand.parallel_s / gain))) / 2)
    return np.clip(cores, demand.low, top).astype(np.int64)


def _bracket(demand: Demand, top: Ints, is_few: Callable[[Ints], bool]) -> tuple[Ints, Ints]:
    """Return two allocations between which the answer lies, with few steps between them; `is_few` tells them apart."""
    grows = top > demand.low
    parallel, low, high = (array[grows].astype(np.float64) for array in (demand.parallel_s, demand.low, top))
    most, least = float((parallel / (low * (low + 1))).max()), float((parallel / (high * (high - 1))).min())
    few, many = demand.low, top
    while (many - few).sum() > THRESHOLDS_FEW + 2 * len(demand):
        middle = float(np.sqrt(most) * np.sqrt(least))
        if not least < middle < most:
            break
        between = _taken(demand, top, middle)
        if is_few(between):
            most, few = middle, between
        else:
            least, many = middle, between
    return few, many


def _gains(demand: Demand, few: Ints, many: Ints) -> tuple[Ints, Floats]:
    component, cores = steps(few, many)
    return component, demand.parallel_s[component] / (cores * (cores + 1.0))


def _with_largest(few: Ints, component: Ints, gain: Floats, count: int) -> Ints:
    """Return `few` with the `count` largest gains taken, equal ones in text order."""
    if count <= 0:
        return few.copy()
    cut = np.partition(gain, len(gain) - count)[len(gain) - count]
    chosen = gain > cut * (1 + TIE)
    equal = np.flatnonzero(~chosen & (gain >= cut * (1 - TIE)))
    chosen[equal[: count - int(chosen.sum())]] = True
    return few + np.bincount(component[chosen], minlength=len(few))
