"""Few components that take turns on the cores of groups: every partition is looked at, by dynamic programming over subsets.

A subset is a bit mask; `cycle` (2**n, M) has the seconds of all turns of each as one group on 1 .. M cores. Kernels:
`advisor.kernels` says what they may do.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

import numpy as np

from advisor import kernels
from advisor.domain.vectors import Floats, Ints
from advisor.planning.packing import first_within, least_period
from advisor.planning.pieces import PATIENCE, TIE, best_places, shapes_within, shortest_period

EXACT_COMPONENTS = 11  # 3**11 / 2 pairs of subsets: a third of a millisecond a pass, some fifteen passes
CELLS_MAX = 500_000  # subsets times sizes of groups: some ten milliseconds; sizes beyond are not shared
NEAR = 1e-4  # of a period: nearer, one threshold after the other is tried


def fewest_sizes(cycle, cores, period, sizes):
    """Fill `sizes` (2**n,) with the fewest cores on which each subset's cycle is within the period; cores + 1 where none."""
    m = cycle.shape[1]
    for subset in range(1, len(sizes)):
        place = first_within(cycle[subset], m, period)
        sizes[subset] = place + 1 if place < m else cores + 1


def best_partition(cycle, stays, cores, period, sizes, fewest, summed, part):
    """Fill `part` with the partition that sustains the period on the fewest cores, then with the shortest stays in sum."""
    fewest_sizes(cycle, cores, period, sizes)
    for subset in range(1, len(sizes)):
        first = subset & -subset
        others = subset ^ first
        rest, best = others, -1
        while True:
            some = rest | first
            left = subset ^ some
            total = sizes[some] + fewest[left]
            stay = stays[some, min(sizes[some], stays.shape[1]) - 1] + summed[left]
            if best < 0 or total < fewest[subset] or (total == fewest[subset] and stay < summed[subset]):
                best, fewest[subset], summed[subset] = some, total, stay
            if not rest:
                break
            rest = (rest - 1) & others
        part[subset] = best
    return fewest[len(sizes) - 1]


def longest_cycle(cycle, sizes, part):
    """Return the longest cycle of the partition that `best_partition` found."""
    subset, longest = len(sizes) - 1, 0.0
    while subset:
        group = part[subset]
        longest = max(longest, cycle[group, sizes[group] - 1])
        subset ^= group
    return longest


def shortest_cycle(cycle, stays, cores, least, longest, sizes, fewest, summed, part):
    """Return the shortest period of all partitions where it is at most `longest`, else infinity; none is below `least`."""
    if best_partition(cycle, stays, cores, longest, sizes, fewest, summed, part) > cores:
        return inf
    high = longest_cycle(cycle, sizes, part)
    while high - least > NEAR * high:
        middle = 0.5 * (least + high)
        if best_partition(cycle, stays, cores, middle, sizes, fewest, summed, part) <= cores:
            high = longest_cycle(cycle, sizes, part)
        else:
            least = middle
    while (
        high > least and best_partition(cycle, stays, cores, high * (1.0 - TIE), sizes, fewest, summed, part) <= cores
    ):
        high = longest_cycle(cycle, sizes, part)
    return high


def subset_sums(values, m, sums):
    """Fill `sums` (2**n, m) with the sums over all subsets of the rows of `values`."""
    for j in range(m):
        sums[0, j] = 0.0
    for row in range(len(values)):
        for subset in range(1 << row):
            for j in range(m):
                sums[(1 << row) + subset, j] = sums[subset, j] + values[row, j]


