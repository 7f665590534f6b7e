"""The loops of `loops` compiled with numba (the extra ``fast``): the same rule, the same makespans, tick for tick.

The running tasks stand in a binary heap ordered by (time, task). Everything is an array; nothing is allocated within a loop.
"""

# numba has no types of its own to offer.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false, reportUntypedFunctionDecorator=false, reportMissingImports=false
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
from numba import njit  # type: ignore[import-not-found]
from numpy.typing import NDArray

from advisor.domain.task_graphs import TaskGraph
from advisor.simulation import stealing

Ints = NDArray[np.int64]
compiled = njit(cache=True, nogil=True, boundscheck=False)


def shared_line(graph: TaskGraph, cores: int) -> int:
    """Return what `advisor.simulation.loops.shared_line` returns."""
    return int(_line(graph.ticks, graph.first, graph.children, graph.waits, cores))


def shared_stack(graph: TaskGraph, cores: int) -> int:
    """Return what `advisor.simulation.loops.shared_stack` returns."""
    return int(_stack(graph.ticks, graph.first, graph.children, graph.waits, cores))


def shared_ranks(graph: TaskGraph, cores: int, order: Ints) -> int:
    """Return what `advisor.simulation.loops.shared_ranks` returns."""
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return int(_ranks(graph.ticks, graph.first, graph.children, graph.waits, cores, order, rank))


def fixed_lists(graph: TaskGraph, cores: int, order: Ints, owner: Ints) -> int:
    """Return the makespan of `advisor.simulation.loops.fixed_lists`."""
    return int(_lists(graph.ticks, graph.first, graph.children, cores, order, owner))


@compiled
def _push(times: Any, tasks: Any, size: Any, time: Any, task: Any) -> None:
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if times[up] < time or (times[up] == time and tasks[up] < task):
            break
        times[at], tasks[at] = times[up], tasks[up]
        at = up
    times[at], tasks[at] = time, task


@compiled
def _pop(times: Any, tasks: Any, size: Any) -> None:
    """Take the first entry out of a heap of `size`."""
    last = size - 1
    time, task = times[last], tasks[last]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= last:
            break
        right = down + 1
        if right < last and (
            times[right] < times[down] or (times[right] == times[down] and tasks[right] < tasks[down])
        ):
            down = right
        if time < times[down] or (time == times[down] and task < tasks[down]):
            break
        times[at], tasks[at] = times[down], tasks[down]
        at = down
    times[at], tasks[at] = time, task


@compiled
def _line(ticks: Any, first: Any, children: Any, waits: Any, cores: Any) -> Any:
    count = len(ticks)
    left = waits.copy()
    ready = np.empty(count, np.int64)  # every task enters once: a line without a wrap
    head = tail = 0
    for task in range(count):
        if left[task] == 0:
            ready[tail] = task
            tail += 1
    room = min(cores, count) + 1
    times, tasks = np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    now = 0
    while True:
        while size < cores and head < tail:
            task = ready[head]
            head += 1
            _push(times, tasks, size, now + ticks[task], task)
            size += 1
        if size == 0:
            return now
        now = times[0]
        begin = tail
        drained = 0
        while size > 0 and times[0] == now:
            task = tasks[0]
            _pop(times, tasks, size)
            size -= 1
            drained += 1
            for at in range(first[task], first[task + 1]):
                child = children[at]
                left[child] -= 1
                if left[child] == 0:
                    ready[tail] = child
                    tail += 1
        if drained > 1 and tail - begin > 1:
            ready[begin:tail].sort()


@compiled
def _stack(ticks: Any, first: Any, children: Any, waits: Any, cores: Any) -> Any:
    count = len(ticks)
    left = waits.copy()
    ready = np.empty(count, np.int64)
    top = 0
    for task in range(count):
        if left[task] == 0:
            ready[top] = task
            top += 1
    room = min(cores, count) + 1
    times, tasks = np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    now = 0
    while True:
        while size < cores and top > 0:
            top -= 1
            task = ready[top]
            _push(times, tasks, size, now + ticks[task], task)
            size += 1
        if size == 0:
            return now
        now = times[0]
        begin = top
        drained = 0
        while size > 0 and times[0] == now:
            task = tasks[0]
            _pop(times, tasks, size)
            size -= 1
            drained += 1
            for at in range(first[task], first[task + 1]):
                child = children[at]
                left[child] -= 1
                if left[child] == 0:
                    ready[top] = child
                    top += 1
        if drained > 1 and top - begin > 1:
            ready[begin:top].sort()


@compiled
def _ranks(ticks: Any, first: Any, children: Any, waits: Any, cores: Any, order: Any, rank: Any) -> Any:
    count = len(ticks)
    left = waits.copy()
    ready, unused = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    waiting = 0
    for task in range(count):
        if left[task] == 0:
            _push(ready, unused, waiting, rank[task], 0)
            waiting += 1
    room = min(cores, count) + 1
    times, tasks = np.empty(room, np.int64), np.empty(room, np.int64)
    size = 0
    now = 0
    while True:
        while size < cores and waiting > 0:
            task = order[ready[0]]
            _pop(ready, unused, waiting)
            waiting -= 1
            _push(times, tasks, size, now + ticks[task], task)
            size += 1
        if size == 0:
            return now
        now = times[0]
        while size > 0 and times[0] == now:
            task = tasks[0]
            _pop(times, tasks, size)
            size -= 1
            for at in range(first[task], first[task + 1]):
                child = children[at]
                left[child] -= 1
                if left[child] == 0:
                    _push(ready, unused, waiting, rank[child], 0)
                    waiting += 1


@compiled
def _lists(ticks: Any, first: Any, children: Any, cores: Any, order: Any, owner: Any) -> Any:
    ready = np.zeros(len(ticks), np.int64)
    done = np.zeros(cores, np.int64)
    most = 0
    for place in range(len(order)):
        task = order[place]
        processor = owner[task]
        finish = max(ready[task], done[processor]) + ticks[task]
        done[processor] = finish
        most = max(most, finish)
        for at in range(first[task], first[task + 1]):
            child = children[at]
            ready[child] = max(ready[child], finish)
    return most


def _same_source() -> Any:
    """Return the loop of `advisor.simulation.stealing` compiled, and what it calls: the same numbers, for the same source."""
    namespace = dict(vars(stealing))
    made: Any = None
    for function in (*stealing.HELPERS, stealing.execute):
        made = compiled(FunctionType(function.__code__, namespace, function.__name__))
        namespace[function.__name__] = made
    return made


stolen = _same_source()
