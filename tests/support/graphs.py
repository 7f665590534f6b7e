"""Random task graphs for tests, and an execution in SimPy that shares no code with the analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import simpy
from hypothesis import strategies as st

from advisor.domain.task_graphs import TaskGraph, task_graph

Choose = Callable[[Sequence[int], int], int | None]


@st.composite
def graphs(draw: st.DrawFn, tasks_max: int = 24, time_max: int = 9) -> TaskGraph:
    """Graphs with many ties: small whole times, zeros among them, edges in any direction of the numbers."""
    count = draw(st.integers(1, tasks_max))
    times = draw(st.lists(st.integers(0, time_max), min_size=count, max_size=count))
    position = draw(st.permutations(range(count)))
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=3 * count))
    edges = [(position[min(a, b)], position[max(a, b)]) for a, b in pairs if a != b]
    return task_graph(times, np.asarray(edges, np.int64).reshape(-1, 2), unit="ns")


def parents_of(graph: TaskGraph) -> list[list[int]]:
    """The parents of each task."""
    parents: list[list[int]] = [[] for _ in range(len(graph))]
    for task in range(len(graph)):
        for child in graph.children[graph.first[task] : graph.first[task + 1]].tolist():
            parents[child].append(task)
    return parents


def simpy_makespan(graph: TaskGraph, cores: int, key: Callable[[int, int], Any]) -> int:
    """Execute with SimPy processes: `key(task, arrival)` orders the shared ready list, lowest first.

    One process a running task; a dispatcher that waits until nothing else happens at an instant.
    """
    env = simpy.Environment()
    parents = parents_of(graph)
    left = [len(found) for found in parents]
    children: list[list[int]] = [[] for _ in left]
    for child, found in enumerate(parents):
        for parent in found:
            children[parent].append(child)
    ready: list[tuple[Any, int]] = []
    arrivals = 0
    free = cores
    ended: list[int] = []
    wake = env.event()

    def arrive(tasks: list[int]) -> None:
        nonlocal arrivals
        for task in sorted(tasks):
            ready.append((key(task, arrivals), task))
            arrivals += 1

    def run(task: int) -> Any:
        nonlocal wake
        yield env.timeout(int(graph.ticks[task]))
        ended.append(task)
        if not wake.triggered:
            wake.succeed()

    def dispatcher() -> Any:
        nonlocal free, wake
        arrive([task for task, waits in enumerate(left) if waits == 0])
        while True:
            while free and ready:
                ready.sort()
                free -= 1
                env.process(run(ready.pop(0)[1]))
            if free == cores:
                return
            yield wake
            # All completions of the instant first: SimPy runs events of one time in the order of their making, so
            # a timeout of 0 comes after those that are due now; one for each that a further completion may add.
            while env.peek() == env.now:
                yield env.timeout(0)
                if env.peek() != env.now:
                    break
            wake = env.event()
            done, ended[:] = list(ended), []
            free += len(done)
            released: list[int] = []
            for task in done:
                for child in children[task]:
                    left[child] -= 1
                    if left[child] == 0:
                        released.append(child)
            arrive(released)

    env.process(dispatcher())
    env.run()
    return int(env.now)
