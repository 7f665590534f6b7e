"""Recorded task events to a task graph: what a run did, ready to be executed again on other machines.

A task instance is split into *strands* where it creates a task and where it waits: a created task can begin when the strand before
its creation is done, what follows a wait can begin when all that was waited for is. Strands of a tied task stay on one worker
(column ``tied``). A barrier is a strand of no time. Waiting and idle time is no strand's; the rest of a thread's time is, what it
takes to create tasks included. Where one thread ran everything, nobody ever waited for want of work: what lies between tasks is then
what it takes to find and begin the next, and counts for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from advisor.domain.task_events import ABSENT_TYPE, SIZE, Clock, Flag, Kind, RegionKind, SyncKind, TaskEvents
from advisor.domain.task_graphs import TaskGraph, task_graph
from advisor.errors import InvalidValue

NONE: Final = -1
IDLE: Final = -2  # beside the kinds of synchronisation: the worker has nothing to do
BARRIER_TYPE: Final = "barrier"
AT_ONCE: Final = Flag.UNDEFERRED | Flag.MERGED
WAITS_FOR_NOBODY: Final = (IDLE, int(SyncKind.OTHER))


def graph_of_events(batches: Iterable[TaskEvents]) -> TaskGraph:
    """Return the task graph of a recorded run, in nanoseconds.

    Parameters
    ----------
    batches : iterable of TaskEvents
        All events of one run; they are put in order of time.

    Returns
    -------
    TaskGraph
        Columns: ``tied`` (strands of equal numbers stay on one worker, -1: on any), ``creates`` and ``waits`` (what the strand
        ends with), ``queue`` (the thread that ran it), ``part`` (its share of its instance's time), ``type`` and ``size`` of its
        instance.

    Raises
    ------
    InvalidValue
        Where events are missing (the producer dropped some, an instance ends that never began), or as `task_graph`.

    Notes
    -----
    Cost O(n log n) for n events, about 2 microseconds each and 300 bytes a strand. A task that was given up before it began is left
    out. A taskgroup is taken to wait for all that its task and their descendants have created so far. The creator of an undeferred
    task waits for it; but where one thread ran everything and all tasks are undeferred, that is no wish of the program: OpenMP
    runtimes run the tasks of a team of one at once. Tasks are then taken as deferred.
    """
    found = _Recording()
    rows, strings = _rows(batches, found)
    made = [row for row in rows if row[5] == Kind.CREATE]
    found.made = {row[1] for row in made}
    found.alone = len({row[4] for row in rows if row[5] == Kind.BEGIN}) == 1 and all(row[6] & AT_ONCE for row in made)
    for row in rows:
        found.take(*row)
    return found.graph(strings)


def _rows(batches: Iterable[TaskEvents], found: _Recording) -> tuple[list[tuple[int, ...]], list[str]]:
    """Return the events in order of time, as rows of whole numbers; sizes go to `found`."""
    strings: list[str] = []
    clock: Clock | None = None
    times: list[Any] = []
    records: list[Any] = []
    for events in batches:
        if events.dropped:
            raise InvalidValue("dropped", events.dropped, "0: a graph needs every event", "record with fewer tasks")
        clock = clock or events.clock
        strings.extend(events.strings)
        times.append(clock.nanoseconds(events.records["time"]))
        records.append(events.records)
    if not records:
        return [], strings
    when, all_records = np.concatenate(times), np.concatenate(records)
    order = np.argsort(when, kind="stable")
    all_records = all_records[order]
    if SIZE in (all_records.dtype.names or ()):
        told = ~np.isnan(all_records[SIZE]) & (all_records["instance"] != 0)
        found.sizes.update(zip(all_records["instance"][told].tolist(), all_records[SIZE][told].tolist(), strict=True))
    bits = np.ascontiguousarray(all_records["other"])
    is_size = all_records["kind"] == Kind.SIZE
    found.told = dict(zip(np.flatnonzero(is_size).tolist(), bits.view(np.float64)[is_size].tolist(), strict=True))
    columns = [when[order].tolist()]
    columns += [all_records[name].tolist() for name in ("instance", "other", "type", "thread", "kind", "flags")]
    return list(zip(*columns, strict=True)), strings


@dataclass(eq=False, slots=True)
class _Instance:
    """A task instance, or the implicit task of a thread."""

    index: int
    type: int
    thread: int  # of an implicit task, else NONE
    tied: bool = True
    strand: int = NONE  # the open one; while it waits, the one before
    parent: _Instance | None = None
    after: list[int] = field(default_factory=list[int])  # what its next strand waits for
    children: list[int] = field(default_factory=list[int])  # last strands of children that nobody has waited for
    below: list[int] = field(default_factory=list[int])  # of their descendants
    syncs: list[int] = field(default_factory=list[int])  # what it waits in
    teams: list[int] = field(default_factory=list[int])
    barriers: Counter[int] = field(default_factory=Counter[int])
    undeferred: bool = False
    regions: int = 0


@dataclass(eq=False, slots=True)
class _Thread:
    implicit: _Instance
    current: _Instance
    since: int
    gap: int = 0  # time since the running task was left, in which none ran


@dataclass(eq=False, slots=True)
class _Team:
    """A parallel region: who entered it, as (regions open around, strand before, strand after)."""

    entries: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    exits: list[int] = field(default_factory=list[int])
    ended: list[int] = field(default_factory=list[int])  # last strands of tasks that no barrier has waited for
    barriers: dict[int, int] = field(default_factory=dict[int, int])  # strand of its k-th barrier
    left: set[int] = field(default_factory=set[int])  # barriers that somebody has left


class _Recording:
    """The graph while events come."""

    def __init__(self) -> None:
        self.ticks: list[int] = []
        self.gaps: list[int] = []
        self.of: list[_Instance | None] = []  # each strand's instance; None: a barrier
        self.ran_on: list[int] = []
        self.creates: list[int] = []
        self.waits: list[int] = []
        self.joined: list[bool] = []  # a wait is for the strand, so no barrier needs to
        self.edges: list[tuple[int, int]] = []
        self.instances: dict[int, _Instance] = {}
        self.last: dict[int, int] = {}  # of instances that have ended
        self.needs: dict[int, list[int]] = {}
        self.threads: dict[int, _Thread] = {}
        self.teams: dict[int, _Team] = {0: _Team()}
        self.made: set[int] = set()
        self.alone = False
        self.sizes: dict[int, float] = {}
        self.told: dict[int, float] = {}
        self.number_of: dict[int, int] = {}  # of instances, by index
        self.row = -1

    def take(self, now: int, number: int, other: int, kind_of: int, thread: int, kind: int, flags: int) -> None:
        """Take in one event."""
        self.row += 1
        on = self.threads.get(thread)
        if on is None:
            implicit = self._new(NONE, kind_of, thread)
            on = self.threads[thread] = _Thread(implicit, implicit, now)
            self._open(implicit, on)
        running, elapsed = on.current, now - on.since
        on.since = now
        if running.syncs:
            on.gap += elapsed
        else:
            self.ticks[running.strand] += elapsed
        match kind:
            case Kind.CREATE:
                self._create(on, number, other, kind_of, flags)
            case Kind.BEGIN:
                self._begin(on, number, other, kind_of, flags)
            case Kind.SWITCH:
                on.current = self._known(number, now) if number else on.implicit
            case Kind.END:
                self._end(on, number, now)
            case Kind.CANCEL:
                self._cancel(on, number, now)
            case Kind.ENTER | Kind.EXIT:
                self._region(on, number, other, enters=kind == Kind.ENTER)
            case Kind.DEPENDENCE:
                self.needs.setdefault(number, []).append(other)
            case Kind.SYNC_BEGIN | Kind.IDLE_BEGIN:
                self._wait(on, IDLE if kind == Kind.IDLE_BEGIN else other)
            case Kind.SYNC_END | Kind.IDLE_END:
                self._go_on(on, now)
            case Kind.SIZE:
                self.sizes[number or self.number_of.get(running.index, 0)] = self.told[self.row]
            case Kind.WORKER_STOP:
                on.implicit.syncs.append(IDLE)
            case Kind.WORKER_START:
                on.implicit.syncs.clear()
                on.gap = 0
            case _:
                pass

    # -- strands ----------------------------------------------------------------------------------------------------------

    def _new(self, number: int, kind_of: int, thread: int = NONE) -> _Instance:
        found = _Instance(len(self.number_of), kind_of, thread)
        self.number_of[found.index] = number
        return found

    def _strand(self, instance: _Instance | None, thread: int) -> int:
        self.ticks.append(0)
        self.gaps.append(0)
        self.of.append(instance)
        self.ran_on.append(thread)
        self.creates.append(0)
        self.waits.append(0)
        self.joined.append(False)
        return len(self.ticks) - 1

    def _open(self, instance: _Instance, on: _Thread) -> int:
        """Open the instance's next strand, after its last one and what it waits for."""
        strand = self._strand(instance, on.implicit.thread)
        if instance.strand != NONE:
            self.edges.append((instance.strand, strand))
        self.edges += [(before, strand) for before in instance.after]
        instance.after.clear()
        instance.strand = strand
        self.gaps[strand] += on.gap
        on.gap = 0
        return strand

    def _split(self, instance: _Instance, on: _Thread) -> int:
        """End the instance's strand and open the next; return the one that ended."""
        before = instance.strand
        if instance.syncs and instance.syncs[-1] != SyncKind.TASKGROUP:
            return before  # it waits: its strand has ended
        self._works(instance, on)
        self._open(instance, on)
        return before

    def _works(self, instance: _Instance, on: _Thread) -> None:
        """Count time since the last event as work, where the instance is in a taskgroup and has just shown that it works."""
        if instance.syncs and instance.syncs[-1] == SyncKind.TASKGROUP:
            self.ticks[instance.strand] += on.gap
            on.gap = 0

    # -- instances --------------------------------------------------------------------------------------------------------

    def _known(self, number: int, now: int) -> _Instance:
        if number not in self.instances:
            raise InvalidValue("events", f"instance {number} at {now} ns", "one that was made and has not ended")
        return self.instances[number]

    def _create(self, on: _Thread, number: int, other: int, kind_of: int, flags: int) -> None:
        creator = on.current
        before = self._split(creator, on)
        self.creates[before] += 1
        made = self.instances.get(number)
        if made is None:
            made = self.instances[number] = self._new(number, kind_of)
            made.after.append(before)
        else:  # threads' clocks may differ by so little that a task has begun before it was made
            self.edges.append((before, made.strand))
        self._belongs(made, self.instances.get(other, creator) if other else creator, flags)

    def _belongs(self, made: _Instance, parent: _Instance, flags: int) -> None:
        made.parent = parent
        made.teams = parent.teams[-1:]
        made.tied = not flags & Flag.UNTIED
        made.undeferred = bool(flags & AT_ONCE) and not self.alone

    def _begin(self, on: _Thread, number: int, other: int, kind_of: int, flags: int) -> None:
        task = self.instances.get(number)
        if task is None:
            task = self.instances[number] = self._new(number, kind_of)
            parent = self.instances.get(other, on.current) if other else on.current
            if number not in self.made:
                task.after.append(self._split(parent, on))
            self._belongs(task, parent, flags)
        if kind_of != ABSENT_TYPE:
            task.type = kind_of
        for needed in self.needs.pop(number, ()):
            if needed in self.last:
                task.after.append(self.last[needed])
        self._open(task, on)
        on.current = task

    def _end(self, on: _Thread, number: int, now: int) -> None:
        task = self._known(number, now)
        if task.strand == NONE:
            raise InvalidValue("events", f"end of instance {number} at {now} ns", "of one that has begun")
        del self.instances[number]
        last = self.last[number] = task.strand
        parent = task.parent
        if parent is not None:
            parent.children.append(last)
            parent.below += task.children + task.below
            if task.undeferred and not parent.syncs:
                self.edges.append((last, parent.strand))
                self.joined[last] = True
        self._team(task).ended.append(last)
        if on.current is task:
            on.current = on.implicit

    def _cancel(self, on: _Thread, number: int, now: int) -> None:
        task = self._known(number, now)
        if task.strand != NONE:
            self._end(on, number, now)
            return
        del self.instances[number]
        if task.after:
            self.last[number] = task.after[0]

    # -- regions and waits ------------------------------------------------------------------------------------------------

    def _team(self, instance: _Instance) -> _Team:
        return self.teams[instance.teams[-1] if instance.teams else 0]

    def _region(self, on: _Thread, number: int, other: int, *, enters: bool) -> None:
        instance = on.current
        if other != RegionKind.PARALLEL:
            instance.regions += 1 if enters else -1
            self._works(instance, on)
            return
        before = self._split(instance, on)
        if enters:
            team = self.teams.setdefault(number, _Team())
            team.entries.append((instance.regions + len(instance.teams), before, instance.strand))
            instance.teams.append(number)
        elif number in instance.teams:
            team = self.teams[number]
            instance.teams.remove(number)
            self.edges += [(left, instance.strand) for left in team.exits]
            team.exits.append(before)

    def _wait(self, on: _Thread, sync: int) -> None:
        instance = on.current
        instance.syncs.append(sync)
        if sync in WAITS_FOR_NOBODY:
            return
        self.waits[instance.strand] += 1
        if sync == SyncKind.BARRIER:
            at = self._episode(instance)
            self.edges.append((instance.strand, at))

    def _episode(self, instance: _Instance) -> int:
        """Return the strand of the barrier that the instance comes to: the team's k-th is its k-th."""
        team, number = self._team(instance), instance.teams[-1] if instance.teams else 0
        instance.barriers[number] += 1
        k = instance.barriers[number]
        if k not in team.barriers:
            team.barriers[k] = self._strand(None, NONE)
        return team.barriers[k]

    def _go_on(self, on: _Thread, now: int) -> None:
        instance = on.current
        if not instance.syncs:
            raise InvalidValue("events", f"end of a wait at {now} ns", "one that was begun")
        sync = instance.syncs.pop()
        if sync in WAITS_FOR_NOBODY:
            on.gap = 0
            return
        if sync == SyncKind.BARRIER:
            self._leave_barrier(instance)
        else:
            joined = instance.children
            if sync == SyncKind.TASKGROUP:
                joined = joined + instance.below
                instance.below = []
            for last in joined:
                self.joined[last] = True
            instance.after += joined
            instance.children = []
        if not instance.syncs or instance.syncs[-1] == SyncKind.TASKGROUP:
            self._open(instance, on)

    def _leave_barrier(self, instance: _Instance) -> None:
        team, number = self._team(instance), instance.teams[-1] if instance.teams else 0
        k = instance.barriers[number]
        at = team.barriers[k]
        instance.after.append(at)
        if k not in team.left:
            team.left.add(k)
            self.edges += [(last, at) for last in team.ended if not self.joined[last]]
            team.ended.clear()

    # -- the graph --------------------------------------------------------------------------------------------------------

    def graph(self, strings: list[str]) -> TaskGraph:
        """Return the graph of what has come."""
        for team in self.teams.values():
            # A region is opened by the member with most around it: a worker thread's own task has nothing.
            opened = max(team.entries, key=lambda entry: entry[0], default=None)
            if opened is not None:
                self.edges += [(opened[1], after) for _, before, after in team.entries if before != opened[1]]
        workers = {thread for thread, time in zip(self.ran_on, self.ticks, strict=True) if time and thread != NONE}
        ticks = np.asarray(self.ticks, np.int64)
        if len(workers) == 1:
            ticks = ticks + np.asarray(self.gaps, np.int64)
        names, types = self._named(strings)
        index = {name: place for place, name in enumerate(dict.fromkeys(types))}
        return task_graph(
            ticks,
            np.asarray(self.edges, np.int64).reshape(-1, 2),
            unit="ns",
            names=names,
            types=tuple(index),
            columns=self._columns(ticks) | {"type": [index[name] for name in types]} if types else {},
        )

    def _named(self, strings: list[str]) -> tuple[list[str], list[str]]:
        """Return each strand's name and type."""
        names: list[str] = []
        types: list[str] = []
        parts: Counter[int] = Counter()
        for strand, instance in enumerate(self.of):
            if instance is None:
                names.append(f"{BARRIER_TYPE} {strand}")
                types.append(BARRIER_TYPE)
                continue
            parts[instance.index] += 1
            part = parts[instance.index]
            if instance.thread != NONE:
                types.append(f"thread {instance.thread}")
                names.append(f"thread {instance.thread}, part {part}")
            else:
                types.append(strings[instance.type] if instance.type < len(strings) else "task")
                names.append(f"{types[-1]} {instance.index}, part {part}")
        return names, types

    def _columns(self, ticks: Any) -> dict[str, Any]:
        owner = np.asarray([NONE if instance is None else instance.index for instance in self.of], np.int64)
        held = owner >= 0
        many = np.bincount(owner[held], minlength=len(self.number_of)) > 1
        totals = np.bincount(owner[held], ticks[held], minlength=len(self.number_of))
        tied = np.asarray([instance is not None and instance.tied for instance in self.of], bool)
        tied[held] &= many[owner[held]]
        total = totals[owner]
        numbers = [0 if instance is None else self.number_of[instance.index] for instance in self.of]
        return {
            "tied": np.where(tied, owner, NONE),
            "creates": self.creates,
            "waits": self.waits,
            "queue": self.ran_on,
            "part": np.divide(ticks, total, out=np.ones(len(ticks)), where=held & (total > 0)),
            "size": [self.sizes.get(number, 1.0) for number in numbers],
        }
