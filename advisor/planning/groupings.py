"""Components that take turns on the cores of a group: the shortest period, exactly for few, well packed for many.

A group of m cores serves its components one after the other; while one runs it has all m cores, on its best shape of at
most m. The group's cycle is the sum of the turns of a record, and the slowest cycle is the period of the network.

Of few components all partitions are looked at, by dynamic programming over subsets. Many are packed into periods, on
numbers of cores from a fixed list: whoever has more cores has tried all that whoever has fewer did.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from advisor.planning.partitions import EXACT_COMPONENTS
from advisor.planning.requests import Ints

ALL_COUNTS, RATIO = 48, 1.05  # numbers of cores that many components are packed on: all up to here, then so far apart
WIDTHS_MAX = 60  # components up to which each is tried in each group


class Grouping(NamedTuple):
    """Who shares which cores: the group of each component, numbered by their first components, and the cores of each."""

    group: Ints
    sizes: Ints

    @property
    def used(self) -> int:
        """Cores taken."""
        return int(self.sizes.sum())

    @property
    def widths(self) -> Ints:
        """Cores of each component's group, (n,)."""
        return self.sizes[self.group]


def numbered(group: Ints, sizes: Ints) -> Grouping:
    """Return a grouping with its groups numbered in text order, empty ones left out. Cost O(n log n)."""
    numbers, first, compact = np.unique(group, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Grouping(rank[compact].astype(np.int64), sizes[numbers[order]].astype(np.int64))


# --- many components: packed --------------------------------------------------------------------------------------------


def counts_up_to(cores: int) -> list[int]:
    """Return the numbers of cores that many components are packed on, the same ones for every machine; least first."""
    found, last = list(range(1, min(cores, ALL_COUNTS) + 1)), float(ALL_COUNTS)
    while int(last * RATIO) <= cores:
        last *= RATIO
        found.append(int(last))
    return found


# --- all groupings, one by one ------------------------------------------------------------------------------------------


def how_many(n: int, cores: int) -> float:
    """Return how many groupings there are on at most so many cores: partitions (Stirling) times sizes that fit."""
    if n > EXACT_COMPONENTS:
        return np.inf
    ways, total, choose = [1] + [0] * n, 0.0, 1.0
    for _ in range(n):
        ways = [0] + [k * ways[k] + ways[k - 1] for k in range(1, n + 1)]
    for k in range(1, min(n, cores) + 1):
        choose *= (cores - k + 1) / k
        total += ways[k] * choose
    return total


def all_groupings(n: int, cores: int) -> Iterator[Grouping]:
    """Give every grouping of n components on at most so many cores: partitions as labels, each new one the next number."""
    labels: list[list[int]] = [[0]]
    for _ in range(n - 1):
        labels = [[*some, new] for some in labels for new in range(min(max(some) + 2, cores))]
    for some in labels:
        group = np.array(some, np.int64)
        for sizes in _compositions(max(some) + 1, cores):
            yield Grouping(group, np.array(sizes, np.int64))


def _compositions(parts: int, cores: int) -> Iterator[list[int]]:
    """Give all ways to give at least one core to each part, at most `cores` in all."""
    if parts == 1:
        yield from ([size] for size in range(1, cores + 1))
        return
    for size in range(1, cores - parts + 2):
        yield from ([size, *rest] for rest in _compositions(parts - 1, cores - size))


# --- moves ------------------------------------------------------------------------------------------------------------------


def neighbours(found: Grouping, cores: int) -> Iterator[Grouping]:
    """Give the groupings next to one: cores moved, components moved, groups put together, cores left or taken."""
    group, sizes = found
    k, spare = len(sizes), cores - found.used
    for taker in range(k):
        for step in _steps(spare):
            yield Grouping(group, _changed(sizes, {taker: step}))
        for step in _steps(int(sizes[taker]) - 1):
            yield Grouping(group, _changed(sizes, {taker: -step}))
        for giver in range(k):
            if giver != taker:
                for step in _steps(int(sizes[giver]) - 1):
                    yield Grouping(group, _changed(sizes, {taker: step, giver: -step}))
    for one, other in combinations(range(k), 2):
        both = np.where(group == other, one, group)
        yield numbered(both, _changed(sizes, {one: int(sizes[other])}))
        if sizes[other] > 1 or sizes[one] > 1:
            yield numbered(both, np.maximum(_changed(sizes, {one: max(0, int(sizes[other] - sizes[one]))}), 1))
    if len(group) <= WIDTHS_MAX:
        yield from _moved(found, spare)


def _moved(found: Grouping, spare: int) -> Iterator[Grouping]:
    """Give the groupings in which one component is elsewhere: in another group, or in one of its own."""
    group, sizes = found
    k = len(sizes)
    for row in range(len(group)):
        for target in range(k):
            if target != group[row]:
                moved = group.copy()
                moved[row] = target
                yield numbered(moved, sizes)
        mine = int(sizes[group[row]])
        if (group == group[row]).sum() > 1:
            moved = group.copy()
            moved[row] = k
            if spare:
                yield numbered(moved, np.append(sizes, spare))
            for step in _steps(mine - 1):
                yield numbered(moved, np.append(_changed(sizes, {int(group[row]): -step}), step))


def _steps(most: int) -> list[int]:
    """Return numbers of cores to move: one, and halves of what there is."""
    return sorted({step for step in (1, most // 4, most // 2, most) if 1 <= step <= most})


def _changed(sizes: Ints, by: dict[int, int]) -> Ints:
    new = sizes.copy()
    for place_, change in by.items():
        new[place_] += change
    return new
