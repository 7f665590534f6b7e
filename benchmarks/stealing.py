"""Work stealing with what it costs: what a run of a task-parallel program would report, computed and not run.

A task graph of strands (what a task does between two scheduling points) is executed by p workers. A strand's columns
``creates`` and ``waits`` say how many tasks it creates and how many waits it ends with: their overhead comes after its
work, and before its successors are ready. A worker goes on with the newest of its own ready strands; a worker that has none
asks others at random, each time for `steal_ns`, and takes the oldest of the first that has some. While it does so a strand
is ready and a worker is not working: that is delay, as the overheads are; what remains of p times the elapsed time is
without work (paper 3, Eq. 8).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from advisor import kernels
from advisor.domain.rows import whole
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue
from advisor.simulation.loops import TASKS_A_CALL, flat
from advisor.simulation.program import Program

Deque = tuple[list[int], list[int], list[int], list[int]]

MODULUS, MULTIPLIER = 2_147_483_647, 48_271  # Park and Miller's minimal standard: the same in whole numbers of any kind


@dataclass(frozen=True, slots=True)
class Costs:
    """What a runtime and a machine charge."""

    # create_ns, wait_ns: of one creation and one wait
    create_ns: float = 0.0
    wait_ns: float = 0.0
    steal_ns: float = 0.0  # of asking one victim
    # c: with b workers busy, work takes 1 / (1 - c (b - 1)) times as long, as behind an open queue; b is that of the
    # start
    crowding: float = 0.0
    moved: float = 0.0  # m: a stolen strand's work takes 1 + m times as long


@dataclass(frozen=True, slots=True)
class StolenRun:
    """What a run reports: seconds, summed over workers but for `elapsed_s` and `span_s`.

    work + delay + no_work = workers * elapsed.
    """

    workers: int
    serial_work_s: float
    work_s: float
    delay_s: float
    no_work_s: float
    creates: int
    waits: int
    steals: int
    elapsed_s: float
    span_s: float


def run_stealing(graph: TaskGraph | Program, workers: int, costs: Costs, seed: int = 0) -> StolenRun:
    """Execute a graph whose unit is a time under work stealing; the same seed gives the same run. Cost O(n log p + m).

    Raises InvalidValue for costs that are negative or crowd the machine to a stop, workers below 1, or a graph whose unit has
    no name.
    """
    program = graph if isinstance(graph, Program) else Program(graph)
    graph = program.graph
    if graph.unit == "unit":
        raise InvalidValue("graph.unit", graph.unit, "s, ms, us or ns", "costs are in ns")
    workers = whole("workers", workers, 1)
    for each in fields(costs):
        value = getattr(costs, each.name)
        if not np.isfinite(value) or value < 0:
            raise InvalidValue(each.name, value, "finite, at least 0")
    if costs.crowding * (workers - 1) >= 1.0:
        raise InvalidValue("crowding", costs.crowding, f"below 1 / {workers - 1}: the machine stands still there")
    zeros = np.zeros(len(graph), np.int64)
    creates = graph.columns.get("creates", zeros)
    waits = graph.columns.get("waits", zeros)
    overhead = np.rint(creates * costs.create_ns + waits * costs.wait_ns).astype(np.int64)
    roots = np.flatnonzero(graph.waits == 0)
    parts = (graph.ticks, overhead, graph.first, graph.children, graph.waits.copy(), roots)
    charged = (float(costs.steal_ns), float(costs.crowding), float(costs.moved), seed % (MODULUS - 1) + 1)
    KERNELS.count(1 + len(graph) // TASKS_A_CALL)
    if KERNELS.ready:
        elapsed, work, stealing, steals = KERNELS.execute(*(flat(each) for each in parts), workers, *charged)
    else:
        elapsed, work, stealing, steals = KERNELS.plain["execute"](
            *(each.tolist() for each in parts), workers, *charged
        )
    delay = int(overhead.sum()) + stealing
    return StolenRun(
        workers, float(graph.ticks.sum()) / 1e9, work / 1e9, delay / 1e9,
        (workers * elapsed - work - delay) / 1e9, int(creates.sum()), int(waits.sum()), steals, elapsed / 1e9,
        program.span / 1e9,
    )  # fmt: skip


def append(deque: Deque, worker: int, strand: int) -> None:
    """Put a strand at a worker's newer end."""
    oldest, newest, older, newer = deque
    older[strand], newer[strand] = newest[worker], -1
    if newest[worker] >= 0:
        newer[newest[worker]] = strand
    else:
        oldest[worker] = strand
    newest[worker] = strand


