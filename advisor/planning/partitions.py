"""Few components that take turns on the cores of groups: every partition is looked at, by dynamic programming over subsets.

A subset is a bit mask; `cycle` (2**n, M) has the seconds of all turns of each as one group on 1 .. M cores. Kernels:
`advisor.kernels` says what they may do.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from advisor import kernels
from advisor.planning.pieces import PATIENCE, TIE
from advisor.planning.requests import Floats, Ints

EXACT_COMPONENTS = 10  # 3**10 / 2 pairs of subsets: a tenth of a millisecond a pass, some thirty passes
CELLS_MAX = 500_000  # subsets times sizes of groups: some ten milliseconds; sizes beyond are not shared
NEAR = 1e-4  # of a period: nearer, one threshold after the other is tried


def fewest_sizes(cycle, cores, period, sizes):
    """Fill `sizes` (2**n,) with the fewest cores on which each subset's cycle is within the period; cores + 1 where none."""
    for subset in range(1, len(sizes)):
        low, high = -1, cores
        while high - low > 1:
            middle = (low + high) // 2
            if cycle[subset, middle] <= period:
                high = middle
            else:
                low = middle
        sizes[subset] = high + 1


def fewest_cores(cycle, cores, period, sizes, fewest, part):
    """Return the fewest cores that sustain the period, more than there are where none do; `part` gets each subset's group."""
    fewest_sizes(cycle, cores, period, sizes)
    for subset in range(1, len(sizes)):
        first = subset & -subset
        others = subset ^ first
        rest, best, group = others, sizes[subset], subset
        while rest:
            rest = (rest - 1) & others
            some = rest | first
            total = sizes[some] + fewest[subset ^ some]
            if total < best:
                best, group = total, some
        fewest[subset], part[subset] = best, group
    return fewest[len(sizes) - 1]


def longest_cycle(cycle, sizes, part):
    """Return the longest cycle of the partition that `fewest_cores` found."""
    subset, longest = len(sizes) - 1, 0.0
    while subset:
        group = part[subset]
        longest = max(longest, cycle[group, sizes[group] - 1])
        subset ^= group
    return longest


def shortest_cycle(cycle, cores, least, longest, sizes, fewest, part):
    """Return the shortest period of all partitions where it is at most `longest`, else infinity; none is below `least`."""
    if fewest_cores(cycle, cores, longest, sizes, fewest, part) > cores:
        return np.inf
    high = longest_cycle(cycle, sizes, part)
    while high - least > NEAR * high:
        middle = 0.5 * (least + high)
        if fewest_cores(cycle, cores, middle, sizes, fewest, part) <= cores:
            high = longest_cycle(cycle, sizes, part)
        else:
            least = middle
    while high > least and fewest_cores(cycle, cores, high * (1.0 - TIE), sizes, fewest, part) <= cores:
        high = longest_cycle(cycle, sizes, part)
    return high


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
            stay = stays[some, min(sizes[some], cores) - 1] + summed[left]
            if best < 0 or total < fewest[subset] or (total == fewest[subset] and stay < summed[subset]):
                best, fewest[subset], summed[subset] = some, total, stay
            if not rest:
                break
            rest = (rest - 1) & others
        part[subset] = best
    return fewest[len(sizes) - 1]


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    table, some, whole = np.ones((2, 1)), np.ones(2), np.ones(2, np.int64)
    yield "fewest_cores", (table, 1, 1.0, whole, whole, whole)
    yield "shortest_cycle", (table, 1, 1.0, 1.0, whole, whole, whole)
    yield "best_partition", (table, table, 1, 1.0, whole, whole, some, whole)


KERNELS = kernels.Source(__name__, (fewest_cores, shortest_cycle, best_partition), _examples, patience=PATIENCE)


class Partitions:
    """Every subset of few components with its cycle on 1 .. `cores` cores, by turns and stays (n, >= cores)."""

    def __init__(self, turn_s: Floats, stay_s: Floats, cores: int) -> None:
        self._n, self._cores = len(turn_s), cores
        self._cycle, self._stay_s = _sums(turn_s[:, :cores]), stay_s[:, :cores]
        self._whole = np.zeros((3, 1 << self._n), np.int64)

    def best_period(self, longest_s: float) -> float:
        """Return the shortest period on all of the cores where it is at most `longest_s`, else infinity."""
        single = self._cycle[1 << np.arange(self._n)]
        work = float((single * np.arange(1, self._cores + 1)).min(axis=1).sum())
        least = max(work / self._cores, float(single[:, -1].max())) * (1 - TIE)
        longest = min(longest_s, float(self._cycle[-1, -1]))
        if least > longest:
            return np.inf
        return KERNELS.shortest_cycle(self._cycle, self._cores, least, longest, *self._whole)

    def needed(self, period_s: float) -> int:
        """Return the fewest cores that sustain the period; more than there are where none do."""
        return int(KERNELS.fewest_cores(self._cycle, self._cores, period_s, *self._whole))

    def fewest(self, period_s: float) -> tuple[Ints, Ints]:
        """Return group (n,) and sizes of the partition of the period on the fewest cores, then with the shortest stays."""
        sizes, fewest, part = self._whole
        summed, stays = np.zeros(len(sizes)), _sums(self._stay_s)
        KERNELS.best_partition(self._cycle, stays, self._cores, period_s * (1 + TIE), sizes, fewest, summed, part)
        rest, group, found = len(sizes) - 1, np.zeros(self._n, np.int64), list[int]()
        while rest:
            some = int(part[rest])
            group[[row for row in range(self._n) if some >> row & 1]] = len(found)
            found.append(int(sizes[some]))
            rest ^= some
        return group, np.array(found)


def exact_sizes(components: int) -> int:
    """Return the most cores on which every partition of so many components is looked at; 0 for too many components."""
    return CELLS_MAX >> components if components <= EXACT_COMPONENTS else 0


def shortest_partition(turn_s: Floats, stay_s: Floats, cores: int, longest_s: float) -> tuple[Ints, Ints] | None:
    """Return group and sizes of the shortest period on so many cores, None where it is above `longest_s`."""
    subsets = Partitions(turn_s, stay_s, cores)
    period = subsets.best_period(longest_s)
    return subsets.fewest(period) if np.isfinite(period) else None


def _sums(values: Floats) -> Floats:
    """Return the sums over all subsets of rows: (n, m) -> (2**n, m)."""
    table = np.zeros((1 << len(values), values.shape[1]))
    for row, value in enumerate(values):
        table[1 << row : 2 << row] = table[: 1 << row] + value
    return table
