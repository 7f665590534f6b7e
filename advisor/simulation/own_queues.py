"""Policies in which each process has a queue of its own: without switching, semi-static by regions, and work stealing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np
from numpy.typing import NDArray

from advisor.simulation.draws import splitmix
from advisor.simulation.policies import NONE, Queue
from advisor.simulation.program import Program

Ints = NDArray[np.int64]


class OwnQueues:
    """One first-in first-out queue a process; nobody takes from another's."""

    def __init__(self, owner: Sequence[int], cores: int) -> None:
        self._owner = owner
        self._queues = [deque[int]() for _ in range(cores)]
        self._ready = 0

    def __len__(self) -> int:
        return self._ready

    def add(self, task: int, by: int) -> None:
        """Append a task to its owner's queue."""
        self._queues[self._owner[task]].append(task)
        self._ready += 1

    def take(self, processor: int) -> int:
        """Return the first task of the processor's own queue."""
        mine = self._queues[processor]
        if not mine:
            return NONE
        self._ready -= 1
        return mine.popleft()


@dataclass(frozen=True, slots=True)
class OwnQueue:
    """A queue of its own for each process, no switching; within it, first ready first."""

    name: str
    divide: Callable[[Program, int], Ints]

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        return OwnQueues(self.divide(program, cores).tolist(), cores)


class Regions:
    """One queue a region, as many regions as processes; a process whose queue is empty moves (paper 4, 5.3)."""

    def __init__(self, region: Sequence[int], cores: int, rank: Sequence[int] | None) -> None:
        self._region = region
        self._rank = rank
        self._arrivals = count()
        self._queues: list[list[tuple[int, int]]] = [[] for _ in range(cores)]
        self._at = list(range(cores))  # the queue that each process works on
        self._workers = [1] * cores
        self._ready = 0

    def __len__(self) -> int:
        return self._ready

    def add(self, task: int, by: int) -> None:
        """Insert a task into the queue of its region."""
        key = self._rank[task] if self._rank else next(self._arrivals)
        heappush(self._queues[self._region[task]], (key, task))
        self._ready += 1

    def take(self, processor: int) -> int:
        """Return the next task of the process's queue; if that is empty, of its own, else of the one with fewest processes."""
        if not self._ready:
            return NONE
        at = self._at[processor]
        if not self._queues[at]:
            own = self._queues[processor]
            filled = [region for region, queue in enumerate(self._queues) if queue]
            to = processor if own else min(filled, key=self._workers.__getitem__)
            self._workers[at] -= 1
            self._workers[to] += 1
            self._at[processor] = at = to
        self._ready -= 1
        return heappop(self._queues[at])[1]


@dataclass(frozen=True, slots=True)
class SemiStatic:
    """A queue a process to begin with; when it is empty, the process goes to the queue with the fewest processes.

    `divide` gives each task's region; `longest_first` orders each queue by time (Fig. 12) in place of arrival.
    """

    name: str
    divide: Callable[[Program, int], Ints]
    longest_first: bool = False

    def queue(self, program: Program, cores: int) -> Queue:
        """Return an empty queue."""
        rank = None
        if self.longest_first:
            rank = np.empty(program.count, np.int64)
            rank[np.argsort(-program.graph.ticks, kind="stable")] = np.arange(program.count)
        return Regions(self.divide(program, cores).tolist(), cores, rank.tolist() if rank is not None else None)


class Deques:
    """One deque a process: its owner works at the end where it adds, thieves at the other."""

    def __init__(self, cores: int, seed: int) -> None:
        self._deques = [deque[int]() for _ in range(cores)]
        self._random = splitmix(seed)
        self._ready = 0

    def __len__(self) -> int:
        return self._ready

    def add(self, task: int, by: int) -> None:
        """Push a task onto the deque of the process that made it ready."""
        self._deques[by].append(task)
        self._ready += 1

    def take(self, processor: int) -> int:
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
