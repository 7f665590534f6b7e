"""The analysis in whole ticks without contention: Fig. 2 of Adve and Vernon with D = 0.

One rule for every implementation, compiled ones as well: completions are ordered by (time, task number); all completions of an
instant are drained before anything is dispatched; tasks that become ready in one drain enter the ready list in the order of
their numbers; idle processors ask in the order of theirs. A task of no time is dispatched, and its end is the next drain.

`shared_line`, `shared_stack` and `shared_ranks` return the makespan and keep no timeline: where all processors share one ready
list, it does not matter for the makespan which of them runs what. `queued` runs any policy and records who ran what and when.
A heap entry is ``time * n + task``: one whole number compares faster than a pair.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.simulation.policies import NONE, Queue, stuck
from advisor.simulation.program import Program

Ints = NDArray[np.int64]


class Trace(NamedTuple):
    """Who ran what and when: start and finish in ticks and the processor of each task, (n,) each."""

    starts: Ints
    finishes: Ints
    processors: Ints

    @property
    def makespan(self) -> int:
        """Ticks from the start of the program to its end."""
        return int(self.finishes.max(initial=0))


def shared_line(program: Program, cores: int) -> int:
    """Return the makespan in ticks of `cores` processors that share one first-in first-out ready list.

    Cost O(n log P + m).
    """
    ticks, first, children, count = program.ticks, program.first, program.children, program.count
    left = program.waits[:]
    ready = deque(program.roots)
    add, take = ready.append, ready.popleft
    running: list[int] = []
    now, free = 0, cores
    while True:
        while free and ready:
            task = take()
            heappush(running, (now + ticks[task]) * count + task)
            free -= 1
        if not running:
            return now
        key = heappop(running)
        now = key // count
        limit = (now + 1) * count
        free += 1
        if running and running[0] < limit:
            drained = _drained(program, key - now * count, running, limit, left)
            ready.extend(drained[0])
            free += drained[1]
            continue
        task = key - now * count
        for child in children[first[task] : first[task + 1]]:
            waits = left[child] - 1
            left[child] = waits
            if not waits:
                add(child)


def shared_stack(program: Program, cores: int) -> int:
    """Return the makespan in ticks where the shared ready list is last-in first-out. Cost O(n log P + m)."""
    ticks, count = program.ticks, program.count
    left = program.waits[:]
    ready = program.roots[:]
    running: list[int] = []
    now, free = 0, cores
    while True:
        while free and ready:
            task = ready.pop()
            heappush(running, (now + ticks[task]) * count + task)
            free -= 1
        if not running:
            return now
        key = heappop(running)
        now = key // count
        released, more = _drained(program, key - now * count, running, (now + 1) * count, left)
        ready += released
        free += more + 1


def shared_ranks(program: Program, cores: int, order: list[int]) -> int:
    """Return the makespan in ticks where the ready task that stands first in `order`, a permutation, goes first.

    Cost O(n log n + m).
    """
    ticks, first, children, count = program.ticks, program.first, program.children, program.count
    rank = [0] * count
    for place, task in enumerate(order):
        rank[task] = place
    left = program.waits[:]
    ready = [rank[task] for task in program.roots]
    heapify(ready)
    running: list[int] = []
    now, free = 0, cores
    while True:
        while free and ready:
            task = order[heappop(ready)]
            heappush(running, (now + ticks[task]) * count + task)
            free -= 1
        if not running:
            return now
        key = heappop(running)
        now = key // count
        limit = (now + 1) * count
        free += 1
        while True:
            task = key - now * count
            for child in children[first[task] : first[task + 1]]:
                waits = left[child] - 1
                left[child] = waits
                if not waits:
                    heappush(ready, rank[child])
            if not running or running[0] >= limit:
                break
            key = heappop(running)
            free += 1


def fixed_lists(program: Program, cores: int, order: list[int], owner: list[int], ticks: list[int]) -> list[int]:
    """Return each task's start where every processor works through a list of its own, in order: O(n + m), with no events.

    `order` is one in which parents come before children and each processor's tasks as in its list; `owner` has the processor
    and `ticks` the time of each task on it.
    """
    first, children = program.first, program.children
    starts = [0] * program.count
    done = [0] * cores
    for task in order:
        processor = owner[task]
        start = starts[task]
        if done[processor] > start:
            starts[task] = start = done[processor]
        finish = start + ticks[task]
        done[processor] = finish
        for child in children[first[task] : first[task + 1]]:
            if starts[child] < finish:  # noqa: PLR1730 - a call of max costs more than the rest of the loop
                starts[child] = finish
    return starts


def queued(program: Program, cores: int, queue: Queue, speeds: list[float] | None = None) -> Trace:
    """Return who runs what and when under any policy.

    Parameters
    ----------
    queue : Queue
        The policy's ready tasks (`advisor.simulation.policies`), empty.
    speeds : list of float, optional
        Of the processors, 1 being the speed at which the graph's times hold; a task takes round(time / speed) ticks, and idle
        processors ask fastest first.

    Raises
    ------
    InvalidValue
        When all processors are idle and the policy gives none of them a task though tasks are left.
    """
    count, ticks = program.count, program.ticks
    starts, finishes, processors = [0] * count, [0] * count, [0] * count
    left = program.waits[:]
    for task in program.roots:
        queue.add(task, 0)
    asks = sorted(range(cores), key=lambda p: (-speeds[p], p)) if speeds else list(range(cores))
    place = {processor: at for at, processor in enumerate(asks)}
    idle = list(range(cores))  # places in `asks`, ascending
    running: list[int] = []
    now = started = 0
    while True:
        if len(queue):
            kept: list[int] = []
            for at in idle:
                processor = asks[at]
                task = queue.take(processor) if len(queue) else NONE
                if task == NONE:
                    kept.append(at)
                    continue
                starts[task], processors[task] = now, processor
                finish = now + (ticks[task] if speeds is None else round(ticks[task] / speeds[processor]))
                finishes[task] = finish
                heappush(running, finish * count + task)
                started += 1
            idle = kept
        if not running:
            break
        now = running[0] // count
        released: list[tuple[int, int]] = []
        while running and running[0] < (now + 1) * count:
            task = heappop(running) - now * count
            insort(idle, place[processors[task]])
            for child in program.children[program.first[task] : program.first[task + 1]]:
                left[child] -= 1
                if not left[child]:
                    released.append((child, processors[task]))
        for child, processor in sorted(released):
            queue.add(child, processor)
    if started < count:
        raise stuck(program, started)
    return Trace(*(np.asarray(found, np.int64) for found in (starts, finishes, processors)))


def _drained(program: Program, task: int, running: list[int], limit: int, left: list[int]) -> tuple[list[int], int]:
    """Complete `task` and all others that end before the heap key `limit`; return what became ready, and how many others."""
    first, children, count = program.first, program.children, program.count
    released: list[int] = []
    more = 0
    while True:
        for child in children[first[task] : first[task + 1]]:
            waits = left[child] - 1
            left[child] = waits
            if not waits:
                released.append(child)
        if not running or running[0] >= limit:
            break
        task = heappop(running) % count
        more += 1
    if more:
        released.sort()
    return released, more
