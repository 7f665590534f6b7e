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

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from advisor.domain.vectors import Ints
from advisor.planning.demand import Demand
from advisor.planning.judge import Placed
from advisor.planning.options import Places, places_of
from advisor.planning.packing import shortest_packing_of
from advisor.planning.partitions import EXACT_COMPONENTS, best_partition_of, exact_sizes
from advisor.planning.pieces import TIE
from advisor.planning.search import CHUNK, Lead, Search
from advisor.planning.thinning import spaced

ALL_COUNTS, RATIO = 48, 1.05  # numbers of cores that many components are packed on: all up to here, then so far apart
STARTS = 3  # groupings that are improved where records queue
EVEN_MAX = 4  # groups of equal cores with which a search begins there
DESCENT_MAX = 12  # moves from grouping to grouping on one number of cores
WIDTHS_MAX = 60  # components up to which each is tried in each group
SHARED_MAX = 2_000  # groupings that are all judged: half a second where visits queue for turns
QUEUED_WORK = 3_000  # groupings judged on a way where records queue: runs decide in the end
SHARED_WORK = 30_000  # groupings times components judged on a way by default: half a second


class Groupings(NamedTuple):
    """Who shares which cores, K ways: the group of each component, (K, n), and the cores of each, (K, groups), 0 for none.

    Groups are numbered by their first components.
    """

    group: Ints
    sizes: Ints

    @property
    def cores_used(self) -> Ints:
        """Cores taken, (K,)."""
        return self.sizes.sum(axis=1)

    @property
    def widths(self) -> Ints:
        """Cores of each component's group, (K, n)."""
        return np.take_along_axis(self.sizes, self.group, axis=1)

    def taken(self, rows: slice | Ints | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Groupings:
        """Return some of them."""
        return Groupings(self.group[rows], self.sizes[rows])


def numbered(group: Ints, sizes: Ints) -> Groupings:
    """Return groupings, (K, n) and (K, groups), with their groups numbered in text order, empty ones last. Cost O(K n)."""
    first, last = np.full(sizes.shape, group.shape[1]), group.shape[1] - 1
    # Written from the last component on: of components that share a group the first one's number stays.
    first[np.arange(len(group))[:, None], group[:, ::-1]] = np.arange(last, -1, -1)
    order = np.argsort(first, axis=1, kind="stable")
    rank = np.argsort(order, axis=1)
    return Groupings(
        np.take_along_axis(rank, group, axis=1),
        np.take_along_axis(np.where(first < group.shape[1], sizes, 0), order, axis=1),
    )


# --- all groupings, and those next to one -------------------------------------------------------------------------------


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


def all_groupings(n: int, cores: int) -> Groupings:
    """Return every grouping of n components on at most so many cores: partitions as labels, each new one the next number."""
    labels: list[list[int]] = [[0]]
    for _ in range(n - 1):
        labels = [[*some, new] for some in labels for new in range(min(max(some) + 2, cores))]
    group, sizes = list[Ints](), list[Ints]()
    for k in range(1, min(n, cores) + 1):
        some = np.array([each for each in labels if max(each) == k - 1])
        split = np.diff(list(combinations(range(1, cores + 1), k)), prepend=0)  # where each group's cores end
        group.append(np.repeat(some, len(split), axis=0))
        sizes.append(np.pad(np.tile(split, (len(some), 1)), ((0, 0), (0, n - k))))
    return Groupings(np.concatenate(group), np.concatenate(sizes))


def neighbours(found: Groupings, cores: int) -> Groupings:
    """Return the first and those next to it: cores moved, components moved, groups put together, cores left or taken."""
    group, sizes = found.group[0].tolist(), [size for size in found.sizes[0].tolist() if size]
    k, spare, near = len(sizes), cores - sum(sizes), list[tuple[list[int], dict[int, int]]]([(group, {})])
    for giver in range(-1, k):
        for step in _steps(spare if giver < 0 else sizes[giver] - 1):
            near += [(group, {taker: step, giver: -step}) for taker in range(-1, k) if taker != giver]
    for one, other in combinations(range(k), 2):
        both = [one if place == other else place for place in group]
        near += [(both, {one: sizes[other]}), (both, {one: max(sizes[other] - sizes[one], 0)})]
    for row in range(len(group) if len(group) <= WIDTHS_MAX else 0):
        mine, before, after = group[row], group[:row], group[row + 1 :]
        near += [([*before, target, *after], {}) for target in range(k) if target != mine]
        if group.count(mine) > 1:
            near += [([*before, k, *after], {k: spare})] if spare else []
            near += [([*before, k, *after], {mine: -step, k: step}) for step in _steps(sizes[mine] - 1)]
    new = np.tile(np.array([*sizes, 0, 0]), (len(near), 1))  # the last one is for cores that stay free
    for row, (_, change) in enumerate(near):
        for place, by in change.items():
            new[row, place] += by
    return numbered(np.array([some for some, _ in near]), new[:, :-1])


def _steps(most: int) -> list[int]:
    """Return numbers of cores to move: one, and halves of what there is."""
    return sorted({step for step in (1, most // 4, most // 2, most) if 1 <= step <= most})


# --- the search --------------------------------------------------------------------------------------------------------


def in_turns(demand: Demand, places: Places, found: Groupings) -> Placed:
    """Return groupings as the judge takes them."""
    widths = found.widths
    turns, stays, cores, instances = places.at(widths)
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(stays > 0, turns / stays, 1 / instances)
        seconds = np.where(demand.visits > 0, stays / demand.visits, 1.0)
    idle = np.flatnonzero(demand.visits == 0)
    if len(idle):
        seconds[:, idle] = demand.seconds(cores)[:, idle]
    return Placed(cores, instances, seconds, heaviest, found.cores_used, found.group, widths)


class Turns:
    """The search for groupings of one question."""

    def __init__(self, search: Search) -> None:
        """Make the tables of turns, on one node of the machine at most."""
        self.search, demand = search, search.demand
        self.n = len(demand)
        # Where each has its own core and more, turns gain little.
        self.most = min(search.cores, max(2 * self.n + 8, 16))
        self.widest = min(search.cores, search.machine.widest)
        self.places = places_of(demand, self.widest, by_stay=demand.request.for_latency)
        self.all = 0 if demand.queued else min(SHARED_MAX, search.work_max)
        work = QUEUED_WORK if demand.queued else max(SHARED_WORK // self.n, 2_000)
        self.budget = min(search.work_max, search.steps + work)

    def run(self) -> None:
        """Offer groupings: all up to where they are few, then along the way."""
        search, least = self.search, int(self.places.least.max())
        few = max((count for count in range(least, self.most + 1) if how_many(self.n, count) <= self.all), default=0)
        lead: Lead | None = None
        if few:
            lead = self.offer(all_groupings(self.n, few))
            if few >= search.cores:
                return
        search.exact, fewest = False, search.demand.request.aim.fewest
        counts = spaced(self.most, ALL_COUNTS, RATIO)
        if search.demand.queued and not fewest:
            counts = [self.most]  # each judgement takes long, and runs decide in the end
        elif self.n > WIDTHS_MAX:
            counts = counts[least - 1 :: 8]
        for count in counts:
            if count <= few or count < least:
                continue
            if search.steps >= self.budget:
                break
            starts: list[Lead] = [] if lead is None else [lead]
            starts += [start for seed in self._seeds(count) if (start := self.offer(seed)) is not None]
            starts.sort(key=lambda start: start[0])
            ends = [self._descended(start, count) for start in starts[: STARTS if search.demand.queued else 1]]
            lead = min(ends, key=lambda end: end[0], default=lead)
            if fewest and search.best is not None:
                return
        if not search.out_of_work:
            self._offer_wide()

    def _offer_wide(self) -> None:
        """Offer one group on more cores than are looked at."""
        wide = [count for count in spaced(self.search.cores, ALL_COUNTS, RATIO) if count > self.most]
        if wide:
            self.offer(self._one_group(*wide))

    def _one_group(self, *cores: int) -> Groupings:
        return Groupings(np.zeros((len(cores), self.n), np.int64), np.minimum(cores, self.widest)[:, None])

    def offer(self, some: Groupings) -> Lead | None:
        """Judge groupings in which every component fits; return the best by what leads a way."""
        fits = (some.sizes.max(axis=1) <= self.widest) & (some.widths >= self.places.least).all(axis=1)
        if self.search.demand.queued:  # runs are for those that share: cores of one's own have a search of theirs
            fits &= (some.sizes > 0).sum(axis=1) < self.n
        rows, best = np.flatnonzero(fits), None
        for start in range(0, len(rows), CHUNK // 8):
            part = some.taken(rows[start : start + CHUNK // 8])
            found = self.search.offer(in_turns(self.search.demand, self.places, part))
            best = found if best is None or (found is not None and found[0].before(best[0])) else best
        return best

    def _seeds(self, cores: int) -> Iterator[Groupings]:
        """Give the groupings to begin with: one group, that of the shortest period, and those slowed as that one is."""
        yield self._one_group(cores)
        nodes = self.search.machine.sizes if not self.search.machine.free else np.zeros(0, np.int64)
        for sizes in [
            np.minimum(some, cores - np.cumsum(some) + some) for some in [nodes[: k + 1] for k in range(len(nodes))]
        ]:
            yield from self._shared_out(sizes)
        for k in range(2, EVEN_MAX + 1) if self.search.demand.queued else ():
            yield from self._shared_out((cores + np.arange(k)) // k)
        if (found := best_grouping(self.places, cores)) is not None:
            yield found

    def _shared_out(self, sizes: Ints) -> Iterator[Groupings]:
        """Give groups of some sizes, components assigned by memory, then by their turns; none where a size is below 1."""
        machine, peaks, k = self.search.machine, self.search.demand.peak_bytes, len(sizes)
        if int(sizes.min()) < 1:
            return
        turns = self.places.at(np.full(self.n, int(sizes.max())))[0]
        loads, memory, group = np.zeros(k), np.zeros(k), np.zeros(self.n, np.int64)
        for row in np.lexsort((-turns, -peaks)).tolist():
            full = memory + peaks[row] > machine.memory_bytes * (1 + TIE)
            group[row] = int(np.where(full, np.inf, loads / sizes).argmin())
            loads[group[row]] += turns[row]
            memory[group[row]] += peaks[row]
        yield numbered(group[None], sizes[None])

    def _descended(self, lead: Lead, cores: int) -> Lead:
        """Return a grouping improved by moves on at most `cores` cores, as long as one helps."""
        search = self.search
        for _ in range(DESCENT_MAX):
            placed = lead[1]
            if placed.group is None or placed.widths is None or search.steps >= self.budget:
                break
            sizes = np.zeros((1, int(placed.group.max()) + 1), np.int64)
            sizes[0, placed.group[0]] = placed.widths[0]
            near = neighbours(Groupings(placed.group, sizes), cores)
            best = self.offer(near.taken(slice(max(self.budget - search.steps, 0))))
            if best is None or not best[0].before(lead[0]):
                break
            lead = best
        return lead


def best_grouping(places: Places, cores: int, longest_s: float = np.inf, fewest: int = 0) -> Groupings | None:
    """Return the grouping on at most `cores` cores of the shortest period below `longest_s`, as far as one is found.

    With `fewest` it is that of the fewest cores for the period `longest_s`, none of which are below `fewest`.
    """
    if exact_sizes(len(places.turn_s)):
        limits = (np.inf, longest_s) if fewest else (longest_s, 0.0)
        few = best_partition_of(places.turn_s, places.stay_s, cores, *limits)
        return few and Groupings(few[1][None], few[2][None])
    best, counts = None, spaced(cores, ALL_COUNTS, RATIO)
    for count in [count for count in counts if count >= fewest] if fewest else counts[::-1]:
        enough_s = longest_s * (1 + 4 * TIE) if fewest else longest_s
        found = shortest_packing_of(places.turn_s, places.sizes, count, enough_s)
        if fewest and found is not None and found[0] <= longest_s * (1 + TIE):
            return numbered(found[1][None], found[2][None])
        if not fewest and found is None:
            break  # fewer cores do no better
        if not fewest and found is not None and found[0] < longest_s:
            longest_s, best = found[0], numbered(found[1][None], found[2][None])
    return best
