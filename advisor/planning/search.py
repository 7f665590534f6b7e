"""The search: allocations are judged and the best is kept, all of them where they are few, else along a way of rising cores.

The way is the same for every machine: it begins where enumeration ends, gives cores where they gain most by the judge,
exchanges shapes of one and of two components, and (`sharing`) joins and parts groups. A machine of P cores sees it up
to P. So more cores are never worse, and the fewest cores for a target do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats, Ints
from advisor.planning.demand import Demand
from advisor.planning.judge import FAR, Placed, driven, judge_placed, score
from advisor.planning.moves import best_moves, filled, first_stable, linearised
from advisor.planning.options import Options
from advisor.planning.pieces import TIE
from advisor.planning.placing import MachineNodes, place
from advisor.planning.thinning import spaced

OWN_MAX = 60_000  # allocations with cores of one's own that are all judged: some 100 ms
CHUNK = 8_192  # allocations judged at once: a few MB
CELLS_MAX = 4_000_000  # allocations times components judged at once
QUEUED_RETAINED, QUEUED_NEAR = 16, 0.5  # best allocations kept where records queue, how far from the best: runs choose
QUEUED_RATIO, QUEUED_ROUNDS = 1.5, 8  # the same of the next two
WAY_ALL, WAY_RATIO = 24, 1.1  # numbers of cores at which exchanges are tried: all up to here, then so far apart
ROUNDS_MAX = 4  # of exchanges on one number of cores
WORK_MAX = 100_000  # allocations judged by default: a few seconds at the most


class AllocationKey(NamedTuple):
    """What allocations are compared by: score, then fewest cores, then latency."""

    score: float
    used: float
    latency_s: float

    def before(self, other: AllocationKey) -> bool:
        """Return whether it is better: differences below TIE are ties."""
        score, best = self[0], other[0]
        if abs(score - best) > TIE * max(abs(score), abs(best)):  # nearly always; not where one is infinite
            return score < best
        for a, b in zip(self, other, strict=True):
            if a == b or (isfinite(a) and isfinite(b) and abs(a - b) <= TIE * max(abs(a), abs(b))):
                continue
            return a < b
        return False


WORST = AllocationKey(np.inf, np.inf, np.inf)
Lead = tuple[AllocationKey, Placed]  # an allocation from which a way goes on


@dataclass(slots=True)
class Search:
    """A search's givens, its counted steps, and what it has found."""

    demand: Demand
    work_max: int
    steps: int = 0
    # the best allocation so far, one row
    best: Placed | None = None
    key: AllocationKey = WORST
    # (key, allocation): the best that were judged, the best of all among them
    kept: list[Lead] = field(default_factory=list[Lead])
    exact: bool = True  # all allocations that the request permits were judged

    @property
    def machine(self) -> MachineNodes:
        """What it is for."""
        return self.demand.machine

    @property
    def cores(self) -> int:
        """Cores of the machine."""
        return self.demand.machine.cores

    @property
    def many(self) -> int:
        """How many allocations are kept."""
        return QUEUED_RETAINED if self.demand.queued else 1

    @property
    def candidates(self) -> list[Placed]:
        """The allocations near the best, from it on."""
        most = self.key.score + QUEUED_NEAR * abs(self.key.score)
        return [placed for key, placed in self.kept if key.score <= most]

    @property
    def out_of_work(self) -> bool:
        """True when the steps allowed are taken."""
        return self.steps >= self.work_max

    def offer(self, placed: Placed) -> Lead | None:
        """Judge allocations and keep the best that can be placed; return the best by what leads a way, target or not."""
        request, fits = self.demand.request, placed.used <= self.cores
        placed = placed if fits.all() else placed.taken(np.flatnonzero(fits))
        if not len(placed.used):
            return None
        judged = judge_placed(self.demand, placed)
        self.steps += len(placed.used)
        values = score(request, judged, placed.used)
        latency = judged.latency_s if request.for_latency else judged.unloaded_s
        for row, key in _ranking(values, placed, latency):
            ahead = key.before(self.key)
            if not isfinite(key.score) or not (ahead or len(self.kept) < self.many or key.before(self.kept[-1][0])):
                break
            if self.placeable(placed, row):
                one = placed.row_of(row)
                self._keep(key, one)
                if ahead:
                    self.best, self.key = one, key
        ahead = _ranking(driven(request, judged), placed, latency)
        return next(((key, placed.row_of(row)) for row, key in ahead if self.placeable(placed, row)), None)

    def _keep(self, key: AllocationKey, one: Placed) -> None:
        """Keep an allocation among the best, in order."""
        if all(one.mark != other.mark for _, other in self.kept):
            self.kept = sorted([*self.kept, (key, one)], key=lambda lead: lead[0])[: self.many]

    def merge_search(self, turns: Search) -> None:
        """Add what another search found, of allocations in turns: they are taken only where they are better."""
        if self.best is None or turns.key.score < self.key.score - TIE * abs(self.key.score):
            self.best, self.key = turns.best, turns.key
        self.steps, self.exact = self.steps + turns.steps, self.exact and turns.exact

    def placeable(self, placed: Placed, row: int) -> bool:
        """Return whether an allocation can be put on the machine's nodes, as far as that is found out."""
        if self.machine.free:
            return True
        found = nodes_of(self.demand, placed, row)
        self.exact = self.exact and found != []
        return bool(found)


