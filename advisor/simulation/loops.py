"""The analysis in whole ticks without contention: Fig. 2 of Adve and Vernon with D = 0.

One rule for all loops: completions are ordered by (time, task number); all completions of an instant are drained before any
task is dispatched; tasks that become ready in one drain enter the ready list in the order of their numbers; idle processors ask
in the order of theirs. A task of no time is dispatched, and its end is the next drain.

`shared_list` and `fixed_lists` are kernels: plain Python on lists, compiled on arrays. They return the makespan; where all
processors share one ready list, it does not matter for it which of them runs what. `executing` runs any policy and records who
ran what and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor import kernels
from advisor.simulation.policies import LINE, RANKS
from advisor.simulation.program import Program

Ints = NDArray[np.int64]

TASKS_A_CALL = (
    16_384  # an analysis of a large graph counts as many interpreted calls: a million tasks take half a second
)


class Trace(NamedTuple):
    """Who ran what and when: start and finish in ticks and the processor of each task, (n,) each."""

    starts: Ints
    finishes: Ints
    processors: Ints

    @property
    def makespan(self) -> int:
        """Ticks from the start of the program to its end."""
        return int(self.finishes.max(initial=0))


# -- kernels ----------------------------------------------------------------------------------------------------------------


def push(keys: Any, tasks: Any, size: int, key: int, task: int) -> None:
    """Put a task into a binary heap of `size` that is ordered by the key alone."""
    at = size
    while at > 0:
        up = (at - 1) >> 1
        if keys[up] <= key:
            break
        keys[at], tasks[at] = keys[up], tasks[up]
        at = up
    keys[at], tasks[at] = key, task


def pop(keys: Any, tasks: Any, size: int) -> None:
    """Take the first entry out of a heap of `size`."""
    last = size - 1
    key, task = keys[last], tasks[last]
    at, down = 0, 1
    while down < last:
        if down + 1 < last and keys[down + 1] < keys[down]:
            down += 1
        if key <= keys[down]:
            break
        keys[at], tasks[at] = keys[down], tasks[down]
        at, down = down, 2 * down + 1
    keys[at], tasks[at] = key, task


def sink(values: Any, begin: int, at: int, size: int) -> None:
    """Move a value of a heap that begins at `begin`, the largest first, below those that are larger."""
    value, down = values[begin + at], 2 * at + 1
    while down < size:
        if down + 1 < size and values[begin + down] < values[begin + down + 1]:
            down += 1
        if values[begin + down] <= value:
            break
        values[begin + at] = values[begin + down]
        at, down = down, 2 * down + 1
    values[begin + at] = value


def sort(values: Any, begin: int, end: int) -> None:
    """Sort a part in place, by a heap: compiled code allocates nothing. Cost O(n log n)."""
    size = end - begin
    for back in range(size // 2):
        sink(values, begin, size // 2 - 1 - back, size)
    while size > 1:
        size -= 1
        values[begin], values[begin + size] = values[begin + size], values[begin]
        sink(values, begin, 0, size)


def shared_list(
    ticks: Any, first: Any, children: Any, left: Any, kind: int, rank: Any, order: Any, ready: Any, ends: Any, running: Any,
    cores: int,
) -> int:  # fmt: skip
    """Return the makespan in ticks of processors that share one ready list. Cost O(n log P + m), `RANKS` O(n log n + m).

    Parameters
    ----------
    ticks, first, children : (n,), (n + 1,), (m,)
        As of `TaskGraph`.
    left : (n,)
        Parents that each task waits for; used up.
    kind : int
        `LINE`, `STACK` or `RANKS`.
    rank, order : (n,)
        Of `RANKS`: each task's rank, and the tasks by rank; otherwise of any length.
    ready : (n,)
        Room for the ready list.
    ends, running : (min(n, cores) + 1,)
        Room for those that run.
    """
    head = tail = size = now = 0
    for task in range(len(ticks)):
        if left[task] == 0:
            if kind == RANKS:  # the ready list is a heap of ranks
                push(ready, ready, tail, rank[task], rank[task])
            else:
                ready[tail] = task
            tail += 1
    while True:
        while size < cores and head < tail:
            if kind == LINE:
                task = ready[head]
                head += 1
            else:
                tail -= 1
                task = ready[tail]
                if kind == RANKS:
                    task = order[ready[0]]
                    pop(ready, ready, tail + 1)
            push(ends, running, size, now + ticks[task], task)
            size += 1
        if size == 0:
            return now
        now = ends[0]
        begin = tail
        drained = 0
        while size > 0 and ends[0] == now:
            task = running[0]
            pop(ends, running, size)
            size -= 1
            drained += 1
            for at in range(first[task], first[task + 1]):
                child = children[at]
                left[child] -= 1
                if left[child] == 0:
                    if kind == RANKS:
                        push(ready, ready, tail, rank[child], rank[child])
                    else:
                        ready[tail] = child
                    tail += 1
        if kind != RANKS and drained > 1 and tail - begin > 1:
            sort(ready, begin, tail)


def fixed_lists(ticks: Any, first: Any, children: Any, order: Any, owner: Any, starts: Any, done: Any) -> int:
    """Find each task's start where every processor works through a list of its own; return the makespan. Cost O(n + m).

    Parameters
    ----------
    ticks, owner : (n,)
        The time of each task on its processor, and which that is.
    order : (n,)
        One in which parents come before children and each processor's tasks as in its list.
    starts, done : (n,), (cores,), zeros
        Out: when each task starts, and when each processor is done.
    """
    most = 0
    for place in range(len(order)):
        task = order[place]
        processor = owner[task]
        start = starts[task]
        if done[processor] > start:
            starts[task] = start = done[processor]
        finish = start + ticks[task]
        done[processor] = finish
        if finish > most:
            most = finish
        for at in range(first[task], first[task + 1]):
            child = children[at]
            if starts[child] < finish:
                starts[child] = finish
    return most


def examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types of the kernels' arguments."""
    ints = np.zeros(1, np.int64)
    yield "shared_list", (ints, ints, ints, ints, LINE, ints, ints, ints, ints, ints, 1)
    yield "fixed_lists", (ints,) * 7


