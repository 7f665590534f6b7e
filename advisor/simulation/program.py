"""A task graph made ready to be analysed many times: its arrays as lists, its orders and levels, each found once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from advisor.domain.task_graphs import TaskGraph, checked_graph

Ints = NDArray[np.int64]


class Program:
    """A graph and what every analysis of it needs. Plain lists: a loop in Python reads them three times as fast as arrays."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.count = len(checked_graph(graph))

    @cached_property
    def ticks(self) -> list[int]:
        """Each task's time."""
        return self.graph.ticks.tolist()

    @cached_property
    def first(self) -> list[int]:
        """Where each task's children begin, and an end."""
        return self.graph.first.tolist()

    @cached_property
    def children(self) -> list[int]:
        """The children of all tasks."""
        return self.graph.children.tolist()

    @cached_property
    def waits(self) -> list[int]:
        """Number of parents of each task."""
        return self.graph.waits.tolist()

    @cached_property
    def roots(self) -> list[int]:
        """Tasks that wait for none, ascending."""
        return np.flatnonzero(self.graph.waits == 0).tolist()

    @cached_property
    def order(self) -> list[int]:
        """The tasks in program order."""
        return self.graph.order.tolist()

    @cached_property
    def position(self) -> Ints:
        """Each task's place in program order, (n,)."""
        position = np.empty(self.count, np.int64)
        position[self.graph.order] = np.arange(self.count)
        return position

    @cached_property
    def work(self) -> int:
        """Ticks of all tasks together, T1."""
        return int(self.graph.ticks.sum())

    @cached_property
    def bottom_levels(self) -> Ints:
        """Ticks of the longest path from each task's start to the end of the program."""
        first, children, found = self.first, self.children, self.ticks[:]
        for task in reversed(self.order):
            start, end = first[task], first[task + 1]
            if start != end:
                best = found[children[start]]
                for child in children[start + 1 : end]:
                    if found[child] > best:  # noqa: PLR1730 - a call of max costs more than the rest of the loop
                        best = found[child]
                found[task] += best
        return np.asarray(found, np.int64)

    @cached_property
    def span(self) -> int:
        """Ticks of the longest path, T-infinity: what no number of processors goes below."""
        return int(self.bottom_levels.max(initial=0))

    @cached_property
    def depths(self) -> Ints:
        """Number of precedences on the longest way to each task: tasks of one depth are independent of each other."""
        first, children = self.first, self.children
        found = [0] * self.count
        for task in self.order:
            deeper = found[task] + 1
            for child in children[first[task] : first[task + 1]]:
                if found[child] < deeper:  # noqa: PLR1730 - as above
                    found[child] = deeper
        return np.asarray(found, np.int64)

    @cached_property
    def parents(self) -> Ints:
        """The parent of each entry of ``graph.children``."""
        return np.repeat(np.arange(self.count), np.diff(self.graph.first))

    def ready_at(self, finishes: Ints) -> Ints:
        """Return when each task became ready: when the last of its parents was done, 0 where it has none."""
        ready = np.zeros(self.count, np.int64)
        np.maximum.at(ready, self.graph.children, finishes[self.parents])
        return ready
