"""A schedule fixed beforehand: HEFT's."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.simulation.program import Program

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Heft:
    """Heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002) on equal processors, without communication costs.

    Tasks by falling bottom level; each goes where it ends first, into a gap if one is long enough; the schedule so found is
    then executed as an enumeration. Cost O(n P log n).
    """

    name: str = "heft"

    def lists(self, program: Program, cores: int) -> tuple[Ints, Ints]:
        """Return an order of all tasks in which each processor's come as it runs them, and each task's processor."""
        ranked = np.lexsort((program.position, -program.bottom_levels))
        starts, owner = self.schedule(program, cores, ranked)
        # A task of no time comes before one that starts at the same instant, and after its parents.
        return np.lexsort((np.argsort(ranked), program.graph.ticks > 0, starts)), owner

    def schedule(self, program: Program, cores: int, ranked: Ints) -> tuple[Ints, Ints]:
        """Return the planned start and the processor of each task, planned in the order given."""
        ticks, first, children = program.ticks, program.first, program.children
        ready, starts, owner = ([0] * program.count for _ in range(3))
        plans = [_Plan() for _ in range(cores)]
        order: list[int] = ranked.tolist()
        for task in order:
            found = [plan.earliest(ready[task], ticks[task]) for plan in plans]
            starts[task] = min(found)
            owner[task] = found.index(starts[task])
            finish = starts[task] + ticks[task]
            plans[owner[task]].place_task(starts[task], finish)
            for child in children[first[task] : first[task + 1]]:
                ready[child] = max(ready[child], finish)
        return np.asarray(starts, np.int64), np.asarray(owner, np.int64)


class _Plan:
    """What is planned on one processor: the gaps between its tasks, ascending, and when the last of them ends."""

    def __init__(self) -> None:
        self._gaps: list[tuple[int, int]] = []  # (end, start): of those that end too early none is looked at
        self._end = 0

    def earliest(self, ready: int, length: int) -> int:
        """Return the first start from `ready` on at which `length` ticks fit."""
        gaps = self._gaps
        for place in range(bisect_left(gaps, (ready + length, -1)), len(gaps)):
            end, start = gaps[place]
            at = max(ready, start)
            if at + length <= end:
                return at
        return max(ready, self._end)

    def place_task(self, start: int, finish: int) -> None:
        """Plan a task there."""
        if start >= self._end:
            if start > self._end:
                self._gaps.append((start, self._end))
            self._end = finish
        elif finish > start:
            place = bisect_left(self._gaps, (finish, -1))
            while self._gaps[place][1] > start:
                place += 1
            end, begin = self._gaps.pop(place)
            self._gaps[place:place] = [gap for gap in ((start, begin), (end, finish)) if gap[0] > gap[1]]
