"""Scheduling policies: small objects that say which ready task an idle processor runs next.

A policy gives, for a program and a number of processors, a `Queue` that holds the ready tasks of one analysis, or lists fixed
beforehand. Faster loops know a shared line, stack or ranking, and lists. Your own policy is a function
``choose(ready, processor) -> task or None``, see `CallerPolicy`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue
from advisor.simulation.program import Program

Ints = NDArray[np.int64]
NONE = -1  # no task
MASK_64 = 2**64 - 1
# Which ready task of a shared list goes first: the one that waits longest, shortest, or has the least rank.
LINE, STACK, RANKS = range(3)
Divide = Callable[[Program, int], Ints]  # the processor of each task, (n,), for a program and a number of processors


class Queue(Protocol):
    """The ready tasks of one analysis."""

    def __len__(self) -> int:
        """Return how many tasks are ready and not yet taken."""
        ...

    def push_task(self, task: int, by: int) -> None:
        """Take in a task that became ready when processor `by` completed the last of its parents."""
        ...

    def pop_task(self, processor: int) -> int:
        """Return the task that an idle processor runs next, or `NONE`."""
        ...


class Queued(Protocol):
    """A policy that is asked whenever a processor is idle."""

    @property
    def name(self) -> str:
        """The policy's name, as `advisor simulate --policy` has it."""
        ...

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue for one analysis."""
        ...


class Listed(Protocol):
    """A policy that fixes beforehand what each processor runs, and in which order."""

    @property
    def name(self) -> str:
        """The policy's name."""
        ...

    def lists(self, program: Program, cores: int) -> tuple[Ints, Ints]:
        """Return an order of all tasks in which each processor's come as it runs them, and each task's processor."""
        ...


Policy = Queued | Listed


def stuck(program: Program, started: int) -> InvalidValue:
    """Return the error of a policy that leaves every processor idle though tasks are left."""
    return InvalidValue(
        "policy",
        f"{program.count - started} tasks left",
        "one that gives an idle machine a ready task",
        "a policy may let a processor wait only while another one works",
    )


# Ready lists.


class Ready:
    """Ready tasks in one list, or in one for each process; of a list the task of the least key goes first.

    Parameters
    ----------
    key : callable
        Of a task, by the task and the number of those that came before it.
    of : sequence of int, optional
        The list of each task. A process takes from its own.
    move : bool
        Where a process's list is empty, it goes back to the one that it began with, else to the one with the
        fewest processes (paper 4, 5.3).
    """

    def __init__(
        self, key: Callable[[int, int], int], cores: int, of: Sequence[int] | None = None, *, move: bool = False
    ) -> None:
        self._key, self._of, self._move = key, of, move
        self._arrivals = count()
        self._lists: list[list[tuple[int, int]]] = [[] for _ in range(1 if of is None else cores)]
        self._at = [0] * cores if of is None else list(range(cores))  # the list that each process works on
        self._workers = [1] * cores
        self._ready = 0

    def __len__(self) -> int:
        return self._ready

    def push_task(self, task: int, by: int) -> None:
        """Insert a task into its list."""
        tasks = self._lists[0 if self._of is None else self._of[task]]
        heappush(tasks, (self._key(task, next(self._arrivals)), task))
        self._ready += 1

    def pop_task(self, processor: int) -> int:
        """Return the first task of the process's list, or of the one to which it moves."""
        at = self._at[processor]
        if not self._lists[at]:
            if not (self._move and self._ready):
                return NONE
            filled = [place for place, tasks in enumerate(self._lists) if tasks]
            to = processor if self._lists[processor] else min(filled, key=self._workers.__getitem__)
            self._workers[at] -= 1
            self._workers[to] += 1
            self._at[processor] = at = to
        self._ready -= 1
        return heappop(self._lists[at])[1]


Keys = Callable[[Program], Callable[[int, int], int]]


def arrival(_: Program) -> Callable[[int, int], int]:
    """First in, first out."""
    return lambda _, at: at


def latest(_: Program) -> Callable[[int, int], int]:
    """Last in, first out."""
    return lambda _, at: -at


def largest(program: Program) -> Callable[[int, int], int]:
    """First in, first out, but the longest task of each loop is put at the head (paper 4, 5.1)."""
    heads = largest_of_loop(program).tolist()
    return lambda task, at: -at if heads[task] else at


