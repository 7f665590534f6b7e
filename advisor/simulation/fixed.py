"""Schedules fixed beforehand: an enumeration of the caller's, and HEFT's for processors of different speeds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.domain.task_graphs import task_graph
from advisor.errors import InvalidValue
from advisor.simulation.policies import Lists, Queue, listed
from advisor.simulation.program import Program

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Enumerated:
    """Each processor's tasks, listed by the caller: ``lists[p]`` is run by processor p in that order.

    Raises InvalidValue, when it is analysed, for tasks that are missing or twice, another number of processors, or lists that
    wait for each other for ever (the tasks are named).
    """

    tasks: Sequence[Sequence[int]]
    name: str = "enumerated"

    def lists(self, program: Program, cores: int) -> tuple[list[int], Ints]:
        """Return an order of all tasks in which each processor's come as it runs them, and each task's processor."""
        if len(self.tasks) > cores:
            raise InvalidValue("policy", len(self.tasks), f"lists for at most {cores} processors")
        flat = [task for mine in self.tasks for task in mine]
        if sorted(flat) != list(range(program.count)):
            raise InvalidValue("policy", f"{len(flat)} tasks listed", f"each of the {program.count} tasks once")
        owner = np.empty(program.count, np.int64)
        for processor, mine in enumerate(self.tasks):
            owner[np.asarray(mine, np.int64)] = processor
        return joined_order(program, self.tasks), owner

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        order, owner = self.lists(program, cores)
        return Lists(listed(order, owner, cores))


def joined_order(program: Program, lists: Sequence[Sequence[int]]) -> list[int]:
    """Return an order that respects the precedences and each list; raises InvalidValue naming tasks that wait in a circle."""
    graph = program.graph
    chains = [pair for mine in lists for pair in zip(mine, mine[1:], strict=False)]
    edges = np.column_stack([program.parents, graph.children])
    both = np.concatenate([edges, np.asarray(chains, np.int64).reshape(-1, 2)])
    return task_graph(np.zeros(program.count), both, names=graph.names).order.tolist()


@dataclass(frozen=True, slots=True)
class Heft:
    """Heterogeneous earliest finish time (Topcuoglu, Hariri and Wu 2002) without communication costs.

    Tasks by falling upward rank (bottom level at the mean speed); each goes where it ends first, into a gap if one is long
    enough; the schedule so found is then executed as an enumeration. Cost O(n P log n).
    """

    speeds: tuple[float, ...] = ()
    name: str = "heft"

    def lists(self, program: Program, cores: int) -> tuple[list[int], Ints]:
        """Return an order of all tasks in which each processor's come as it runs them, and each task's processor."""
        starts, owner = self._scheduled(program, cores)
        # A task of no time comes before one that starts at the same instant, and after its parents.
        order = np.lexsort((self._rank(program), program.graph.ticks > 0, starts))
        return order.tolist(), owner

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        order, owner = self.lists(program, cores)
        return Lists(listed(order, owner, cores))

    def _rank(self, program: Program) -> Ints:
        position = np.empty(program.count, np.int64)
        position[program.graph.order] = np.arange(program.count)
        by_level = np.lexsort((position, -program.bottom_levels))
        rank = np.empty(program.count, np.int64)
        rank[by_level] = np.arange(program.count)
        return rank

    def _scheduled(self, program: Program, cores: int) -> tuple[Ints, Ints]:
        if self.speeds and len(self.speeds) != cores:
            raise InvalidValue("speeds", len(self.speeds), f"one a processor, {cores}")
        speeds = self.speeds or (1.0,) * cores
        ticks, first, children = program.ticks, program.first, program.children
        ready = [0] * program.count
        starts, owner = np.zeros(program.count, np.int64), np.zeros(program.count, np.int64)
        busy: list[list[tuple[int, int]]] = [[] for _ in range(cores)]  # (start, end) of each processor, ascending
        for task in np.argsort(self._rank(program)).tolist():
            best = (0, 0, 0, -1)  # finish, start, place, processor
            for processor, speed in enumerate(speeds):
                length = ticks[task] if speed == 1.0 else round(ticks[task] / speed)
                start, place = _gap(busy[processor], ready[task], length)
                if best[3] < 0 or start + length < best[0]:
                    best = (start + length, start, place, processor)
            finish, start, place, processor = best
            busy[processor].insert(place, (start, finish))
            starts[task], owner[task] = start, processor
            for child in children[first[task] : first[task + 1]]:
                ready[child] = max(ready[child], finish)
        return starts, owner


def _gap(busy: list[tuple[int, int]], ready: int, length: int) -> tuple[int, int]:
    """Return the first start from `ready` on at which `length` ticks fit between the busy intervals, and its place among them."""
    place = bisect_left(busy, (ready, ready))
    at = max(ready, busy[place - 1][1]) if place else ready
    while place < len(busy) and at + length > busy[place][0]:
        at = max(at, busy[place][1])
        place += 1
    return at, place