def nodes_of(demand: Demand, placed: Placed, row: int) -> list[list[int]] | None:
    """Return the nodes of each component's instances, or None where they do not fit.

    A group lies on one node, with the memory of all its instances: whoever waits for a turn stays in memory.
    """
    cores, instances, peaks = placed.cores[row], placed.instances[row], demand.peak_bytes
    if placed.group is None:
        return place(demand.machine, cores, instances, peaks)
    group = placed.group[row]
    count = int(group.max()) + 1
    needs = np.bincount(group, weights=peaks * instances, minlength=count)
    widths = np.zeros(count, np.int64)
    widths[group] = placed.widths[row] if placed.widths is not None else 0
    found = place(demand.machine, widths, np.ones(count, np.int64), needs.astype(np.float64))
    return found and [found[number] * int(many) for number, many in zip(group, instances, strict=True)]


def _ranking(values: Floats, placed: Placed, latency: Floats) -> Iterator[tuple[int, AllocationKey]]:
    """Give allocations from the best on: by value, then fewest cores, then lower latency, then text order."""
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
        for row in tied.tolist():
            yield row, AllocationKey(float(values[row]), float(placed.used[row]), float(latency[row]))
        start = stop


def search_own(search: Search, options: Options) -> None:
    """Offer allocations with cores of one's own for each component: all up to where they are few, then along the way."""
    reach, start, widest = min(search.cores, _widest(options)), None, 0
    if not search.demand.queued or search.demand.request.aim.by_rate:  # else runs decide in the end
        widest = _few_up_to(options, reach, min(OWN_MAX, search.work_max - search.steps))
    if widest:
        every = _enumerated(options, widest)
        for first in range(0, len(every), CHUNK):
            best = search.offer(options.pick(every[first : first + CHUNK]))
            start = best if best is not None and (start is None or best[0].before(start[0])) else start
        if widest >= reach:
            return
    search.exact = False
    _own_way(search, options, None if start is None or start[0].score >= FAR else _indices(options, start[1]))


def search_near(search: Search, options: Options, start: Placed) -> None:
    """Offer allocations near one with cores of one's own."""
    _exchanged(search, options, _indices(options, start), search.cores)


def _widest(options: Options) -> int:
    """Return the cores on which each component has its largest shape."""
    rows = np.arange(len(options.number))
    return int(options.weight[rows, options.number - 1].sum())


def _few_up_to(options: Options, cores: int, most: int) -> int:
    """Return the most cores, at most `cores`, on which there are at most so many allocations; 0 where none.

    Cost O(shapes P).
    """
    least = int(options.weight[:, 0].sum())
    if least > cores or (float(elementary.log2(options.number).sum()) > 60 and cores - least > 40):
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


def _own_way(search: Search, options: Options, start: Ints | None) -> None:
    """Follow the way of rising cores from an allocation, or from the least that keeps up with the arrivals."""
    demand = search.demand
    chosen = first_stable(demand, options) if start is None else start
    if chosen is None:
        return
    here = options.cores_used(chosen)
    if here > search.cores:
        return
    chosen = _exchanged(search, options, chosen, here)
    limit = min(search.cores, _widest(options))
    counts = spaced(limit, 2, QUEUED_RATIO) if demand.queued else spaced(limit, WAY_ALL, WAY_RATIO)
    for count in [*(count for count in counts if count > here), limit + 1]:
        if search.out_of_work or (demand.request.aim.fewest and search.best is not None):
            return
        some = filled(demand, options, chosen, min(count, limit))
        if len(some):
            size = max(1, min(CHUNK, CELLS_MAX // len(chosen)))
            for first in range(0, len(some), size):
                search.offer(options.pick(some[first : first + size]))
            chosen = some[-1]
        if count <= limit:
            chosen = _exchanged(search, options, chosen, count)


def _exchanged(search: Search, options: Options, chosen: Ints, cores: int) -> Ints:
    """Return an allocation improved by exchanges on at most `cores` cores: those first that promise most."""
    demand, now = search.demand, search.offer(options.pick(chosen[None]))
    for _ in range(QUEUED_ROUNDS if demand.queued else ROUNDS_MAX):
        values, takers = linearised(demand, options, chosen)
        moves = best_moves(options, values, chosen, cores, takers)
        if now is None or not len(moves) or search.out_of_work:
            break
        best = search.offer(options.pick(moves))
        if best is None or not best[0].score < now[0].score - TIE * abs(now[0].score):
            break
        now, chosen = best, _indices(options, best[1])
    return chosen