@dataclass(frozen=True, slots=True)
class Ordered:
    """Ready tasks by the key that `keys` gives for a program, in one list or as `divide` says in one for each process.

    `move` lets processes go to other lists; `loop` says which of the faster loops knows it.
    """

    name: str
    keys: Keys = arrival
    divide: Divide | None = None
    move: bool = False
    loop: int | None = None

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        of = None if self.divide is None else self.divide(program, cores).tolist()
        return Ready(self.keys(program), cores, of, move=self.move)


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
        ranks: list[int] = np.argsort(self.order(program)).tolist()
        return Ready(lambda task, _: ranks[task], cores)


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


# Lists fixed beforehand.


class Lists:
    """One list a processor, worked through in order: a processor waits for the next task of its own list.

    `order`: all tasks, each processor's as it runs them; `owner`: each task's processor, (n,).
    """

    def __init__(self, order: Ints, owner: Ints, cores: int) -> None:
        self._lists: list[list[int]] = [[] for _ in range(cores)]
        of = owner.tolist()
        for task in order.tolist():
            self._lists[of[task]].append(task)
        self._at = [0] * cores
        self._ready = set[int]()

    def __len__(self) -> int:
        return len(self._ready)

    def push_task(self, task: int, by: int) -> None:
        """Note that a task is ready."""
        self._ready.add(task)

    def pop_task(self, processor: int) -> int:
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
    divide: Divide

    def lists(self, program: Program, cores: int) -> tuple[Ints, Ints]:
        """Return an order of all tasks in which each processor's come as it runs them, and each task's processor."""
        return program.graph.order, self.divide(program, cores)


# Work stealing.


def splitmix(seed: int) -> Iterator[int]:
    """Yield pseudo-random numbers from 0 to 2**64 - 1, the same everywhere (Steele, Lea and Flood 2014)."""
    state = seed & MASK_64
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK_64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK_64
        yield z ^ (z >> 31)


class Deques:
    """One deque a process: its owner works at the end where it adds, thieves at the other."""

    def __init__(self, cores: int, seed: int) -> None:
        self._deques = [deque[int]() for _ in range(cores)]
        self._random = splitmix(seed)
        self._ready = 0

    def __len__(self) -> int:
        return self._ready

    def push_task(self, task: int, by: int) -> None:
        """Push a task onto the deque of the process that made it ready."""
        self._deques[by].append(task)
        self._ready += 1

    def pop_task(self, processor: int) -> int:
        """Return the newest task of the process's own deque, else the oldest of a victim's, chosen at random."""
        if not self._ready:
            return NONE
        self._ready -= 1
        if self._deques[processor]:
            return self._deques[processor].pop()
        victims = [deque_ for deque_ in self._deques if deque_]
        return victims[next(self._random) % len(victims)].popleft()


@dataclass(frozen=True, slots=True)
class WorkStealing:
    """A deque a process; who has nothing steals the oldest task of a victim drawn at random from those that have some.

    A steal costs no time here: what it costs in a program belongs into the task times. The same seed gives the same execution.
    """

    seed: int = 0
    name: str = "work_stealing"

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return Deques(cores, self.seed)


# The caller's own.


class _ChosenQueue:
    def __init__(self, choose: Callable[[Sequence[int], int], int | None]) -> None:
        self._choose = choose
        self._ready: list[int] = []

    def __len__(self) -> int:
        return len(self._ready)

    def push_task(self, task: int, by: int) -> None:
        """Append a task."""
        self._ready.append(task)

    def pop_task(self, processor: int) -> int:
        """Return the task that the function chose."""
        task = self._choose(tuple(self._ready), processor)
        if task is None:
            return NONE
        if task not in self._ready:
            raise InvalidValue("policy", task, "None, or one of the ready tasks")
        self._ready.remove(task)
        return int(task)


@dataclass(frozen=True, slots=True)
class CallerPolicy:
    """A function of yours: ``choose(ready, processor)`` returns one of the ready tasks, in order of arrival, or None to
    wait."""

    choose: Callable[[Sequence[int], int], int | None]
    name: str = "chosen"

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return _ChosenQueue(self.choose)
