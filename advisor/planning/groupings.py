"""Components that take turns on the cores of a group: the shortest period, exactly for few, well packed for many.

A group of m cores serves its components one after the other; while one runs it has all m cores, on its best shape of at
most m. The group's cycle is the sum of the turns of a record, and the slowest cycle is the period of the network.

Of few components all partitions are looked at, by dynamic programming over subsets. Many are packed into periods, on
numbers of cores from a fixed list: whoever has more cores has tried all that whoever has fewer did.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from advisor.planning.demand import Places
from advisor.planning.partitions import EXACT_COMPONENTS
from advisor.planning.requests import Floats, Ints

ALL_COUNTS, RATIO = 48, 1.05  # numbers of cores that many components are packed on: all up to here, then so far apart
PACKED_MAX = 20_000  # components beyond which nothing is packed: seconds
WIDTHS_MAX = 60  # components up to which each is tried in each group
IMPROVED_MAX = 24  # components up to which the moves of the search follow
GAIN = 1e-9  # of a cycle: a smaller one is rounding
FITS = 12  # bisections for the period into which turns are packed: the bracket falls to a thousandth


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


def cycles(places: Places, found: Grouping) -> Floats:
    """Return the seconds of all turns of each group for one record."""
    turns = places.at(found.widths)[0]
    return np.bincount(found.group, weights=turns, minlength=len(found.sizes)).astype(np.float64, copy=False)


# --- many components: packed --------------------------------------------------------------------------------------------


def counts_up_to(cores: int) -> list[int]:
    """Return the numbers of cores that many components are packed on, the same ones for every machine; least first."""
    found, last = list(range(1, min(cores, ALL_COUNTS) + 1)), float(ALL_COUNTS)
    while int(last * RATIO) <= cores:
        last *= RATIO
        found.append(int(last))
    return found


def packed(places: Places, cores: int, shortest_s: float, longest_s: float) -> Grouping | None:
    """Return a grouping on at most `cores` cores whose period is below `longest_s`, as short as was found, or None.

    Turns are packed into ever shorter periods, no shorter than `shortest_s`. Cost O(n log n) a period.
    """
    last = int(np.searchsorted(places.sizes, cores, side="right")) - 1
    if len(places.turn_s) > PACKED_MAX or shortest_s >= longest_s:
        return None
    best = numbered(np.zeros(len(places.turn_s), np.int64), places.sizes[[last]])
    longest = min(longest_s, float(places.turn_s[:, last].sum()))
    for _ in range(FITS):
        middle = (shortest_s * longest) ** 0.5
        fitted = _fit(places, cores, middle)
        if fitted is None:
            shortest_s = middle
        else:
            best, longest = fitted, min(middle, float(cycles(places, fitted).max()))
    if len(best.group) <= IMPROVED_MAX:
        best = _improved(places, best, cores)
    return best if float(cycles(places, best).max()) < longest_s else None


def _improved(places: Places, found: Grouping, cores: int) -> Grouping:
    """Return the grouping after the moves of `neighbours` that shorten the slowest cycle most, as long as one does."""
    while True:
        enough = float(cycles(places, found).max()) * (1 - GAIN)
        best = min(neighbours(found, cores), key=lambda one: float(cycles(places, one).max()), default=found)
        if not float(cycles(places, best).max()) < enough:
            return found
        found = best


def _fit(places: Places, cores: int, period_s: float) -> Grouping | None:
    """Return a grouping whose cycles fit the period, or None when they take more cores than there are.

    Widest first, then longest: each component goes where the least time is left after it, into the groups that are open,
    else into one of its own.
    """
    fits = places.turn_s <= period_s
    if not fits[:, -1].all():
        return None
    width = fits.argmax(axis=1)  # places of sizes
    rows = np.arange(len(width))
    turns: list[list[float]] = places.turn_s.tolist() if len(np.unique(width)) > 1 else []
    own, spare = places.turn_s[rows, width], cores
    group, sizes, wide = np.zeros(len(width), np.int64), list[int](), list[tuple[float, int, int]]()
    narrow: list[tuple[float, int]] = []  # (seconds left, group) of the smallest size, sorted
    smallest = int(width.min())
    order_: list[int] = np.lexsort((-own, -width)).tolist()
    for row in order_:
        at, needs = int(width[row]), float(own[row])
        place = -1
        for order, (left, _, size) in enumerate(wide):  # a few: components that need more than the smallest size
            rest = left - turns[row][size]
            if rest >= 0 and (place < 0 or rest < wide[place][0] - turns[row][wide[place][2]]):
                place = order
        if place >= 0:
            left, number, size = wide[place]
            group[row], wide[place] = number, (left - turns[row][size], number, size)
            continue
        spot = bisect.bisect_left(narrow, (needs, -1)) if at == smallest else len(narrow)
        if spot < len(narrow):
            left, number = narrow.pop(spot)
        else:
            left, number = period_s, len(sizes)
            sizes.append(int(places.sizes[at]))
            spare -= sizes[-1]
            if spare < 0:
                return None
        group[row] = number
        if at == smallest:
            bisect.insort(narrow, (left - needs, number))
        else:
            wide.append((left - needs, number, at))
    return numbered(group, np.array(sizes))


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
