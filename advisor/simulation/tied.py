"""Tied tasks: strands that must stay on one processor, the one that ran the first of them (column ``tied``).

A processor whose own strand is ready goes on with it before it takes anything new, the one that was begun last first: a runtime
that runs tasks on top of a suspended one comes back to the topmost.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import cast

import numpy as np
from numpy.typing import NDArray

from advisor.simulation.divisions import checked_owner
from advisor.simulation.policies import NONE, Listed, Lists, Policy, Queue, Queued
from advisor.simulation.program import Program

Ints = NDArray[np.int64]


def groups_of(program: Program) -> Ints | None:
    """Return which strands stay together, (n,) numbers with -1 for none; None where no two do."""
    groups = program.graph.columns.get("tied")
    return groups if groups is not None and bool((groups >= 0).any()) else None


def queue_of(policy: Policy, program: Program, cores: int) -> Queue:
    """Return a policy's empty queue, which keeps tied strands together."""
    if not hasattr(policy, "queue"):
        return Lists(*lists_of(cast("Listed", policy), program, cores), cores)
    policy = cast("Queued", policy)
    groups, queue = groups_of(program), policy.queue(program, cores)
    return queue if groups is None else TiedQueue(queue, groups.tolist(), cores)


def lists_of(policy: Listed, program: Program, cores: int) -> tuple[Ints, Ints]:
    """Return a static policy's order and processors; tied strands go where the first of them does."""
    order, owner = policy.lists(program, cores)
    checked_owner(owner, program, cores)
    groups = groups_of(program)
    if groups is None:
        return order, owner
    home: dict[int, int] = {}
    found = owner.copy()
    of, owners = groups.tolist(), owner.tolist()
    for task in order.tolist():
        if of[task] >= 0:
            found[task] = home.setdefault(of[task], owners[task])
    return order, found


class TiedQueue:
    """A policy's queue, and for each processor the strands that only it may run."""

    def __init__(self, queue: Queue, groups: list[int], cores: int) -> None:
        self._queue = queue
        self._groups = groups
        self._home: dict[int, tuple[int, int]] = {}  # of a group: its processor, and how many were begun before it
        self._bound: list[list[tuple[int, int]]] = [[] for _ in range(cores)]
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._queue) + self._waiting

    def push_task(self, task: int, by: int) -> None:
        """Give a strand to the processor of its group, the first of a group to the policy."""
        group = self._groups[task]
        if group in self._home:
            processor, begun = self._home[group]
            heappush(self._bound[processor], (-begun, task))
            self._waiting += 1
        else:
            self._queue.push_task(task, by)

    def pop_task(self, processor: int) -> int:
        """Return the processor's own strand that was begun last, else what the policy says."""
        if self._bound[processor]:
            self._waiting -= 1
            return heappop(self._bound[processor])[1]
        if not len(self._queue):
            return NONE
        task = self._queue.pop_task(processor)
        if task != NONE and self._groups[task] >= 0:
            self._home[self._groups[task]] = (processor, len(self._home))
        return task