KERNELS = kernels.Source(__name__, (shared_list, fixed_lists), examples)


# -- their callers ----------------------------------------------------------------------------------------------------------


def flat(values: Any) -> Ints:
    """Return whole numbers as compiled kernels take them: in one piece, and not read-only."""
    return np.require(values, np.int64, ("C", "W"))


def shared(program: Program, cores: int, kind: int, order: Ints | None = None) -> int:
    """Return the makespan of processors that share a ready list; `order` has the tasks by rank, for `RANKS`."""
    count, room = program.count, min(program.count, cores) + 1
    order = flat(() if order is None else order)
    rank = np.zeros_like(order)
    rank[order] = np.arange(len(order))
    KERNELS.count(1 + count // TASKS_A_CALL)
    if KERNELS.ready:
        graph, blank = program.graph, np.zeros(count, np.int64)
        arrays = (flat(graph.ticks), flat(graph.first), flat(graph.children), np.array(graph.waits, np.int64))
        ends, running = np.zeros(room, np.int64), np.zeros(room, np.int64)
        return int(KERNELS.shared_list(*arrays, kind, rank, order, blank, ends, running, cores))
    return KERNELS.plain["shared_list"](
        program.ticks, program.first, program.children, program.waits[:], kind, rank.tolist(), order.tolist(), [0] * count,
        [0] * room, [0] * room, cores,
    )  # fmt: skip


def fixed(program: Program, cores: int, order: Ints, owner: Ints) -> int:
    """Return the makespan where every processor works through a list of its own, in `order`; see `fixed_lists`."""
    KERNELS.count(1 + program.count // TASKS_A_CALL)
    if KERNELS.ready:
        graph, starts, done = program.graph, np.zeros(program.count, np.int64), np.zeros(cores, np.int64)
        return int(
            KERNELS.fixed_lists(
                flat(graph.ticks), flat(graph.first), flat(graph.children), flat(order), flat(owner), starts, done
            )
        )
    return KERNELS.plain["fixed_lists"](
        program.ticks, program.first, program.children, order.tolist(), owner.tolist(), [0] * program.count, [0] * cores
    )
