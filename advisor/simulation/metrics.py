"""What an execution tells, read from its trace: idle time by cause, and the critical path through the schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue
from advisor.simulation.analysis import Execution
from advisor.simulation.loops import Trace

Ints = NDArray[np.int64]


class Idle(NamedTuple):
    """Idle ticks of each processor, (P,) each; together with the busy ticks they make the makespan.

    ``no_ready_task``: no task was ready, and some had not started. ``dependency``: tasks were ready, but not for this
    processor,
    whose own next one waited (static lists, own queues) or whose policy held it back. ``imbalance``: every task had started;
    others were still running theirs.
    """

    no_ready_task: Ints
    dependency: Ints
    imbalance: Ints


class Step(NamedTuple):
    """One task of the critical path through a schedule, and why it did not start sooner.

    `why`: ``start`` (it started with the program), ``dependency`` (on the step before), ``processor`` (the step before held its
    processor), ``other`` (some other task's end let it start).
    """

    task: int
    start: int
    finish: int
    why: str


def traced(execution: Execution) -> Trace:
    """Return the trace of an execution, or raise InvalidValue where none was kept."""
    if execution.trace is None:
        raise InvalidValue("trace", None, "kept", "simulate with trace=True")
    return execution.trace


def busy(execution: Execution) -> Ints:
    """Return the busy ticks of each processor, (P,), waiting for contended resources included."""
    trace = traced(execution)
    return np.bincount(trace.processors, trace.finishes - trace.starts, execution.cores).astype(np.int64)


def idle(execution: Execution) -> Idle:
    """Return the idle ticks of each processor by cause. Cost O(n log n)."""
    trace, cores = traced(execution), execution.cores
    ready = execution.program.ready_at(trace.finishes)
    times = np.unique(np.concatenate([[0], trace.starts, ready, trace.finishes]))
    started = np.searchsorted(np.sort(trace.starts), times, "right")
    waiting = np.searchsorted(np.sort(ready), times, "right") - started
    last_start = trace.starts[trace.finishes > trace.starts].max(initial=0)  # an END of no time is no work left
    left = times < last_start
    lengths = np.diff(times, append=times[-1])
    sums = [
        np.concatenate([[0], np.cumsum(lengths * cause)])
        for cause in (left & (waiting == 0), left & (waiting > 0), ~left)
    ]
    order = np.lexsort((trace.finishes, trace.starts, trace.processors))
    who = trace.processors[order]
    leads = np.concatenate([[True], who[1:] != who[:-1]]) if len(who) else np.zeros(0, bool)
    begins = np.where(leads, 0, np.concatenate([[0], trace.finishes[order][:-1]])) if len(who) else who
    last = np.zeros(cores, np.int64)
    np.maximum.at(last, trace.processors, trace.finishes)
    processors = np.concatenate([who, np.arange(cores)])
    starts = np.searchsorted(times, np.concatenate([begins, last]))
    ends = np.searchsorted(times, np.concatenate([trace.starts[order], np.full(cores, trace.makespan)]))
    return Idle(*(np.bincount(processors, found[ends] - found[starts], cores).astype(np.int64) for found in sums))


def critical_path(execution: Execution) -> list[Step]:
    """Return the chain of tasks, first to last, in which each starts when the one before ends: what the makespan consists of.

    From the task that ends last backwards: to a parent that ended when the task started, else to the task that held its
    processor until then, else to any that ended then. Of several the one of the lowest number. Cost O(n log n + m).
    """
    trace, program = traced(execution), execution.program
    if program.count == 0:
        return []
    order = np.lexsort((np.arange(program.count), program.depths, trace.finishes, trace.starts))
    place = np.empty(program.count, np.int64)
    place[order] = np.arange(program.count)
    parents = program.parents[np.argsort(program.graph.children, kind="stable")]
    first = np.concatenate([[0], np.cumsum(program.graph.waits)])
    before: dict[int, int] = {}  # the task that ran before another on its processor
    lasts: dict[int, int] = {}
    enders: dict[int, list[int]] = {}
    for task in order.tolist():
        processor = int(trace.processors[task])
        if processor in lasts:
            before[task] = lasts[processor]
        lasts[processor] = task
        enders.setdefault(int(trace.finishes[task]), []).append(task)
    task = int(np.flatnonzero(trace.finishes == trace.makespan)[0])
    steps: list[Step] = []
    while True:
        start = int(trace.starts[task])
        chain: int | None = next(
            (parent for parent in parents[first[task] : first[task + 1]].tolist() if trace.finishes[parent] == start),
            None,
        )
        why = "dependency"
        if chain is None and start > 0:
            held = before.get(task)
            others = [other for other in enders.get(start, []) if place[other] < place[task]]
            if held is not None and trace.finishes[held] == start:
                chain, why = held, "processor"
            elif others:
                chain, why = min(others), "other"
        steps.append(Step(task, start, int(trace.finishes[task]), why if chain is not None else "start"))
        if chain is None:
            return steps[::-1]
        task = chain
