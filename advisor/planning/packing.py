"""Many components on fewer cores: groups by balancing, then by moves and exchanges. Good, not proved best."""

from __future__ import annotations

import heapq

import numpy as np

from advisor.planning.demand import Demand, Floats, Ints
from advisor.planning.throughput import best_period, fewest_within, least_cores
from advisor.planning.turns import Grouping, cycles, grouping, period_bound, turns

ALL_COUNTS = 24  # up to so many cores every number of groups is tried
MANY = 20_000  # components beyond which fewer numbers of groups are tried and moves are not
PAIRS_MAX = 2_000_000  # pairs of components looked at in one round of improvement
ROUNDS_MAX = 300  # of improvement: each lowers one slowest group
SIZE_STEPS = 40  # of the bisection for the groups' cores where no closed form exists: the bracket falls to 1e-12
GAIN = 1e-9  # a move must shorten the slowest cycle by this share: no endless rounds over rounding


def packed(demand: Demand, cores: int) -> Grouping:
    """Return a grouping on at most `cores` cores with a short period. Cost O(n log(n)) a number of groups tried."""
    best: tuple[float, Ints, Ints] | None = None
    for count in _counts(demand, cores):
        for width in _widths(demand, cores, count):
            group = _balanced(turns(demand, width)[0], count)
            sizes = _sizes(demand, group, count, cores)
            if sizes is None:
                continue
            period = float(cycles(group, turns(demand, sizes[group])[0], count).max())
            if best is None or period < best[0] * (1 - GAIN):
                best = period, group, sizes
    if best is None:  # minima too large for any other: one group of all cores always fits
        best = 0.0, np.zeros(len(demand), np.int64), np.array([cores])
    _, group, sizes = best
    if len(demand) <= MANY:
        group = _improved(demand, group, sizes)
        again = _sizes(demand, group, len(sizes), cores)
        sizes = sizes if again is None else again
    return grouping(demand, group, sizes, exact=False)


def _counts(demand: Demand, cores: int) -> list[int]:
    """Return the numbers of groups to try: one core each, as many as large components leave, and ever fewer."""
    if cores <= ALL_COUNTS and len(demand) <= MANY:
        return list(range(cores, 0, -1))
    period = period_bound(demand, cores)
    large = fewest_within(demand, np.full(len(demand), period)).clip(max=cores)
    left = cores - int((large - 1).sum())
    counts = {cores, left, cores - cores // 16, cores - cores // 4, cores // 2, 1}
    if len(demand) <= MANY:
        counts |= {left - 1, left + 1, cores - cores // 8, cores // 4, cores // 8, cores // 32}
    return sorted((count for count in counts if 1 <= count <= cores), reverse=True)


def _widths(demand: Demand, cores: int, count: int) -> list[Ints]:
    """Return the sizes of groups to balance for: all equal, and with larger ones for large components."""
    equal = np.maximum(np.full(len(demand), cores // count, np.int64), demand.low)
    period = period_bound(demand, cores)
    large = np.maximum(equal, fewest_within(demand, np.full(len(demand), period)).clip(max=cores))
    return [equal, large] if (large > equal).any() else [equal]


def _balanced(seconds: Floats, count: int) -> Ints:
    """Return groups by the longest-first rule: each component to the group with the least so far."""
    order = np.argsort(-seconds, kind="stable")
    group = np.zeros(len(seconds), np.int64)
    heap = [(0.0, number) for number in range(count)]
    weights = seconds.tolist()
    for row in order.tolist():
        load, number = heap[0]
        group[row] = number
        heapq.heapreplace(heap, (load + weights[row], number))
    return group


def _sizes(demand: Demand, group: Ints, count: int, cores: int) -> Ints | None:
    """Return the groups' cores with the shortest period, or None when their minima do not fit."""
    low = np.ones(count, np.int64)
    np.maximum.at(low, group, demand.low)
    if low.sum() > cores:
        return None
    if demand.single and int(demand.high.min()) >= cores:
        # A sum of Amdahl curves is one: the groups are given cores as components are.
        serial, parallel = cycles(group, demand.serial_s, count), cycles(group, demand.parallel_s, count)
        groups = Demand(serial, parallel, low, np.full(count, cores), np.ones_like(low))
        return least_cores(groups, best_period(groups, cores))[0]
    longest, shortest = (
        float(cycles(group, turns(demand, size[group])[0], count).max()) for size in (low, np.full(count, cores))
    )
    sizes = low
    for _ in range(SIZE_STEPS):
        middle = (longest * shortest) ** 0.5
        found = _least_sizes(demand, group, low, cores, middle)
        if found is not None and found.sum() <= cores:
            longest, sizes = middle, found
        else:
            shortest = middle
    return sizes


def _least_sizes(demand: Demand, group: Ints, low: Ints, cores: int, period_s: float) -> Ints | None:
    """Return the fewest cores of each group whose cycle is at most the period, or None when there are none."""
    below, enough = low - 1, np.full(len(low), cores)
    if (cycles(group, turns(demand, enough[group])[0], len(low)) > period_s).any():
        return None
    while (enough - below > 1).any():
        middle = (below + enough + 1) // 2
        fits = cycles(group, turns(demand, middle[group])[0], len(low)) <= period_s
        enough, below = np.where(fits, middle, enough), np.where(fits, below, np.minimum(middle, enough - 1))
    return enough


def _improved(demand: Demand, group: Ints, sizes: Ints) -> Ints:
    """Return the groups after moves and exchanges that shorten the slowest cycle."""
    for _ in range(ROUNDS_MAX):
        better = _relieved(demand, group, sizes)
        if better is None:
            break
        group = better
    return group


def _relieved(demand: Demand, group: Ints, sizes: Ints) -> Ints | None:
    """Return the groups after the move, or else the exchange, that relieves the slowest group most; None without."""
    seconds = turns(demand, sizes[group])[0]
    loads = cycles(group, seconds, len(sizes))
    slowest = int(loads.argmax())
    enough = loads[slowest] * (1 - GAIN)
    members, others = np.flatnonzero(group == slowest), np.flatnonzero(group != slowest)
    if len(members) < 2 or not len(others) or len(members) * len(demand) > PAIRS_MAX:
        return None
    moved = group.copy()
    elsewhere = _on_sizes(demand.rows(members), sizes)
    after = np.maximum(loads[slowest] - seconds[members][:, None], loads + elsewhere)
    after[:, slowest] = np.inf
    member, target = divmod(int(after.argmin()), len(sizes))
    if after[member, target] < enough:
        moved[members[member]] = target
        return moved
    theirs = group[others]
    coming = turns(demand.rows(others), np.full(len(others), sizes[slowest]))[0]
    here = loads[slowest] - seconds[members][:, None] + coming
    there = loads[theirs] - seconds[others] + elsewhere[:, theirs]
    after = np.maximum(here, there)
    member, other = divmod(int(after.argmin()), len(others))
    if not after[member, other] < enough:
        return None
    moved[members[member]], moved[others[other]] = theirs[other], slowest
    return moved


def _on_sizes(demand: Demand, sizes: Ints) -> Floats:
    """Return the turns of each component on each group's size, (n, k)."""
    unique, inverse = np.unique(sizes, return_inverse=True)
    columns = [turns(demand, np.full(len(demand), size, np.int64))[0] for size in unique]
    return np.stack(columns, axis=1)[:, inverse]
