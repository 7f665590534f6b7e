"""Recorded task events to a task graph: what a run did, ready to be executed again on other machines.

A task instance is split into strands (`advisor.profile.strands`). Those of a tied task stay on one worker (column ``tied``).
The time that creating tasks takes counts for their creator. Where one thread ran everything, nobody ever waited for want of
work: what lies between tasks is then what it takes to find and begin the next, and counts for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import isnan
from typing import Any, Final

import numpy as np

from advisor.domain.task_events import Clock, Kind, TaskEvents
from advisor.domain.task_graphs import TaskGraph, task_graph
from advisor.errors import InvalidValue
from advisor.profile.strands import NONE, RecordedEvent, Strands

BARRIER_TYPE: Final = "barrier"


def graph_of_events(batches: Iterable[TaskEvents]) -> TaskGraph:
    """Return the task graph of a recorded run, in nanoseconds.

    Raises InvalidValue where events are missing (the producer dropped some, an instance ends that never began), or as
    `task_graph`.

    Parameters
    ----------
    batches : iterable of TaskEvents
        All events of one run; they are put in order of time.

    Returns
    -------
    TaskGraph
        Columns: ``tied`` (strands of equal numbers stay on one worker, -1: on any), ``queue`` (the thread that ran
        it), ``part`` (its share of its instance's time), ``type`` and
        ``size`` of its instance; what threads do themselves has no type.

    Notes
    -----
    Cost O(n log n) for n events. A task that was given up before it began is left out. A taskgroup is taken to wait for all
    that its task and their descendants have created so far. The creator of an undeferred task waits for it, unless that is no
    wish of the program: OpenMP runtimes run the tasks of a team of one at once, and those that say so (`Flag.AT_ONCE`) are
    taken as deferred. Tasks whose dependences are not sent (`Flag.DEPENDENT`) stay in their order: the graph is then more
    serial than the program.
    """
    columns, strings, sizes = _in_order(batches)
    if columns is None:
        return task_graph([], unit="ns")
    found = Strands(set(columns["instance"][columns["kind"] == Kind.CREATE].tolist()))
    rows = zip(*(columns[name].tolist() for name in RecordedEvent._fields), strict=True)
    for row, size in zip(rows, sizes, strict=True):
        event = RecordedEvent._make(row)
        found.add_event(event)
        if not isnan(size):
            running = found.threads[event.thread].current
            found.sizes[event.instance or found.number_of[running.index]] = size
    return _graph(found, strings)


def _in_order(batches: Iterable[TaskEvents]) -> tuple[dict[str, Any] | None, list[str], list[float]]:
    """Return the events in order of time, their strings, and the size that each brings, NaN for none."""
    strings: list[str] = []
    clock: Clock | None = None
    times: list[Any] = []
    records: list[Any] = []
    for events in batches:
        if events.dropped:
            raise InvalidValue("dropped", events.dropped, "0: a graph needs every event")
        clock = clock or events.clock
        strings.extend(events.strings)
        times.append(clock.nanoseconds(events.records["time"]))
        records.append(events.records)
    if not records:
        return None, strings, []
    when, found = np.concatenate(times), np.concatenate(records)
    order = np.argsort(when, kind="stable")
    found = found[order]
    sizes = np.where(found["kind"] == Kind.SIZE, np.ascontiguousarray(found["other"]).view(np.float64), np.nan)
    columns = {name: found[name] for name in RecordedEvent._fields} | {"time": when[order]}
    return columns, strings, sizes.tolist()


def _graph(found: Strands, strings: list[str]) -> TaskGraph:
    """Return the graph of what has come."""
    for team in found.teams.values():
        # A region is opened by the member with most around it: a worker thread's own task has nothing.
        opened = max(team.entries, key=lambda entry: entry[0], default=None)
        if opened is not None:
            found.edges += [(opened[1], after) for _, before, after in team.entries if before != opened[1]]
    alone = len(found.threads) == 1
    ticks = np.asarray([strand.ticks + alone * strand.gap for strand in found.strands], np.int64)
    names, types = _named(found, strings)
    index = {name: place for place, name in enumerate(dict.fromkeys(types))}
    return task_graph(
        ticks,
        np.asarray(found.edges, np.int64).reshape(-1, 2),
        unit="ns",
        names=names,
        types=tuple(index),
        columns=_columns(found, ticks) | {"type": [index[name] for name in types]} if types else {},
    )


def _named(found: Strands, strings: list[str]) -> tuple[list[str], list[str]]:
    """Return each strand's name and type."""
    names: list[str] = []
    types: list[str] = []
    parts: Counter[int] = Counter()
    tasks = [index for index, number in found.number_of.items() if number != NONE]
    ordinal = {index: place for place, index in enumerate(tasks, 1)}
    for place, strand in enumerate(found.strands):
        instance = strand.instance
        if instance is None:
            names.append(f"{BARRIER_TYPE} {place}")
            types.append("")
            continue
        parts[instance.index] += 1
        part = parts[instance.index]
        if instance.thread != NONE:
            types.append("")
            names.append(f"thread {instance.thread}, part {part}")
        else:
            types.append(strings[instance.type] if instance.type < len(strings) else "task")
            names.append(f"{types[-1]} {ordinal[instance.index]}, part {part}")
    return names, types


def _columns(found: Strands, ticks: Any) -> dict[str, Any]:
    of = [strand.instance for strand in found.strands]
    owner = np.asarray([NONE if instance is None else instance.index for instance in of], np.int64)
    held = owner >= 0
    strands = np.bincount(owner[held], minlength=len(found.number_of))
    totals = np.bincount(owner[held], ticks[held], minlength=len(found.number_of))
    tied = np.asarray([instance is not None and instance.tied for instance in of], bool)
    tied[held] &= strands[owner[held]] > 1
    total, evenly = totals[owner], 1.0 / np.maximum(strands, 1)[owner]
    numbers = [0 if instance is None else found.number_of[instance.index] for instance in of]
    return {
        "tied": np.where(tied, owner, NONE),
        "queue": [strand.ran_on for strand in found.strands],
        "part": np.divide(ticks, total, out=np.where(held, evenly, 1.0), where=held & (total > 0)),
        "size": [found.sizes.get(number, 1.0) for number in numbers],
    }
