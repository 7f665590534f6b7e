"""Scheduling policies: small objects that say which ready task an idle processor runs next.

A policy gives, for a program and a number of processors, a `Queue` that holds the ready tasks of one analysis. Four forms of
policy are known to faster loops as well: a shared line, stack or ranking, and lists fixed beforehand. Your own policy is a
function ``choose(ready, processor) -> task or None``, see `Chosen`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue
from advisor.simulation.program import Program

Ints = NDArray[np.int64]
NONE = -1  # no task


class Queue(Protocol):
    """The ready tasks of one analysis."""

    def __len__(self) -> int:
        """Return how many tasks are ready and not yet taken."""
        ...

    def add(self, task: int, by: int) -> None:
        """Take in a task that became ready when processor `by` completed the last of its parents."""
        ...

    def take(self, processor: int) -> int:
        """Return the task that an idle processor runs next, or `NONE`."""
        ...


class Policy(Protocol):
    """How ready tasks go to processors."""

    @property
    def name(self) -> str:
        """The policy's name, as `advisor simulate --policy` has it."""
        ...

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue for one analysis."""
        ...


def stuck(program: Program, started: int) -> InvalidValue:
    """Return the error of a policy that leaves every processor idle though tasks are left."""
    return InvalidValue(
        "policy",
        f"{program.count - started} tasks left",
        "one that gives an idle machine a ready task",
        "a policy may let a processor wait only while another one works",
    )


# Shared ready lists.


class Line:
    """A first-in first-out ready list."""

    def __init__(self) -> None:
        self._tasks = deque[int]()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: int, by: int) -> None:
        """Append a task."""
        self._tasks.append(task)

    def take(self, processor: int) -> int:
        """Return the task that has waited longest."""
        return self._tasks.popleft() if self._tasks else NONE


class Stack(Line):
    """A last-in first-out ready list."""

    def take(self, processor: int) -> int:
        """Return the task that came last."""
        return self._tasks.pop() if self._tasks else NONE


class Ranking:
    """A ready list from which the task of the lowest rank goes first."""

    def __init__(self, rank: Sequence[int]) -> None:
        self._rank = rank
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, task: int, by: int) -> None:
        """Insert a task."""
        heappush(self._heap, (self._rank[task], task))

    def take(self, processor: int) -> int:
        """Return the task of the lowest rank."""
        return heappop(self._heap)[1] if self._heap else NONE


@dataclass(frozen=True, slots=True)
class Fifo:
    """One ready list, first in first out: the dynamic task queue of LocusRoute and Polyroots in paper 4."""

    name: str = "fifo"

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return Line()


@dataclass(frozen=True, slots=True)
class Lifo:
    """One ready list, last in first out."""

    name: str = "lifo"

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return Stack()


@dataclass(frozen=True, slots=True)
class Ranked:
    """One ready list; the task of the highest priority goes first, of equal ones the lowest number.

    `priority` gives (n,) numbers for a program.
    """

    name: str
    priority: Callable[[Program], NDArray[np.int64] | NDArray[np.float64]]

    def order(self, program: Program) -> Ints:
        """Return the tasks, highest priority first."""
        return np.argsort(-np.asarray(self.priority(program)), kind="stable")

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        rank = np.empty(program.count, np.int64)
        rank[self.order(program)] = np.arange(program.count)
        return Ranking(rank.tolist())


def task_time(program: Program) -> Ints:
    """Longest processing time first (LPT)."""
    return program.graph.ticks


def largest_of_loop(program: Program) -> Ints:
    """Only the longest task of each loop (of the whole graph where it has no loops) goes before the others, which keep their
    order."""
    graph = program.graph
    loops = graph.columns.get("loop", np.zeros(program.count, np.int64))
    by_time = np.lexsort((np.arange(program.count), -graph.ticks, loops))
    sorted_loops = loops[by_time]
    leads = np.ones(program.count, bool)
    leads[1:] = sorted_loops[1:] != sorted_loops[:-1]
    found = np.zeros(program.count, np.int64)
    found[by_time[leads]] = 1
    return found


def bottom_level(program: Program) -> Ints:
    """The longest way to the end of the program, the task's own time included: critical path first."""
    return program.bottom_levels


class _LargestLine:
    """A first-in first-out ready list that some tasks enter at the head."""

    def __init__(self, heads: Sequence[int]) -> None:
        self._heads = heads
        self._tasks = deque[int]()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: int, by: int) -> None:
        """Append a task, or put it at the head."""
        (self._tasks.appendleft if self._heads[task] else self._tasks.append)(task)

    def take(self, processor: int) -> int:
        """Return the task at the head."""
        return self._tasks.popleft() if self._tasks else NONE


@dataclass(frozen=True, slots=True)
class LargestFirst:
    """First in first out, but the longest task of each loop is put at the head of the queue (paper 4, 5.1)."""

    name: str = "largest_first"

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return _LargestLine(largest_of_loop(program).tolist())


# Lists fixed beforehand.


class Lists:
    """One list a processor, worked through in order: a processor waits for the next task of its own list."""

    def __init__(self, lists: Sequence[Sequence[int]]) -> None:
        self._lists = lists
        self._at = [0] * len(lists)
        self._ready = set[int]()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, task: int, by: int) -> None:
        """Note that a task is ready."""
        self._ready.add(task)

    def take(self, processor: int) -> int:
        """Return the next task of the processor's list if it is ready."""
        mine, at = self._lists[processor], self._at[processor]
        if at < len(mine) and mine[at] in self._ready:
            self._at[processor] = at + 1
            self._ready.remove(mine[at])
            return mine[at]
        return NONE


@dataclass(frozen=True, slots=True)
class Static:
    """Tasks divided among the processors beforehand; each works through its own in program order.

    `divide` gives the processor of each task, (n,), for a program and a number of processors.
    """

    name: str
    divide: Callable[[Program, int], Ints]

    def lists(self, program: Program, cores: int) -> tuple[list[int], Ints]:
        """Return an order of all tasks in which each processor's come as it runs them, and each task's processor."""
        return program.order, self.divide(program, cores)

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        order, owner = self.lists(program, cores)
        return Lists(listed(order, owner, cores))


def listed(order: Sequence[int], owner: Ints, cores: int) -> list[list[int]]:
    """Return each processor's tasks in order."""
    lists: list[list[int]] = [[] for _ in range(cores)]
    of = owner.tolist()
    for task in order:
        lists[of[task]].append(task)
    return lists


# The caller's own.


class _ChosenQueue:
    def __init__(self, choose: Callable[[Sequence[int], int], int | None]) -> None:
        self._choose = choose
        self._ready: list[int] = []

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, task: int, by: int) -> None:
        """Append a task."""
        self._ready.append(task)

    def take(self, processor: int) -> int:
        """Return the task that the function chose."""
        task = self._choose(tuple(self._ready), processor)
        if task is None:
            return NONE
        if task not in self._ready:
            raise InvalidValue("policy", task, "None, or one of the ready tasks")
        self._ready.remove(task)
        return int(task)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A function of yours: ``choose(ready, processor)`` returns one of the ready tasks, in order of arrival, or None to
    wait."""

    choose: Callable[[Sequence[int], int], int | None]
    name: str = "chosen"

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return _ChosenQueue(self.choose)