def best_groups(turns, stays, cores, longest, target, group, found):
    """Return the shortest period on `cores` cores, or the target where one is sustained; infinity where neither is.

    `group` (n,) gets the group of each component, by first components, and `found` the cores of each group, 0 for none. None
    is looked for above `longest`.
    """
    n, period, m = len(turns), target * (1.0 + TIE), min(turns.shape[1], cores)
    subsets = 1 << n
    cycle, both, summed = np.empty((subsets, m)), np.empty((subsets, m)), np.zeros(subsets)
    sizes, fewest, part = np.zeros(subsets, np.int64), np.zeros(subsets, np.int64), np.zeros(subsets, np.int64)
    subset_sums(turns, m, cycle)
    subset_sums(stays, m, both)
    if target == 0.0:
        low, most = 0.0, min(longest, cycle[subsets - 1, m - 1])
        for row in range(n):
            low = max(low, turns[row, m - 1])
        least = least_period(turns, np.arange(1, m + 1), m, cores, low, most) * (1.0 - TIE) if low <= most else inf
        if least > most:
            return inf
        period = shortest_cycle(cycle, both, cores, least, most, sizes, fewest, summed, part)
    if period == inf or best_partition(cycle, both, cores, period * (1.0 + TIE), sizes, fewest, summed, part) > cores:
        return inf
    rest, number = subsets - 1, 0
    for row in range(n):
        found[row] = 0
    while rest:
        some = part[rest]
        for row in range(n):
            if some >> row & 1:
                group[row] = number
        found[number] = sizes[some]
        number += 1
        rest ^= some
    return period


def best_period(curves, limits, visits, cores, target, taken, turns, few, times, shapes, group, widths, found):
    """Fill `found` with the shortest period with dedicated cores and the shorter one of groups, infinity where there is none.

    With a `target` (0: none) that is the period looked for: on the fewest dedicated cores, and on fewer in groups. `taken`
    (2, n) gets the shapes of dedicated cores. `few` are sizes 1 .. M of groups, none where nothing is shared, and counts of
    instances; `times` (2, n, M) and `shapes` (2, n, M) get the tables of `best_places`; `group` and `widths` (n,) are as in
    `best_groups`.
    """
    sizes, numbers = few
    found[0], found[1], most, longest = inf, inf, cores, inf
    if target > 0.0:
        used, _ = shapes_within(curves, limits, visits, target * (1.0 + TIE), taken, turns)
        if 0 <= used <= cores:
            found[0], most = target, used - 1
    else:
        found[0] = shortest_period(curves, limits, visits, cores, taken, turns)
        longest = found[0] * (1.0 - TIE)
    least = 0
    for row in range(len(visits)):
        least = max(least, limits[0][row])
    if len(sizes) > 0 and most >= least:
        some = sizes[: min(most, len(sizes))]
        best_places(curves, limits, visits, some, numbers, False, times[0], times[1], shapes[0], shapes[1])
        found[1] = best_groups(times[0], times[1], most, longest, target, group, widths)


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    table, some, whole = np.ones((1, 1)), np.ones(1), np.ones(1, np.int64)
    yield "best_groups", (table, table, 1, 1.0, 1.0, whole, whole)
    limits = (whole, whole, whole, whole, np.ones((1, 3), np.int64), whole, -whole, some)
    taken, pair = np.ones((2, 1), np.int64), np.ones(2)
    times, shapes = np.ones((2, 1, 1)), np.ones((2, 1, 1), np.int64)
    yield "best_period", (
        (table, table, some), limits, some, 1, 1.0, taken, some, (whole, whole), times, shapes, whole, whole, pair,
    )  # fmt: skip


KERNELS = kernels.Source(__name__, (best_groups, best_period), _examples, inline=True, patience=PATIENCE)


def exact_sizes(components: int) -> int:
    """Return the most cores on which every partition of so many components is looked at; 0 for too many components."""
    return CELLS_MAX >> components if components <= EXACT_COMPONENTS else 0


def best_partition_of(
    turn_s: Floats, stay_s: Floats, cores: int, longest_s: float = np.inf, target_s: float = 0.0
) -> tuple[float, Ints, Ints] | None:
    """Return the shortest period, or the target on the fewest cores, with each component's group and each group's cores.

    `turn_s`, `stay_s` (n, m) on 1 .. m cores: no group has more. Of equals the fewest cores, then the shortest stays are taken.
    None where no period is at most `longest_s`, or none on so many cores is the target. Cost O(3^n) a threshold.
    """
    group, sizes = np.empty((2, len(turn_s)), np.int64)
    period = float(KERNELS.best_groups(turn_s, stay_s, cores, longest_s, target_s, group, sizes))
    return (period, group, sizes[: int(group.max()) + 1]) if period < np.inf else None
