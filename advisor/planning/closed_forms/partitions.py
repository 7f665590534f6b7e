"""The best grouping of few components: dynamic programming over all subsets, a layer of subsets at once.

A group of a subset is the one with its first component, so that each partition is looked at once. The rest lies among the
components after that one: subsets are worked off by their first component, the last one first, each layer as one array of
all its pairs (subset, group): 3**n / 2 pairs in n steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.closed_forms.turns import Grouping, grouping, period_bound, turns

EXACT_COMPONENTS = 10  # 3**10 / 2 pairs of subsets: a millisecond a pass, some twenty passes
CELLS_MAX = 1_000_000  # subsets times sizes of groups: some tens of milliseconds
SLACK = 1e-9  # of memory: the rounding of sums
FAR = 1e18  # cores of a group that cannot be: sums of it stay exact enough to be recognised


def few_enough(components: int, cores: int) -> bool:
    """Return whether all partitions are looked at."""
    return components <= EXACT_COMPONENTS and (1 << components) * cores <= CELLS_MAX


class Rooms(NamedTuple):
    """Nodes on which groups lie, a group on one of them, with the memory of all of its components.

    Attributes
    ----------
    full, full_size : int
        How many nodes are alike, and their cores.
    last_size : int
        Cores of one more, smaller node; 0 where there is none.
    needs : float64 array (n,)
        Memory of each component, as a share of a node's.
    """

    full: int
    full_size: int
    last_size: int
    needs: Floats


class Partitions:
    """Every subset of the components, as a bit mask, with its cycle on 1 .. P cores, P being those of the largest group."""

    def __init__(self, demand: Shareable, cores: int, rooms: Rooms | None = None) -> None:
        widest = cores if rooms is None else min(cores, rooms.full_size)
        self.demand, self.cores, self.rooms = demand, cores, rooms
        n = len(demand)
        on_sizes = [turns(demand, np.full(n, size, np.int64)) for size in range(1, widest + 1)]
        self.cycle_s = _sums(np.stack([some.seconds for some in on_sizes], axis=1))
        self.latency_s = _sums(np.stack([some.stay_s for some in on_sizes], axis=1))

    def best_period(self, cores: int | None = None) -> float:
        """Return the shortest period of any partition on at most `cores` cores, all where none are given; else infinite.

        It is one of the cycles: bisection over those between a bound and the longest that may be needed.
        """
        given = self.cores if cores is None else cores
        least = period_bound(self.demand, given) * (1 - TIE)
        # Without rooms all can be in turn on all cores.
        longest = np.inf if self.rooms is not None else float(self.cycle_s[-1, given - 1])
        values = np.unique(self.cycle_s[(self.cycle_s >= least) & (self.cycle_s <= longest) & (self.cycle_s < np.inf)])
        low, high = -1, len(values)
        while high - low > 1:
            middle = (low + high) // 2
            if self.needed(float(values[middle])) <= given:
                high = middle
            else:
                low = middle
        return float(values[high]) if high < len(values) else np.inf

    def needed(self, period_s: float) -> float:
        """Return the fewest cores that sustain the period; FAR or more where none do."""
        fewest = self._fewest(period_s)
        if self.rooms is None:
            return float(fewest[-1])
        full, last = self._in_rooms(fewest)
        nodes = np.zeros(len(full))
        for subsets, groups, rests, starts in layers(len(self.demand)):
            one = np.where(full[groups] < FAR, 1.0, FAR)
            nodes[subsets] = np.minimum.reduceat(one + nodes[rests], starts)
        if not ((last < FAR) & (nodes[::-1] <= self.rooms.full)).any():
            return FAR
        return float(self._across(full, last)[0])

    def _fewest(self, period_s: float) -> Floats:
        """Return the fewest cores of each subset on one node, (2**n,)."""
        size = self._sizes(period_s)
        fewest = np.zeros(len(size))
        for subsets, groups, rests, starts in layers(len(self.demand)):
            fewest[subsets] = np.minimum.reduceat(size[groups] + fewest[rests], starts)
        return fewest

    def _in_rooms(self, fewest: Floats) -> tuple[Floats, Floats]:
        """Return each subset's cores on one of the full nodes, and on the last one; FAR where it does not fit."""
        rooms = self.rooms
        assert rooms is not None
        fits = _sums(rooms.needs[:, None])[:, 0] <= 1 + SLACK
        full = np.where(fits & (fewest <= rooms.full_size), fewest, FAR)
        return full, np.where(fits & (fewest <= rooms.last_size), fewest, FAR)

    def _across(self, full: Floats, last: Floats) -> tuple[float, list[int]]:
        """Return the fewest cores over all nodes, and the subsets of the nodes; none where nothing fits."""
        rooms, n = self.rooms, len(self.demand)
        assert rooms is not None
        least = [np.where(np.arange(len(full)) == 0, 0.0, FAR)]
        for _ in range(min(rooms.full, n)):
            before, after = least[-1], least[-1].copy()
            for subsets, groups, rests, starts in layers(n):
                after[subsets] = np.minimum(after[subsets], np.minimum.reduceat(full[groups] + before[rests], starts))
            least.append(after)
        total = last + least[-1][::-1]  # a subset on the last node, the rest on the others
        best = int(total.argmin())
        if total[best] >= FAR:
            return FAR, []
        found, rest = [best] if best else [], len(full) - 1 - best
        for before, after in zip(least[-2::-1], least[:0:-1], strict=True):
            if not rest:
                break
            if after[rest] == before[rest]:
                continue
            some = next(
                mask for mask in _submasks(rest).tolist() if mask and full[mask] + before[rest ^ mask] == after[rest]
            )
            found.append(some)
            rest ^= some
        return float(total[best]), found

    def fewest(self, period_s: float) -> Grouping:
        """Return the partition that sustains the period on the fewest cores, then, on one node, with the lowest latency.

        The period is one that partitions sustain (`best_period`).
        """
        size = self._sizes(period_s * (1 + TIE))
        place = np.minimum(size, self.cycle_s.shape[1]).astype(np.int64) - 1
        latency = np.take_along_axis(self.latency_s, place[:, None], axis=1)[:, 0]
        fewest, least, chosen = np.zeros(len(size)), np.zeros(len(size)), np.zeros(len(size), np.int64)
        for subsets, groups, rests, starts in layers(len(self.demand)):
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
        parts = [len(size) - 1]
        if self.rooms is not None:
            _, parts = self._across(*self._in_rooms(fewest))
        return self._grouping(chosen, size, parts)

    def lowest(self, period_s: float) -> Floats:
        """Return the lowest latency of partitions that sustain the period on at most 0 .. P cores, (P + 1,); one node.

        Cost O(3**n P**2).
        """
        return self._lowest(period_s)[-1]

    def with_lowest(self, period_s: float, counts: Sequence[int]) -> list[Grouping]:
        """Return the partitions of `lowest` for some numbers of cores."""
        table, stay = self._lowest(period_s), self._stays(period_s)
        return [self._traced(table, stay, count) for count in counts if np.isfinite(table[-1, count])]

    def _stays(self, period_s: float) -> Floats:
        return np.where(self.cycle_s <= period_s * (1 + TIE), self.latency_s, np.inf)

    def _lowest(self, period_s: float) -> Floats:
        """Return the lowest latency of each subset on at most 0 .. P cores, (2**n, P + 1)."""
        stay, most = self._stays(period_s), self.cycle_s.shape[1]
        table = np.full((len(stay), most + 1), np.inf)
        table[0] = 0.0
        for subsets, groups, rests, starts in layers(len(self.demand)):
            best, beside, here = np.full((len(subsets), most + 1), np.inf), table[rests], stay[groups]
            for size in range(1, most + 1):
                some = here[:, size - 1 : size] + beside[:, : most + 1 - size]
                np.minimum(best[:, size:], np.minimum.reduceat(some, starts, axis=0), out=best[:, size:])
            table[subsets] = best
        return table

    def _traced(self, table: Floats, stay: Floats, count: int) -> Grouping:
        group, sizes, rest, left = np.zeros(len(self.demand), np.int64), list[int](), len(stay) - 1, count
        while rest:
            first = rest & -rest
            value = table[rest, left] * (1 + TIE)
            some, size = next(
                (mask | first, size)
                for mask in _submasks(rest ^ first).tolist()
                for size in range(1, left + 1)
                if stay[mask | first, size - 1] + table[rest ^ (mask | first), left - size] <= value
            )
            group[[row for row in range(len(group)) if some >> row & 1]] = len(sizes)
            sizes.append(size)
            rest, left = rest ^ some, left - size
        return grouping(self.demand, group, np.array(sizes), exact=True)

    def _sizes(self, period_s: float) -> Floats:
        """Return the fewest cores of each subset as one group, (2**n,)."""
        fits = self.cycle_s <= period_s
        return np.where(fits.any(axis=1), fits.argmax(axis=1) + 1.0, FAR)

    def _grouping(self, chosen: Ints, size: Floats, parts: list[int]) -> Grouping:
        n = len(self.demand)
        group = np.zeros(n, np.int64)
        sizes: list[int] = []
        for mask in parts:
            rest = mask
            while rest:
                part = int(chosen[rest])
                group[[row for row in range(n) if part >> row & 1]] = len(sizes)
                sizes.append(int(size[part]))
                rest ^= part
        return grouping(self.demand, group, np.array(sizes), exact=True)


def _sums(values: Floats) -> Floats:
    """Return the sums over all subsets of rows: (n, m) -> (2**n, m)."""
    table = np.zeros((1 << len(values), values.shape[1]))
    for row, value in enumerate(values):
        table[1 << row : 2 << row] = table[: 1 << row] + value
    return table


@lru_cache(EXACT_COMPONENTS)
def layers(n: int) -> tuple[tuple[Ints, Ints, Ints, Ints], ...]:
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
            (
                others << (first + 1) | bit,
                part << (first + 1) | bit,
                (whole ^ part) << (first + 1),
                np.cumsum(counts) - counts,
            )
        )
    return tuple(found)


def _submasks(mask: int) -> Ints:
    """Return all subsets of a bit mask, the empty one first."""
    found = np.zeros(1, np.int64)
    while mask:
        found = np.concatenate([found, found | (mask & -mask)])
        mask &= mask - 1
    return found
