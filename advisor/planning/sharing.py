"""Components that take turns on the cores of a group: groupings, the shortest period, and turns as moves of the search.

A group of m cores serves its components one after the other; while one runs it has all m cores, on its best shape of at
most m. The group's cycle is the sum of the turns of a record, and the slowest cycle is the period of the network. Of few
components all partitions are looked at; more are packed, on numbers of cores from a fixed list: whoever has more cores has
tried all that whoever has fewer did.

Where the judge is needed, all groupings are judged where they are few, else some along the way of rising cores. On each number
of cores that begins with one group of all and with the grouping of the shortest period, and joins and parts groups, moves
components and cores between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from advisor.planning.demand import TIE, Places, places_of
from advisor.planning.judge import Placed, PlanModel
from advisor.planning.packing import Packings
from advisor.planning.partitions import EXACT_COMPONENTS, best_partition_of, exact_sizes
from advisor.planning.requests import Ints
from advisor.planning.search import CHUNK, ROUNDS_MAX, Search

ALL_COUNTS, RATIO = 48, 1.05  # numbers of cores that many components are packed on: all up to here, then so far apart
WIDTHS_MAX = 60  # components up to which each is tried in each group
SHARED_MAX = 2_000  # groupings that are all judged: half a second where visits queue for turns
HELD_MAX = 4  # times that turns are planned with the contention of the plan before
QUEUED_MAX, QUEUED_WORK = 500, 1_000  # groupings judged of all and on a way where records queue: runs decide in the end
SHARED_WORK = 30_000  # groupings times components judged on a way by default: half a second


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


# --- the search --------------------------------------------------------------------------------------------------------


def in_turns(model: PlanModel, places: Places, found: list[Grouping]) -> Placed:
    """Return groupings as the judge takes them, one row each."""
    widths = np.stack([some.widths for some in found])
    rows = np.arange(len(model.demand))
    at = np.searchsorted(places.sizes, widths, side="right") - 1
    turns, stays = places.turn_s[rows, at], places.stay_s[rows, at]
    cores, instances = places.cores[rows, at], places.instances[rows, at]
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(stays > 0, turns / stays, 1 / instances)
        seconds = np.where(model.demand.visits > 0, stays / model.demand.visits, 1.0)
    idle = np.flatnonzero(model.demand.visits == 0)
    if len(idle):
        seconds[:, idle] = model.demand.at(np.arange(1, int(cores.max()) + 1))[idle[None, :], cores[:, idle] - 1]
    used = np.array([some.used for some in found], np.int64)
    return Placed(cores, instances, seconds, heaviest, used, np.stack([some.group for some in found]), widths)


class Turns:
    """The search for groupings of one question."""

    def __init__(self, search: Search, most: int) -> None:
        """Make the tables of turns on up to `most` cores: on one node of the machine at most."""
        self.search, model = search, search.model
        self.most = most
        self.n = len(model.demand)
        self.widest = min(search.cores, search.machine.widest)
        self.places = places_of(model.demand, self.widest, by_stay=model.request.for_latency)
        self.least = int(self.places.least.max())
        queued = model.queued
        self.all = min(QUEUED_MAX if queued else SHARED_MAX, search.work_max)
        self.budget = min(
            search.work_max, search.steps + (QUEUED_WORK if queued else max(SHARED_WORK // self.n, 2_000))
        )

    def run(self) -> None:
        """Offer groupings: all up to where they are few, then along the way."""
        search, counts = self.search, range(self.least, self.most + 1)
        few = max((count for count in counts if how_many(self.n, count) <= self.all), default=0)
        if few:
            for some in _in_chunks(all_groupings(self.n, few)):
                self.offer(some)
            if few >= search.cores:
                return
        search.exact = False
        for count in [at for at in self._counts() if at > few]:
            if search.steps >= self.budget:
                break
            for seeds in self._seeds(count):
                self.offer(seeds)
            self._descend(count)
            if search.model.request.aim.fewest and search.best is not None:
                return
        if not search.out_of_work:
            self._offer_wide()

    def _offer_wide(self) -> None:
        """Offer one group on more cores than are looked at; for a front of few components the shortest periods there, too."""
        wide = [count for count in counts_up_to(self.search.cores) if count > self.most]
        self.offer([self._one_group(count) for count in wide])
        if self.search.front and exact_sizes(self.n):
            found = [best_grouping(self.places, count) for count in wide]
            self.offer([some for some in found if some is not None])

    def _one_group(self, cores: int) -> Grouping:
        return numbered(np.zeros(self.n, np.int64), np.array([min(cores, self.widest)]))

    def offer(self, some: list[Grouping]) -> bool:
        """Judge groupings in which every component fits."""
        possible = [one for one in some if int(one.sizes.max()) <= self.widest and self._fits(one)]
        if self.search.model.queued:  # runs are for those that share: cores of one's own have a search of theirs
            possible = [one for one in possible if len(one.sizes) < self.n]
        return bool(possible) and self.search.offer(in_turns(self.search.model, self.places, possible))

    def _fits(self, some: Grouping) -> bool:
        return bool(np.isfinite(self.places.at(some.widths)[0]).all())

    def _counts(self) -> list[int]:
        """Return the numbers of cores that are looked at; few of them where each takes long."""
        found = [count for count in counts_up_to(self.most) if count >= self.least]
        step = 1 if self.n <= WIDTHS_MAX else 8
        return found[::step]

    def _seeds(self, cores: int) -> Iterator[list[Grouping]]:
        """Give the groupings to begin with: one group, that of the shortest period, and those slowed as that one is."""
        yield [self._one_group(cores)]
        if not self.search.machine.free:
            yield self._dealt(cores)
        found, places = best_grouping(self.places, cores), self.places
        for _ in range(HELD_MAX if self.search.model.contended else 1):
            if found is None:
                return
            yield [found]
            if not self.search.model.contended:
                return
            judged = self.search.model.judge(in_turns(self.search.model, self.places, [found]))
            slowed = (judged.seconds_s / judged.alone_s)[0]
            places = replace(self.places, turn_s=self.places.turn_s * slowed[:, None])
            again = best_grouping(places, cores)
            if again is None or (np.array_equal(again.group, found.group) and np.array_equal(again.sizes, found.sizes)):
                return
            found = again

    def _dealt(self, cores: int) -> list[Grouping]:
        """Return one group on each of the first nodes, components assigned by memory, then by their turns."""
        machine, peaks = self.search.machine, self.search.model.demand.peak_bytes
        found: list[Grouping] = []
        for nodes in range(1, len(machine.sizes) + 1):
            some = machine.sizes[:nodes]
            sizes = np.minimum(some, np.maximum(cores - np.cumsum(some) + some, 0))
            if int(sizes.min()) < 1:
                break
            turns = self.places.at(np.full(self.n, int(sizes.max())))[0]
            loads, memory, group = np.zeros(nodes), np.zeros(nodes), np.zeros(self.n, np.int64)
            for row in np.lexsort((-turns, -peaks)).tolist():
                full = memory + peaks[row] > machine.memory_bytes * (1 + TIE)
                group[row] = int(np.where(full, np.inf, loads / sizes).argmin())
                loads[group[row]] += turns[row]
                memory[group[row]] += peaks[row]
            found.append(numbered(group, sizes))
        return found

    def _descend(self, cores: int) -> None:
        """Improve the best grouping by moves on at most `cores` cores, as long as one helps."""
        search = self.search
        seen: set[bytes] = set()
        for _ in range(ROUNDS_MAX):
            best = search.lead
            if best is None or best.group is None or best.widths is None or search.steps >= self.budget:
                return
            group = best.group[0]
            sizes = np.zeros(int(group.max()) + 1, np.int64)
            np.maximum.at(sizes, group, best.widths[0])
            near: list[Grouping] = []
            for some in neighbours(Grouping(group, sizes), cores):
                mark = some.group.tobytes() + some.sizes.tobytes()
                if mark not in seen:
                    seen.add(mark)
                    near.append(some)
            near = near[: max(self.budget - search.steps, 0)]
            before = search.lead_key
            if not near:
                return
            self.offer(near)
            if not search.lead_key.before(before):
                return


def best_grouping(places: Places, cores: int, longest_s: float = np.inf, *, fewest: bool = False) -> Grouping | None:
    """Return the grouping on at most `cores` cores of the shortest period below `longest_s`, as far as one is found.

    With `fewest` it is that of the fewest cores for the period `longest_s`.
    """
    if exact_sizes(len(places.turn_s)):
        few = best_partition_of(
            places.turn_s, places.stay_s, cores, np.inf if fewest else longest_s, longest_s if fewest else 0.0
        )
        return few and Grouping(*few[1:])
    best, packings, counts = None, Packings(places.turn_s, places.sizes), counts_up_to(cores)
    for count in counts if fewest else counts[::-1]:
        found = packings.shortest(count, longest_s * (1 + 4 * TIE) if fewest else longest_s)
        if fewest and found is not None and found[0] <= longest_s * (1 + TIE):
            return numbered(*found[1:])
        if not fewest and found is None:
            break  # fewer cores do no better
        if not fewest and found is not None and found[0] < longest_s:
            longest_s, best = found[0], numbered(*found[1:])
    return best


def _in_chunks(some: Iterable[Grouping]) -> Iterator[list[Grouping]]:
    chunk: list[Grouping] = []
    for one in some:
        chunk.append(one)
        if len(chunk) == CHUNK // 8:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
