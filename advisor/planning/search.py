"""The search: allocations are judged and the best is kept, all of them where they are few, else along a way of rising cores.

The way is the same for every machine: it begins where enumeration ends, gives cores where they gain most by the judge,
exchanges shapes of one and of two components, and joins and parts groups that take turns. A machine of P cores sees it up
to P. So more cores are never worse, and the fewest cores for a target do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import isfinite
from typing import NamedTuple

import numpy as np

from advisor.planning.demand import TIE, Places, places_of
from advisor.planning.groupings import (
    Grouping,
    Partitions,
    all_groupings,
    counts_up_to,
    cycles,
    how_many,
    numbered,
    packed,
    period_bound,
    shared_sizes_max,
)
from advisor.planning.judge import Judged, Model, Placed
from advisor.planning.moves import best_moves, filled, first_stable, linearised
from advisor.planning.options import Options
from advisor.planning.placing import Machine, place
from advisor.planning.requests import CORES, COST, LATENCY, PERIOD, Floats, Ints
from advisor.planning.scores import driven, score

OWN_MAX = 60_000  # allocations with cores of one's own that are all judged: some 100 ms
SHARED_MAX = 2_000  # groupings that are all judged: half a second where visits queue for turns
CHUNK = 8_192  # allocations judged at once: a few MB
CELLS_MAX = 4_000_000  # allocations times components judged at once
KEPT = 64  # best allocations that are kept as runners-up
WAY_ALL, WAY_RATIO = 24, 1.1  # numbers of cores at which exchanges are tried: all up to here, then so far apart
ROUNDS_MAX = 4  # of exchanges on one number of cores
HELD_MAX = 4  # times that turns are planned with the contention of the plan before
WIDTHS_MAX = 60  # components up to which each is tried in each group
WORK_MAX = 100_000  # allocations judged by default: a few seconds at the most
SHARED_WORK = 30_000  # groupings times components judged on a way by default: half a second


class Key(NamedTuple):
    """What allocations are compared by: score, then fewest cores, then latency."""

    score: float
    used: float
    latency_s: float

    def before(self, other: Key) -> bool:
        """Return whether it is better: differences below TIE are ties."""
        for a, b in zip(self, other, strict=True):
            if a == b or (isfinite(a) and isfinite(b) and abs(a - b) <= TIE * max(abs(a), abs(b))):
                continue
            return a < b
        return False


WORST = Key(np.inf, np.inf, np.inf)


@dataclass(slots=True)
class Search:
    """A search's givens, its counted steps, and what it has found.

    Attributes
    ----------
    best, key
        The best allocation so far, one row.
    kept : list of (key, allocation)
        The best that were judged, the best of all among them.
    by_used : dict
        Cores taken -> the best score on so many with cores of one's own, where nothing but their number limits them.
    points : list
        With a front asked for: cores, period, latency and the allocation of all that were judged.
    exact : bool
        All allocations that the request permits were judged.
    """

    model: Model
    machine: Machine
    cores: int
    work_max: int
    steps: int = 0
    best: Placed | None = None
    key: Key = WORST
    kept: list[tuple[Key, Placed]] = field(default_factory=list[tuple[Key, Placed]])
    points: list[tuple[Placed, Judged]] = field(default_factory=list[tuple[Placed, Judged]])
    by_used: dict[int, tuple[float, Placed]] = field(default_factory=dict[int, tuple[float, Placed]])
    front: bool = False
    exact: bool = True

    @property
    def out_of_work(self) -> bool:
        """True when the steps allowed are taken."""
        return self.steps >= self.work_max

    def offer(self, placed: Placed) -> bool:
        """Judge allocations and keep the best that can be placed; return whether it is better than before."""
        fits = placed.used <= self.cores
        placed = placed if fits.all() else placed.taken(np.flatnonzero(fits))
        if not len(placed.used):
            return False
        judged = self.model.judge(placed)
        self.steps += len(placed.used)
        if self.front:
            self.points.append((placed, judged))
        values = score(self.model.request, judged, placed.used)
        self._note(values, placed)
        latency = judged.latency_s if self.model.request.for_latency else judged.unloaded_s
        better = False
        for row in _ranking(values, placed, latency):
            key = Key(float(values[row]), float(placed.used[row]), float(latency[row]))
            ahead = key.before(self.key)
            if not isfinite(key.score) or not (ahead or len(self.kept) < KEPT or key.before(self.kept[-1][0])):
                break
            if self.placeable(placed, row):
                one = placed.of(row)
                self._keep(key, one)
                if ahead:
                    self.best, self.key, better = one, key, True
        return better

    def _note(self, values: Floats, placed: Placed) -> None:
        """Note the best on each number of cores."""
        if placed.group is not None or not self.machine.free:
            return
        order = np.argsort(values, kind="stable")
        counts, firsts = np.unique(placed.used[order], return_index=True)
        for count, row in zip(counts.tolist(), order[firsts].tolist(), strict=True):
            if count not in self.by_used or values[row] < self.by_used[count][0]:
                self.by_used[count] = float(values[row]), placed.of(row)

    def _keep(self, key: Key, one: Placed) -> None:
        """Keep an allocation among the best, in order."""
        place_ = len(self.kept)
        while place_ and key.before(self.kept[place_ - 1][0]):
            place_ -= 1
        if not any(_same(one, other) for _, other in self.kept[max(place_ - 8, 0) :]):
            self.kept.insert(place_, (key, one))
            del self.kept[KEPT:]

    def placeable(self, placed: Placed, row: int) -> bool:
        """Return whether an allocation can be put on the machine's nodes."""
        return self.machine.free or nodes_of(self.model, self.machine, placed, row) is not None