def take_newest(deque: Deque, worker: int) -> int:
    """Take a worker's newest strand, of which there is one."""
    oldest, newest, older, newer = deque
    strand = newest[worker]
    newest[worker] = older[strand]
    if newest[worker] >= 0:
        newer[newest[worker]] = -1
    else:
        oldest[worker] = -1
    return strand


def take_oldest(deque: Deque, worker: int) -> int:
    """Take a worker's oldest strand, of which there is one."""
    oldest, newest, older, newer = deque
    strand = oldest[worker]
    oldest[worker] = newer[strand]
    if oldest[worker] >= 0:
        older[oldest[worker]] = -1
    else:
        newest[worker] = -1
    return strand


def find_victim(deque: Deque, thief: int, workers: int, state: int) -> tuple[int, int, int]:
    """Ask others at random until one has a strand; return it, how many were asked and where the random numbers are."""
    oldest = deque[0]
    tries, victim = 0, thief
    while oldest[victim] < 0:
        state = state * MULTIPLIER % MODULUS
        victim = state % (workers - 1)
        if victim >= thief:
            victim += 1
        tries += 1
    return victim, tries, state


def finish(deque: Deque, worker: int, strand: int, first: Any, children: Any, left: Any) -> int:
    """End a strand; what becomes ready is its worker's. Return how many do."""
    became = 0
    for k in range(first[strand], first[strand + 1]):
        child = children[k]
        left[child] -= 1
        if left[child] == 0:
            append(deque, worker, child)
            became += 1
    return became


def execute(
    ticks: Any, overhead: Any, first: Any, children: Any, left: Any, roots: Any,
    workers: int, steal_ns: float, crowding: float, moved: float, state: int,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Return (elapsed, work, stealing, steals), in ns: the loop, on lists, or compiled on arrays."""
    # Oldest and newest of each worker; each strand's older and newer neighbour.
    deque = (np.full(workers, -1), np.full(workers, -1), np.full(len(ticks), -1), np.full(len(ticks), -1))
    runs, ends = np.full(workers, -1), np.zeros(workers, np.int64)
    for k in range(len(roots)):
        append(deque, 0, roots[k])
    busy, ready = 0, len(roots)
    now = work = stealing = steals = 0
    while True:
        for stage in range(2):  # owners first: nobody steals what its owner takes in the same instant
            for worker in range(workers):
                own = deque[1][worker] >= 0
                if runs[worker] >= 0 or ready == 0 or own != (stage == 0):
                    continue
                asked, longer = 0, 1.0
                if own:
                    strand = take_newest(deque, worker)
                else:
                    victim, tries, state = find_victim(deque, worker, workers, state)
                    strand = take_oldest(deque, victim)
                    asked, longer = round(tries * steal_ns), 1.0 + moved
                    steals += 1
                ready -= 1
                busy += 1
                runs[worker] = strand
                took = round(ticks[strand] * longer / (1.0 - crowding * (busy - 1)))
                stealing += asked
                work += took
                ends[worker] = now + asked + took + overhead[strand]
        if busy == 0:
            return now, work, stealing, steals
        now = -1
        for worker in range(workers):
            if runs[worker] >= 0 and (now < 0 or ends[worker] < now):
                now = ends[worker]
        for worker in range(workers):
            if runs[worker] >= 0 and ends[worker] == now:
                ready += finish(deque, worker, runs[worker], first, children, left)
                runs[worker] = -1
                busy -= 1


def examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types of the loop's arguments."""
    yield "execute", (*[np.zeros(1, np.int64)] * 6, 1, 1.0, 1.0, 1.0, 1)


KERNELS = kernels.Source(__name__, (execute,), examples)
