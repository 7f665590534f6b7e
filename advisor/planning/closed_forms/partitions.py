"""The best grouping of few components: dynamic programming over all subsets, a layer of subsets at once.

A group of a subset is the one with its first component, so that each partition is looked at once. The rest lies among the
components after that one: subsets are worked off by their first component, the last one first, each layer as one array of
all its pairs (subset, group): 3**n / 2 pairs in n steps.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.closed_forms.turns import Grouping, grouping, period_bound, turns

EXACT_COMPONENTS = 10  # 3**10 / 2 pairs of subsets: a millisecond a pass, some twenty passes
CELLS_MAX = 1_000_000  # subsets times sizes of groups: some tens of milliseconds
FAR = 1e18  # cores of a group that cannot be: sums of it stay exact enough to be recognised


def few_enough(components: int, cores: int) -> bool:
    """Return whether all partitions are looked at."""
    return components <= EXACT_COMPONENTS and (1 << components) * cores <= CELLS_MAX


class Partitions:
    """Every subset of the components, as a bit mask, with its cycle on 1 .. P cores."""

    def __init__(self, demand: Shareable, cores: int) -> None:
        self.demand, self.cores = demand, cores
        n = len(demand)
        on_sizes = [turns(demand, np.full(n, size, np.int64)) for size in range(1, cores + 1)]
        self.cycle_s = _sums(np.stack([some.seconds for some in on_sizes], axis=1))
        self.latency_s = _sums(np.stack([some.stay_s for some in on_sizes], axis=1))

    def best_period(self, cores: int | None = None) -> float:
        """Return the shortest period of any partition on at most `cores` cores, P where none are given.

        It is one of the cycles: bisection over those between a bound and the cycle of all on all.
        """
        given = self.cores if cores is None else cores
        least = period_bound(self.demand, given) * (1 - TIE)
        most = float(self.cycle_s[-1, given - 1])
        values = np.unique(self.cycle_s[(self.cycle_s >= least) & (self.cycle_s <= most)])
        low, high = -1, len(values) - 1  # all in turn on all cores fit
        while high - low > 1:
            middle = (low + high) // 2
            if self.needed(float(values[middle])) <= given:
                high = middle
            else:
                low = middle
        return float(values[high])

    def needed(self, period_s: float) -> float:
        """Return the fewest cores that sustain the period; FAR or more where none do."""
        size = self._sizes(period_s)
        fewest = np.zeros(len(size))
        for subsets, groups, rests, starts in _layers(len(self.demand)):
            fewest[subsets] = np.minimum.reduceat(size[groups] + fewest[rests], starts)
        return float(fewest[-1])

    def fewest(self, period_s: float) -> Grouping:
        """Return the partition that sustains the period on the fewest cores, then with the lowest latency."""
        size = self._sizes(period_s * (1 + TIE))
        place = np.minimum(size, self.cores).astype(np.int64) - 1
        latency = np.take_along_axis(self.latency_s, place[:, None], axis=1)[:, 0]
        fewest, least, chosen = np.zeros(len(size)), np.zeros(len(size)), np.zeros(len(size), np.int64)
        for subsets, groups, rests, starts in _layers(len(self.demand)):
            cores, seconds = size[groups] + fewest[rests], latency[groups] + least[rests]
            counts = np.diff(np.append(starts, len(groups)))
            fewest[subsets] = np.minimum.reduceat(cores, starts)
            seconds = np.where(cores == np.repeat(fewest[subsets], counts), seconds, np.inf)
            shortest = np.minimum.reduceat(seconds, starts)
            order = np.where(
                seconds <= np.repeat(shortest * (1 + TIE), counts), np.arange(len(groups)), len(groups) - 1
            )
            pick = np.minimum.reduceat(order, starts)
            least[subsets], chosen[subsets] = seconds[pick], groups[pick]
        return self._grouping(chosen, size)

    def _sizes(self, period_s: float) -> Floats:
        """Return the fewest cores of each subset as one group, (2**n,)."""
        fits = self.cycle_s <= period_s
        return np.where(fits.any(axis=1), fits.argmax(axis=1) + 1.0, FAR)

    def _grouping(self, chosen: Ints, size: Floats) -> Grouping:
        n = len(self.demand)
        group, mask = np.zeros(n, np.int64), (1 << n) - 1
        sizes: list[int] = []
        while mask:
            part = int(chosen[mask])
            group[[row for row in range(n) if part >> row & 1]] = len(sizes)
            sizes.append(int(size[part]))
            mask ^= part
        return grouping(self.demand, group, np.array(sizes), exact=True)


def _sums(values: Floats) -> Floats:
    """Return the sums over all subsets of rows: (n, m) -> (2**n, m)."""
    table = np.zeros((1 << len(values), values.shape[1]))
    for row, value in enumerate(values):
        table[1 << row : 2 << row] = table[: 1 << row] + value
    return table


@lru_cache(EXACT_COMPONENTS)
def _layers(n: int) -> tuple[tuple[Ints, Ints, Ints, Ints], ...]:
    """Return, for the first components n - 1 .. 0, subsets, and for all their pairs the group and the rest.

    The pairs of a subset begin at its start, in order of the group's others.
    """
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    for first in range(n - 1, -1, -1):
        others = np.arange(1 << (n - 1 - first))
        parts = [_submasks(mask) for mask in others.tolist()]
        counts = np.array([len(part) for part in parts])
        part = np.concatenate(parts)
        whole = np.repeat(others, counts)
        bit = 1 << first
        found.append(
            (others << (first + 1) | bit, part << (first + 1) | bit, (whole ^ part) << (first + 1), np.cumsum(counts) - counts)
        )
    return tuple(found)


def _submasks(mask: int) -> Ints:
    """Return all subsets of a bit mask, the empty one first."""
    found = np.zeros(1, np.int64)
    while mask:
        found = np.concatenate([found, found | (mask & -mask)])
        mask &= mask - 1
    return found
