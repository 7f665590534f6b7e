"""Strands: what task instances do between the points where they create tasks or wait, and what each strand waits for.

A created task can begin when the strand before its creation is done; what follows a wait can begin when all that was waited for
is. A barrier is a strand of no time. Time in waits and idle time is no strand's; the rest of a thread's time is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from advisor.domain.task_events import ABSENT_TYPE, Flag, Kind, RegionKind, SyncKind
from advisor.errors import InvalidValue

NONE: Final = -1
IDLE: Final = -2  # beside the kinds of synchronisation: the worker has nothing to do
IN_LINE: Final = Flag.UNDEFERRED | Flag.MERGED
WAITS_FOR_NOBODY: Final = (IDLE, int(SyncKind.OTHER))


class RecordedEvent(NamedTuple):
    """A task event: the fields of its record, the time in ns."""

    time: int
    instance: int
    other: int
    type: int
    thread: int
    kind: int
    flags: int


@dataclass(eq=False, slots=True)
class Strand:
    """What an instance does without a break."""

    instance: Instance | None  # None: a barrier
    ran_on: int  # thread, NONE of a barrier
    ticks: int = 0
    gap: int = 0  # time before it in which its thread ran no task
    joined: bool = False  # a wait is for it, so no barrier needs to


@dataclass(eq=False, slots=True)
class Instance:
    """A task instance, or the implicit task of a thread."""

    index: int
    type: int
    thread: int  # of an implicit task, else NONE
    tied: bool = True
    strand: int = NONE  # the open one; while it waits, the one before
    parent: Instance | None = None
    after: list[int] = field(default_factory=list[int])  # what its next strand waits for
    children: list[int] = field(default_factory=list[int])  # last strands of children that nobody has waited for
    below: list[int] = field(default_factory=list[int])  # of their descendants
    live: set[Instance] = field(default_factory=set["Instance"])  # children that have not ended
    waiters: list[int] = field(default_factory=list[int])  # strands that went on before its end was reported
    syncs: list[int] = field(default_factory=list[int])  # what it waits in
    teams: list[int] = field(default_factory=list[int])
    barriers: Counter[int] = field(default_factory=Counter[int])
    undeferred: bool = False
    regions: int = 0


@dataclass(eq=False, slots=True)
class _Thread:
    implicit: Instance
    current: Instance
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


class Strands:
    """Strands and what they wait for, while events come in order of time.

    `made`: instances whose creation is known, now or later.
    """

    def __init__(self, made: set[int]) -> None:
        self.strands: list[Strand] = []
        self.edges: list[tuple[int, int]] = []
        self.instances: dict[int, Instance] = {}
        self.last: dict[int, int] = {}  # of instances that have ended
        self.needs: dict[int, list[int]] = {}
        self.threads: dict[int, _Thread] = {}
        self.teams: dict[int, _Team] = {0: _Team()}
        self.sizes: dict[int, float] = {}
        self.number_of: dict[int, int] = {}  # of instances, by index
        self._made = made

    def add_event(self, event: RecordedEvent) -> None:
        """Take in one event; raises InvalidValue where events before it are missing."""
        on = self.threads.get(event.thread)
        if on is None:
            implicit = self._new(NONE, event.type, event.thread)
            on = self.threads[event.thread] = _Thread(implicit, implicit, event.time)
            self._open(implicit, on)
        running, elapsed = on.current, event.time - on.since
        on.since = event.time
        if running.syncs:
            on.gap += elapsed
        else:
            self.strands[running.strand].ticks += elapsed
        taker = TAKERS.get(event.kind)
        if taker is not None:
            taker(self, on, event)

    # -- strands ----------------------------------------------------------------------------------------------------------

    def _new(self, number: int, kind_of: int, thread: int = NONE) -> Instance:
        found = Instance(len(self.number_of), kind_of, thread)
        self.number_of[found.index] = number
        return found

    def _strand(self, instance: Instance | None, thread: int) -> int:
        self.strands.append(Strand(instance, thread))
        return len(self.strands) - 1

    def _open(self, instance: Instance, on: _Thread) -> int:
        """Open the instance's next strand, after its last one and what it waits for."""
        strand = self._strand(instance, on.implicit.thread)
        if instance.strand != NONE:
            self.edges.append((instance.strand, strand))
        self.edges += [(before, strand) for before in instance.after]
        instance.after.clear()
        instance.strand = strand
        self.strands[strand].gap += on.gap
        on.gap = 0
        return strand

    def _split(self, instance: Instance, on: _Thread) -> int:
        """End the instance's strand and open the next; return the one that ended."""
        before = instance.strand
        if instance.syncs and instance.syncs[-1] != SyncKind.TASKGROUP:
            return before  # it waits: its strand has ended
        self._works(instance, on)
        self._open(instance, on)
        return before

    def _works(self, instance: Instance, on: _Thread) -> None:
        """Count time since the last event as work, where the instance is in a taskgroup and has just shown that it works."""
        if instance.syncs and instance.syncs[-1] == SyncKind.TASKGROUP:
            self.strands[instance.strand].ticks += on.gap
            on.gap = 0

    # -- instances --------------------------------------------------------------------------------------------------------

    def _known(self, event: RecordedEvent) -> Instance:
        if event.instance not in self.instances:
            raise _lacking(event, f"instance {event.instance}", "one that was made and has not ended")
        return self.instances[event.instance]

    def create(self, on: _Thread, event: RecordedEvent) -> None:
        """The running task makes a task."""
        number, other = event.instance, event.other
        creator = on.current
        before = self._split(creator, on)
        made = self.instances.get(number)
        if made is None:
            made = self.instances[number] = self._new(number, event.type)
            made.after.append(before)
        else:  # threads' clocks may differ by so little that a task has begun before it was made
            self.edges.append((before, made.strand))
        self._belongs(made, self.instances.get(other, creator) if other else creator, event.flags)

    def _belongs(self, made: Instance, parent: Instance, flags: int) -> None:
        made.parent = parent
        parent.live.add(made)
        made.teams = parent.teams[-1:]
        made.tied = not flags & Flag.UNTIED
        made.undeferred = bool(flags & IN_LINE) and not flags & Flag.AT_ONCE

    def begin_task(self, on: _Thread, event: RecordedEvent) -> None:
        """A task begins: its first strand."""
        number, other = event.instance, event.other
        task = self.instances.get(number)
        if task is None:
            task = self.instances[number] = self._new(number, event.type)
            parent = self.instances.get(other, on.current) if other else on.current
            if number not in self._made:
                task.after.append(self._split(parent, on))
            self._belongs(task, parent, event.flags)
        if task.strand != NONE:
            raise _lacking(event, f"begin of instance {number}", "of one that has not begun")
        if event.type != ABSENT_TYPE:
            task.type = event.type
        needed = self.needs.pop(number, [])
        task.after += [self.last[before] for before in needed if before in self.last]
        self._open(task, on)
        for before in needed:  # by clocks that differ a little it may end only now
            if before in self.instances:
                self.instances[before].waiters.append(task.strand)
        on.current = task

    def switch(self, on: _Thread, event: RecordedEvent) -> None:
        """A suspended task goes on, or the thread's implicit one."""
        goes_on = self._known(event) if event.instance else on.implicit
        if goes_on.strand == NONE:
            raise _lacking(event, f"switch to instance {event.instance}", "to one that has begun")
        on.current = goes_on

    def depend(self, on: _Thread, event: RecordedEvent) -> None:
        """A task that has not begun waits for another."""
        self.needs.setdefault(event.instance, []).append(event.other)

    def end_task(self, on: _Thread, event: RecordedEvent) -> None:
        """A task ends."""
        task = self._known(event)
        if task.strand == NONE:
            raise _lacking(event, f"end of instance {event.instance}", "of one that has begun")
        del self.instances[event.instance]
        last = self.last[event.instance] = task.strand
        parent = task.parent
        self.edges += [(last, waiter) for waiter in task.waiters]
        if parent is not None:
            parent.live.discard(task)
            parent.children.append(last)
            parent.below += task.children + task.below
            if task.undeferred and not parent.syncs:
                self.edges.append((last, parent.strand))
                self.strands[last].joined = True
        self._team(task).ended.append(last)
        if on.current is task:
            on.current = on.implicit

    def cancel(self, on: _Thread, event: RecordedEvent) -> None:
        """A task is given up; what waits for one that never began waits for its creation."""
        task = self._known(event)
        if task.strand != NONE:
            self.end_task(on, event)
            return
        del self.instances[event.instance]
        if task.parent is not None:
            task.parent.live.discard(task)
        if task.after:
            self.last[event.instance] = task.after[0]

    # -- regions and waits ------------------------------------------------------------------------------------------------

    def _team(self, instance: Instance) -> _Team:
        return self.teams[instance.teams[-1] if instance.teams else 0]

    def region(self, on: _Thread, event: RecordedEvent) -> None:
        """The running task enters or leaves a region; only parallel ones divide it."""
        instance, number, enters = on.current, event.instance, event.kind == Kind.ENTER
        if event.other != RegionKind.PARALLEL:
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

    def wait(self, on: _Thread, event: RecordedEvent) -> None:
        """The running task begins to wait, or the thread to be idle."""
        instance = on.current
        sync = IDLE if event.kind == Kind.IDLE_BEGIN else event.other
        instance.syncs.append(sync)
        if sync in WAITS_FOR_NOBODY:
            return
        if sync == SyncKind.BARRIER:
            self.edges.append((instance.strand, self._episode(instance)))

    def _episode(self, instance: Instance) -> int:
        """Return the strand of the barrier that the instance comes to: the team's k-th is its k-th."""
        team, number = self._team(instance), instance.teams[-1] if instance.teams else 0
        instance.barriers[number] += 1
        k = instance.barriers[number]
        if k not in team.barriers:
            team.barriers[k] = self._strand(None, NONE)
        return team.barriers[k]

    def go_on(self, on: _Thread, event: RecordedEvent) -> None:
        """The running task has waited, or the thread been idle."""
        instance = on.current
        if not instance.syncs:
            raise _lacking(event, "end of a wait", "one that was begun")
        sync = instance.syncs.pop()
        if sync in WAITS_FOR_NOBODY:
            on.gap = 0
            return
        if sync == SyncKind.BARRIER:
            self._leave_barrier(instance, event)
        else:
            joined = instance.children
            if sync == SyncKind.TASKGROUP:
                joined = joined + instance.below
                instance.below = []
            for last in joined:
                self.strands[last].joined = True
            instance.after += joined
            instance.children = []
        if not instance.syncs or instance.syncs[-1] == SyncKind.TASKGROUP:
            self._open(instance, on)
            if sync == SyncKind.TASKWAIT:  # by clocks that differ a little its children may end only now
                for child in instance.live:
                    child.waiters.append(instance.strand)

    def _leave_barrier(self, instance: Instance, event: RecordedEvent) -> None:
        team, number = self._team(instance), instance.teams[-1] if instance.teams else 0
        k = instance.barriers[number]
        if k not in team.barriers:
            raise _lacking(event, "end of a barrier", "in the region in which it was begun")
        at = team.barriers[k]
        instance.after.append(at)
        if k not in team.left:
            team.left.add(k)
            self.edges += [(last, at) for last in team.ended if not self.strands[last].joined]
            team.ended.clear()

    def start(self, on: _Thread, event: RecordedEvent) -> None:
        """The worker starts, perhaps again."""
        on.implicit.syncs.clear()
        on.gap = 0

    def stop(self, on: _Thread, event: RecordedEvent) -> None:
        """The worker is no longer there."""
        on.implicit.syncs.append(IDLE)


def _lacking(event: RecordedEvent, what: str, wanted: str) -> InvalidValue:
    """Return the error of a stream in which events are missing."""
    return InvalidValue("events", f"{what} at {event.time} ns", wanted)


TAKERS: Final[Mapping[int, Callable[[Strands, _Thread, RecordedEvent], None]]] = {
    Kind.CREATE: Strands.create, Kind.BEGIN: Strands.begin_task, Kind.SWITCH: Strands.switch, Kind.END: Strands.end_task,
    Kind.CANCEL: Strands.cancel, Kind.ENTER: Strands.region, Kind.EXIT: Strands.region, Kind.DEPENDENCE: Strands.depend,
    Kind.SYNC_BEGIN: Strands.wait, Kind.IDLE_BEGIN: Strands.wait, Kind.SYNC_END: Strands.go_on,
    Kind.IDLE_END: Strands.go_on, Kind.WORKER_START: Strands.start, Kind.WORKER_STOP: Strands.stop,
}  # fmt: skip