def nodes_of(model: Model, machine: Machine, placed: Placed, row: int) -> list[list[int]] | None:
    """Return the nodes of each component's instances, or None where they do not fit.

    A group lies on one node, with the memory of all its instances: whoever waits for a turn stays in memory.
    """
    cores, instances, peaks = placed.cores[row], placed.instances[row], model.demand.peak_bytes
    if placed.group is None:
        return place(machine, cores, instances, peaks)
    group = placed.group[row]
    count = int(group.max()) + 1
    needs = np.bincount(group, weights=peaks * instances, minlength=count)
    widths = np.zeros(count, np.int64)
    np.maximum.at(widths, group, _widths(placed, row))
    found = place(machine, widths, np.ones(count, np.int64), needs.astype(np.float64))
    return None if found is None else [found[number] * int(many) for number, many in zip(group, instances, strict=True)]


def _widths(placed: Placed, row: int) -> Ints:
    """Return the cores of each component's group, as `in_turns` noted them."""
    assert placed.widths is not None
    return placed.widths[row]


def _same(one: Placed, other: Placed) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in ((one.cores, other.cores), (one.instances, other.instances), (one.group, other.group),
                     (one.widths, other.widths))
    )  # fmt: skip


def _ranking(values: Floats, placed: Placed, latency: Floats) -> Iterator[int]:
    """Give allocations from the best on: score, then fewest cores, then lower latency, then text order."""
    order = np.argsort(values, kind="stable")
    start = 0
    while start < len(order):
        edge, stop = values[order[start]], start + 1
        if np.isfinite(edge):
            stop = start + int(np.searchsorted(values[order[start:]], edge + TIE * abs(edge), side="right"))
        tied = order[start:stop]
        if len(tied) > 1:
            least = float(latency[tied].min())
            rounded = np.zeros(len(tied))
            if np.isfinite(least) and least > 0:
                rounded = np.round(latency[tied] / least / TIE / 4)  # equal but for rounding: the text decides
            texts = [-placed.cores[tied][:, row] for row in range(placed.cores.shape[1] - 1, -1, -1)]
            tied = tied[np.lexsort((*texts, rounded, placed.used[tied]))]
        yield from tied.tolist()
        start = stop


def way_counts(first: int, last: int) -> list[int]:
    """Return the numbers of cores from `first` to `last` at which exchanges are tried: the same for every machine."""
    found, at = list[int](), 1.0
    while at <= last:
        if at >= first:
            found.append(int(at))
        at = at + 1 if at < WAY_ALL else max(float(int(at * WAY_RATIO)), at + 1)
    return found


