"""The complete analysis, Fig. 2 of Adve and Vernon, of any policy: overheads for the set of running tasks, anew at each event.

With overheads what remains of a demand is a float; a completion is rounded to whole ticks, half to even, and all tasks whose
rounded end is the same are drained together. Without them all are whole numbers, and the result is that of `loops`, tick for
tick.

Where all tasks are alike they all progress at one pace, and a single clock of progress serves: a task ends when the clock has
moved by its demand, so that an event costs O(log P). Otherwise r_i falls by elapsed r_i / (r_i + D_i) for each: O(P) an event.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush

import numpy as np

from advisor.domain import limits
from advisor.errors import InvalidValue
from advisor.simulation.loops import Trace
from advisor.simulation.policies import NONE, Queue, stuck
from advisor.simulation.program import Program
from advisor.simulation.systems import Common, Lock, Overheads, System


def executed(
    program: Program,
    cores: int,
    queue: Queue,
    contention: System | None = None,
    lock: Lock | None = None,
) -> Trace:
    """Return who runs what and when; parameters as `advisor.simulation.simulate`, `queue` being the policy's, empty.

    Raises InvalidValue when all processors are idle and the policy gives none of them a task though tasks are left, or times
    leave all bounds.
    """
    bound = contention.bind(program.graph) if contention is not None else None
    run = _Run(program, cores, queue, lock)
    if bound is None or isinstance(bound, Common):
        _alike(run, bound)
    else:
        _different(run, bound)
    if run.now > limits.GRAPH_TICKS_MAX:
        raise InvalidValue("contention", run.now, f"a program that ends within {limits.GRAPH_TICKS_MAX} ticks")
    if run.started < program.count:
        raise stuck(program, run.started)
    return Trace(*(np.asarray(found, np.int64) for found in (run.starts, run.finishes, run.processors)))


class _Run:
    """The state of one analysis that both loops share: dispatch, completion and the lock."""

    def __init__(self, program: Program, cores: int, queue: Queue, lock: Lock | None) -> None:
        count = program.count
        self.program, self.queue, self.cores = program, queue, cores
        self.starts, self.finishes, self.processors = [0] * count, [0] * count, [0] * count
        self.idle = list(range(cores))
        self.left = program.waits[:]
        self.now = self.started = 0
        for task in program.roots:
            queue.push_task(task, 0)
        self.lock = _LockState(lock, program.graph.ticks_per_unit) if lock is not None else None

    def dispatched(self) -> list[tuple[int, float]]:
        """Start what the policy gives to idle processors; return each task with its demand in ticks."""
        if not len(self.queue):
            return []
        new: list[tuple[int, float]] = []
        kept: list[int] = []
        take, now, ticks = self.queue.pop_task, self.now, self.program.ticks
        for processor in self.idle:
            task = take(processor) if len(self.queue) else NONE
            if task == NONE:
                kept.append(processor)
                continue
            self.starts[task], self.processors[task] = now, processor
            new.append((task, ticks[task]))
        self.idle = kept
        self.started += len(new)
        if self.lock is not None:
            busy = self.cores - len(kept)
            return [(task, demand + self.lock.charge(now, busy, demand)) for task, demand in new]
        return new

    def complete(self, done: list[int]) -> None:
        """Complete tasks that end now."""
        first, children, left, now = self.program.first, self.program.children, self.left, self.now
        if self.lock is not None:
            self.lock.completed(now, self.cores - len(self.idle), done)
        released: list[tuple[int, int]] = []
        for task in done:
            self.finishes[task] = now
            processor = self.processors[task]
            insort(self.idle, processor)
            for child in children[first[task] : first[task + 1]]:
                left[child] -= 1
                if not left[child]:
                    released.append((child, processor))
        if len(released) > 1:
            released.sort()
        add = self.queue.push_task
        for child, processor in released:
            add(child, processor)


class _LockState:
    """What the lock's model knows of the execution so far."""

    def __init__(self, lock: Lock, ticks_per_unit: int) -> None:
        self._lock, self._unit = lock, ticks_per_unit
        self._busy_ticks, self._since = 0, 0
        self._computing, self._dispatched = 0.0, 0

    def charge(self, now: int, busy: int, demand: float) -> float:
        """Return the ticks that a task dispatched now spends at the lock."""
        self._computing += demand
        self._dispatched += 1
        processes = round(self._busy_ticks / now) if now else busy
        think = self._computing / self._dispatched / self._unit
        return self._lock.residence(max(1, processes), think) * self._unit

    def completed(self, now: int, busy: int, done: list[int]) -> None:
        """Note that the number of busy processes changes now."""
        self._busy_ticks += busy * (now - self._since)
        self._since = now


def _alike(run: _Run, bound: Common | None) -> None:
    """One clock of progress for all running tasks."""
    clock: float = 0  # whole numbers stay whole where nothing costs anything
    running: list[tuple[float, int]] = []
    while True:
        for task, demand in run.dispatched():
            heappush(running, (clock + demand, task))
        if not running:
            return
        pace = 1 if bound is None else 1.0 + bound.ratio(len(running))
        end = running[0][0]
        elapsed = _whole((end - clock) * pace)
        done: list[int] = []
        while running and round((running[0][0] - clock) * pace) <= elapsed:
            done.append(heappop(running)[1])
        run.now += elapsed
        clock += elapsed if bound is None else elapsed / pace
        run.complete(done)


def _different(run: _Run, bound: Overheads) -> None:
    """Each running task at its own pace."""
    running: list[int] = []
    remaining: list[float] = []
    while True:
        for task, demand in run.dispatched():
            running.append(task)
            remaining.append(demand)
        if not running:
            return
        over = bound.overheads(running, remaining)
        ends = [left + more for left, more in zip(remaining, over, strict=True)]
        elapsed = _whole(min(ends))
        run.now += elapsed
        limit = elapsed + 0.5  # rounds to elapsed, or to more: only then is rounding looked at
        done: list[int] = []
        kept: list[int] = []
        rest: list[float] = []
        for task, left, end in zip(running, remaining, ends, strict=True):
            if end <= limit and round(end) <= elapsed:
                done.append(task)
            else:
                kept.append(task)
                rest.append(max(0.0, left - elapsed * (left / end)))
        running, remaining = kept, rest
        if not done:
            raise InvalidValue("contention", min(ends), "overheads that let some task end")
        run.complete(sorted(done))


def _whole(ticks: float) -> int:
    """Return ticks rounded, half to even; raises InvalidValue where they are more than a schedule may have."""
    if not ticks <= limits.GRAPH_TICKS_MAX:
        raise InvalidValue("contention", ticks, f"overheads that end within {limits.GRAPH_TICKS_MAX} ticks")
    return round(ticks)
