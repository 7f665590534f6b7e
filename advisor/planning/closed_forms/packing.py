"""Many components on fewer cores: groups by balancing, by fitting turns into a period, then by moves and exchanges.

Good, not proved best: `turns.period_bound` tells how good.
"""

from __future__ import annotations

import bisect
import heapq

import numpy as np

from advisor.planning.asked.demand import Demand, Floats, Ints
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.closed_forms.throughput import best_period, fewest_within, least_cores
from advisor.planning.closed_forms.turns import Grouping, cycles, grouping, period_bound, turns

ALL_COUNTS = 24  # up to so many cores every number of groups is tried
MANY = 20_000  # components beyond which fewer numbers of groups are tried and moves are not
PAIRS_MAX = 2_000_000  # pairs of components looked at in one round of improvement
FITS = 10  # of the bisection for the period into which turns are fitted: a thousandth of its bracket
POLISHES = 4  # times that groups are improved for their cores and given cores anew
ROUNDS_MAX = 300  # of improvement: each lowers one slowest group
SIZE_STEPS = 40  # of the bisection for the groups' cores where no closed form exists: the bracket falls to 1e-12
GAIN = 1e-9  # a move must shorten the slowest cycle by this share: no endless rounds over rounding


def packed(demand: Shareable, cores: int) -> Grouping:
    """Return a grouping on at most `cores` cores with a short period. Cost O(n log(n)) a number of groups tried."""
    best: tuple[float, Ints, Ints] | None = None
    alone = fewest_within(demand, np.full(len(demand), period_bound(demand, cores))).clip(max=cores)
    for count in _counts(alone, cores):
        for width in _widths(demand, alone, cores // count):
            group = _balanced(turns(demand, width).seconds, count)
            sizes = _sizes(demand, group, count, cores)
            if sizes is None:
                continue
            period = float(cycles(group, turns(demand, sizes[group]).seconds, count).max())
            if best is None or period < best[0] * (1 - GAIN):
                best = period, group, sizes
    if best is None:  # minima too large for any other: one group of all cores always fits
        best = 0.0, np.zeros(len(demand), np.int64), np.array([cores])
    _, group, sizes = best
    found = grouping(demand, group, sizes, exact=False)
    if len(demand) > MANY:
        return found
    fitted = _fitted(demand, cores, found.period_s)
    return min((_polished(demand, cores, some) for some in (found, fitted) if some), key=lambda some: some.period_s)


def _polished(demand: Shareable, cores: int, found: Grouping) -> Grouping:
    """Return the grouping after improving the groups for their cores and giving them cores anew, in turn."""
    for _ in range(POLISHES):
        group = _improved(demand, found.group, found.sizes)
        again = _sizes(demand, group, len(found.sizes), cores)
        better = grouping(demand, group, found.sizes if again is None else again, exact=False)
        if better.period_s >= found.period_s * (1 - GAIN):
            break
        found = better
    return found


def _fitted(demand: Shareable, cores: int, period_s: float) -> Grouping | None:
    """Return a grouping with a shorter period than the one given, found by fitting turns into periods, or None."""
    best: Grouping | None = None
    shortest, longest = period_bound(demand, cores), period_s * (1 - GAIN)
    for _ in range(FITS):
        middle = (shortest + longest) / 2
        found = _fit(demand, cores, middle)
        if found is None:
            shortest = middle
        else:
            best, longest = grouping(demand, *found, exact=False), middle
    return best


def _fit(demand: Shareable, cores: int, period_s: float) -> tuple[Ints, Ints] | None:
    """Return groups and sizes whose cycles fit the period, or None when they take more cores than there are.

    Widest first: each component goes where the least time is left after it, into the groups that wide components leave
    open, then into those of one core, else into a group of its own.
    """
    rows = np.arange(len(demand))
    widths = _least_sizes(demand, rows, demand.low, cores, period_s)
    if widths is None:
        return None
    unique, kind = np.unique(widths, return_inverse=True)
    seconds = _on_sizes(demand, unique)
    group, sizes, spare = np.zeros(len(demand), np.int64), list[int](), cores
    open_s, open_kind, open_group = np.zeros(cores), np.zeros(cores, np.int64), list[int]()  # of several cores each
    narrow: list[tuple[float, int]] = []  # (seconds left, group) of one core each, sorted
    for row in np.lexsort((-seconds[rows, kind], -widths)).tolist():
        left = open_s[: len(open_group)] - seconds[row, open_kind[: len(open_group)]]
        fits = np.where(left >= 0, left, np.inf)
        place = int(fits.argmin()) if len(fits) else -1
        needs, own = float(seconds[row, kind[row]]), int(widths[row])
        if place >= 0 and np.isfinite(fits[place]):
            group[row], open_s[place] = open_group[place], left[place]
            continue
        spot = bisect.bisect_left(narrow, (needs, -1)) if own == 1 else len(narrow)
        if spot < len(narrow):
            rest, group[row] = narrow.pop(spot)
        else:
            rest, group[row] = period_s, len(sizes)
            sizes.append(own)
            spare -= own
            if spare < 0:
                return None
        if own == 1:
            bisect.insort(narrow, (rest - needs, int(group[row])))
        else:
            open_s[len(open_group)], open_kind[len(open_group)] = rest - needs, kind[row]
            open_group.append(int(group[row]))
    return group, np.array(sizes)


def _counts(alone: Ints, cores: int) -> list[int]:
    """Return the numbers of groups to try: one core each, as many as large components leave, and ever fewer.

    `alone` is how many cores each component would need for the period of the bound.
    """
    if cores <= ALL_COUNTS and len(alone) <= MANY:
        return list(range(min(cores, len(alone)), 0, -1))
    left = cores - int((alone - 1).sum())
    counts = {min(cores, len(alone)), left, cores - cores // 16, cores - cores // 4, cores // 2, 1}
    if len(alone) <= MANY:
        counts |= {left - 1, left + 1, left - cores // 32, cores - cores // 8, cores // 4, cores // 8, cores // 32}
    return sorted((count for count in counts if 1 <= count <= min(cores, len(alone))), reverse=True)


def _widths(demand: Shareable, alone: Ints, width: int) -> list[Ints]:
    """Return the sizes of groups to balance for: all equal, and with larger ones for large components."""
    equal = np.maximum(demand.low, width)
    larger = np.maximum(equal, alone)
    return [equal, larger] if (larger > equal).any() else [equal]


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


def _sizes(demand: Shareable, group: Ints, count: int, cores: int) -> Ints | None:
    """Return the groups' cores with the shortest period, or None when their minima do not fit."""
    low = np.ones(count, np.int64)
    np.maximum.at(low, group, demand.low)
    if low.sum() > cores:
        return None
    if isinstance(demand, Demand) and demand.single and int(demand.high.min()) >= cores:
        # A sum of Amdahl curves is one: the groups are given cores as components are.
        serial, parallel = cycles(group, demand.serial_s, count), cycles(group, demand.parallel_s, count)
        groups = Demand(serial, parallel, low, np.full(count, cores), np.ones_like(low))
        return least_cores(groups, best_period(groups, cores))[0]
    longest, shortest = (
        float(cycles(group, turns(demand, size[group]).seconds, count).max()) for size in (low, np.full(count, cores))
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


def _least_sizes(demand: Shareable, group: Ints, low: Ints, cores: int, period_s: float) -> Ints | None:
    """Return the fewest cores of each group whose cycle is at most the period, or None when there are none."""
    below, enough = low - 1, np.full(len(low), cores)
    if (cycles(group, turns(demand, enough[group]).seconds, len(low)) > period_s).any():
        return None
    while (enough - below > 1).any():
        middle = (below + enough + 1) // 2
        fits = cycles(group, turns(demand, middle[group]).seconds, len(low)) <= period_s
        enough, below = np.where(fits, middle, enough), np.where(fits, below, np.minimum(middle, enough - 1))
    return enough


def _improved(demand: Shareable, group: Ints, sizes: Ints) -> Ints:
    """Return the groups after moves and exchanges that shorten the slowest cycle."""
    for _ in range(ROUNDS_MAX):
        better = _relieved(demand, group, sizes)
        if better is None:
            break
        group = better
    return group


def _relieved(demand: Shareable, group: Ints, sizes: Ints) -> Ints | None:
    """Return the groups after the move, or else the exchange, that relieves the slowest group most; None without."""
    seconds = turns(demand, sizes[group]).seconds
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
    coming = turns(demand.rows(others), np.full(len(others), sizes[slowest])).seconds
    here = loads[slowest] - seconds[members][:, None] + coming
    there = loads[theirs] - seconds[others] + elsewhere[:, theirs]
    after = np.maximum(here, there)
    member, other = divmod(int(after.argmin()), len(others))
    if not after[member, other] < enough:
        return None
    moved[members[member]], moved[others[other]] = theirs[other], slowest
    return moved


def _on_sizes(demand: Shareable, sizes: Ints) -> Floats:
    """Return the turns of each component on each group's size, (n, k)."""
    unique, inverse = np.unique(sizes, return_inverse=True)
    columns = [turns(demand, np.full(len(demand), size, np.int64)).seconds for size in unique]
    return np.stack(columns, axis=1)[:, inverse]