# --- cores of one's own ---------------------------------------------------------------------------------------------------


def search_own(search: Search, options: Options) -> None:
    """Offer allocations with cores of one's own for each component: all up to where they are few, then along the way."""
    widest = _few_up_to(options, min(search.cores, int(_widest(options))), min(OWN_MAX, search.work_max - search.steps))
    start: Ints | None = None
    if widest:
        every = _enumerated(options, widest)
        for first in range(0, len(every), CHUNK):
            search.offer(options.pick(every[first : first + CHUNK]))
        if search.cores <= widest or widest >= _widest(options):
            return
        if search.best is not None and search.best.group is None:
            start = _indices(options, search.best)
    search.exact = False
    for measure in _measures(search):
        _own_way(search, options, start, measure)


def _measures(search: Search) -> list[str]:
    """Return what ways are led by: a front is looked for from both ends."""
    request = search.model.request
    if search.front or request.measure == COST:
        return [PERIOD, LATENCY]
    return [LATENCY if request.for_latency else PERIOD]


def _widest(options: Options) -> int:
    """Return the cores on which each component has its largest shape."""
    rows = np.arange(len(options.number))
    return int(options.weight[rows, options.number - 1].sum())


def _few_up_to(options: Options, cores: int, most: int) -> int:
    """Return the most cores, at most `cores`, on which there are at most so many allocations; 0 where none. Cost O(shapes P)."""
    least = int(options.weight[:, 0].sum())
    if least > cores or float(np.log2(options.number).sum()) > 60 and cores - least > 40:
        return 0
    ways = np.zeros(cores - least + 1)
    ways[0] = 1.0
    for row, number in enumerate(options.number.tolist()):
        new = np.zeros_like(ways)
        for extra in (options.weight[row, :number] - options.weight[row, 0]).tolist():
            if extra >= len(ways):
                break
            new[extra:] += ways[: len(ways) - extra]
        ways = new
    few = np.flatnonzero(np.cumsum(ways) <= most)
    return least + int(few[-1]) if len(few) else 0


def _enumerated(options: Options, cores: int) -> Ints:
    """Return all allocations on at most `cores` cores, (K, n) of shapes. Cost O(K n)."""
    rest = int(options.weight[:, 0].sum())
    chosen, used = np.zeros((1, 0), np.int64), np.zeros(1, np.int64)
    for row, number in enumerate(options.number.tolist()):
        rest -= int(options.weight[row, 0])
        total = used[:, None] + options.weight[row, :number][None, :]
        some, shape = np.nonzero(total + rest <= cores)
        chosen = np.concatenate([chosen[some], shape[:, None]], axis=1)
        used = total[some, shape]
    return chosen


def _indices(options: Options, placed: Placed) -> Ints:
    """Return the options that an allocation has chosen, (n,)."""
    same = (options.cores == placed.cores[0][:, None]) & (options.instances == placed.instances[0][:, None])
    return same.argmax(axis=1)


def _own_way(search: Search, options: Options, start: Ints | None, measure: str) -> None:
    """Follow the way of rising cores from an allocation, or from the least that keeps up with the arrivals."""
    model = search.model
    chosen = first_stable(model, options) if start is None else start
    if chosen is None:
        return
    here = options.used(chosen)
    if here > search.cores:
        return
    search.offer(options.pick(chosen[None]))
    chosen = _exchanged(search, options, chosen, here, measure)
    limit = min(search.cores, _widest(options))
    for count in [*way_counts(here + 1, limit), limit + 1]:
        if search.out_of_work or (model.request.measure == CORES and search.best is not None):
            return
        some = filled(model, options, chosen, min(count, limit), measure)
        if len(some):
            size = max(1, min(CHUNK, CELLS_MAX // len(chosen)))
            for first in range(0, len(some), size):
                search.offer(options.pick(some[first : first + size]))
            chosen = some[-1]
        if count <= limit:
            chosen = _exchanged(search, options, chosen, count, measure)


def _exchanged(search: Search, options: Options, chosen: Ints, cores: int, measure: str) -> Ints:
    """Return an allocation improved by exchanges on at most `cores` cores: those first that promise most."""
    model, request = search.model, search.model.request
    placed = options.pick(chosen[None])
    now = float(driven(request, model.judge(placed), placed.used, measure)[0])
    for _ in range(ROUNDS_MAX):
        values, takers = linearised(model, options, chosen, measure)
        moves = best_moves(options, values, chosen, cores, takers)
        if not len(moves) or search.out_of_work:
            break
        placed = options.pick(moves)
        figures = driven(request, model.judge(placed), placed.used, measure)
        search.offer(placed)
        best = int(figures.argmin())
        if not figures[best] < now - TIE * abs(now) or not search.placeable(placed, best):
            break
        chosen, now = moves[best], float(figures[best])
    return chosen


# --- turns on shared cores ------------------------------------------------------------------------------------------------


def in_turns(model: Model, places: Places, found: list[Grouping]) -> Placed:
    """Return groupings as the judge takes them, one row each."""
    widths = np.stack([some.widths for some in found])
    rows = np.arange(widths.shape[1])
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
        widest = int(search.machine.sizes.max())
        self.places = places_of(model.demand, min(most, widest), by_stay=model.request.for_latency)
        self.widest = min(most, widest)
        self.least = int(self.places.least.max())
        self.budget = min(search.work_max, search.steps + max(SHARED_WORK // self.n, 2_000))

    def run(self) -> None:
        """Offer groupings: all up to where they are few, then along the way."""
        search, counts = self.search, range(self.least, self.most + 1)
        few = max((count for count in counts if how_many(self.n, count) <= min(SHARED_MAX, search.work_max)), default=0)
        if few:
            for some in _in_chunks(all_groupings(self.n, few)):
                self.offer(some)
            if few >= search.cores:
                return
        search.exact = False
        for count in [at for at in self._counts() if at > few]:
            if search.out_of_work or search.steps >= self.budget:
                return
            for seeds in self._seeds(count):
                self.offer(seeds)
            self._descend(count)
            if search.model.request.measure == CORES and search.best is not None:
                return

    def offer(self, some: list[Grouping]) -> bool:
        """Judge groupings in which every component fits."""
        possible = [one for one in some if int(one.sizes.max()) <= self.widest and self._fits(one)]
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
        one = min(cores, self.widest)
        yield [numbered(np.zeros(self.n, np.int64), np.array([one]))]
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
        """Return one group on each of the first nodes, components dealt by memory, then by their turns."""
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
            best = search.best
            if best is None or best.group is None or best.widths is None or search.steps >= self.budget:
                return
            group = best.group[0]
            sizes = np.zeros(int(group.max()) + 1, np.int64)
            np.maximum.at(sizes, group, best.widths[0])
            near: list[Grouping] = []
            for some in _near(Grouping(group, sizes), cores):
                mark = some.group.tobytes() + some.sizes.tobytes()
                if mark not in seen:
                    seen.add(mark)
                    near.append(some)
            near = near[: max(self.budget - search.steps, 0)]
            if not near or not self.offer(near):
                return


def best_grouping(places: Places, cores: int, longest_s: float = np.inf) -> Grouping | None:
    """Return the grouping on at most `cores` cores of the shortest period below `longest_s`, as far as one is found."""
    exact = min(cores, shared_sizes_max(len(places.turn_s)), int(places.sizes[-1]))
    if exact:
        subsets = Partitions(places, exact)
        period = subsets.best_period(exact, longest_s)
        return subsets.fewest(period) if period < longest_s else None
    best: Grouping | None = None
    for count in counts_up_to(cores)[::-1]:
        if period_bound(places, count) >= longest_s * (1 - TIE):
            break  # fewer cores do no better
        found = packed(places, count, longest_s)
        if found is not None:
            best, longest_s = found, float(cycles(places, found).max())
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


def _near(found: Grouping, cores: int) -> Iterator[Grouping]:
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
    if len(group) > WIDTHS_MAX:
        return
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
