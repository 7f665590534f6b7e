"""A small OpenMP-like runtime in simulated time: task programs run on p threads and leave the events that a tool would see.

Bodies are generators that yield what they do; a seeded choice says which ready task a waiting thread takes. Tied tasks resume
on their thread only; a thread in a taskwait takes any ready task (streams are legal, not bound by OpenMP's constraint).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from advisor.domain.task_events import EventWriter, Flag, Kind, RegionKind, SyncKind, TaskEvents

Body = Callable[[], Iterator[tuple[Any, ...]]]
# ("work", ns), ("create", type, body[, parameter]), ("taskwait",), ("enter", name), ("exit", name), ("yield",)


@dataclass
class Task:
    """A task instance; the implicit one of a thread has number 0."""

    number: int
    kind: str
    steps: Iterator[tuple[Any, ...]]
    parent: Task | None
    parameter: int | None = None
    untied: bool = False
    thread: int = -1
    children: int = 0
    begun: bool = False
    waits: bool = False


@dataclass
class Program:
    """One parallel region of p threads; thread 0 runs `main` as its implicit task, all meet at a barrier.

    Attributes
    ----------
    create_ns, begin_ns, wait_ns : int
        What the runtime takes for a creation (growing with the threads by `contention`), a switch, and to look again.
    at_once : bool
        Run each task within its creation, as OpenMP does on one thread.
    """

    threads: int
    main: Body
    seed: int = 0
    create_ns: int = 50
    switch_ns: int = 10
    look_ns: int = 40
    contention: float = 0.0
    untied: bool = False
    at_once: bool = False
    out: EventWriter = field(default_factory=EventWriter)
    numbers: int = 0
    queue: list[Task] = field(default_factory=list)
    suspended: list[Task] = field(default_factory=list)
    unfinished: int = 0
    tasks_run: int = 0

    def run(self) -> TaskEvents:
        """Run the program and return its events, each thread's in order, threads one after another."""
        rng = random.Random(self.seed)
        heap: list[tuple[int, int]] = []
        stacks: list[list[Task]] = []
        done = [False] * self.threads
        for thread in range(self.threads):
            at = 7 * thread
            self.out.add_event(at, Kind.WORKER_START, thread=thread)
            self.out.add_event(at, Kind.ENTER, thread=thread, instance=1, other=RegionKind.PARALLEL, type="parallel")
            body = self.main() if thread == 0 else iter(())
            implicit = Task(0, "implicit", body, None, thread=thread, begun=True)
            stacks.append([implicit])
            heapq.heappush(heap, (at, thread))
        self._main_done = False
        while heap:
            now, thread = heapq.heappop(heap)
            later = self._step(now, thread, stacks[thread], rng)
            if later is None:
                done[thread] = True
            else:
                heapq.heappush(heap, (later, thread))
        return self._grouped()

    def _grouped(self) -> TaskEvents:
        self.out.rows.sort(key=lambda row: row[4])  # stable: a thread's own events keep their order
        return self.out.batch()

    def _step(self, now: int, thread: int, stack: list[Task], rng: random.Random) -> int | None:
        task = stack[-1]
        step = None if task.waits else next(task.steps, ("end",))
        out = self.out
        if task.waits or step is None:
            return self._look(now, thread, stack, rng)
        match step:
            case ("work", ns):
                return now + ns
            case ("enter" | "exit" as how, name):
                kind = Kind.ENTER if how == "enter" else Kind.EXIT
                out.add_event(now, kind, thread=thread, instance=task.number, other=RegionKind.PLAIN, type=name)
                return now
            case ("create", kind, body, *parameter):
                return self._create(now, thread, stack, kind, body, parameter[0] if parameter else None)
            case ("taskwait",):
                out.add_event(
                    now, Kind.SYNC_BEGIN, thread=thread, instance=task.number, other=SyncKind.TASKWAIT, type="taskwait"
                )
                task.waits = True
                return now
            case ("yield",):
                return self._yield(now, thread, stack)
            case _:
                return self._end(now, thread, stack)

    def _create(self, now: int, thread: int, stack: list[Task], kind: str, body: Body, parameter: int | None) -> int:
        task = stack[-1]
        self.numbers += 1
        took = round(self.create_ns * (1.0 + self.contention * (self.threads - 1)))
        out, number = self.out, self.numbers
        out.add_event(
            now, Kind.ENTER, thread=thread, instance=task.number, other=RegionKind.CREATION, type=f"create {kind}"
        )
        flags = Flag.UNTIED if self.untied else Flag(0)
        flags |= Flag.UNDEFERRED | Flag.AT_ONCE if self.at_once else Flag(0)
        out.add_event(now, Kind.CREATE, thread=thread, instance=number, type=kind, flags=flags)
        made = Task(number, kind, body(), task, parameter, self.untied)
        task.children += 1
        self.unfinished += 1
        if self.at_once:
            return self._begin(now + took, thread, stack, made)
        self._created(now + took, thread, task, kind)
        self.queue.append(made)
        return now + took

    def _created(self, now: int, thread: int, task: Task, kind: str) -> None:
        number, region = task.number, RegionKind.CREATION
        self.out.add_event(now, Kind.EXIT, thread=thread, instance=number, other=region, type=f"create {kind}")

    def _begin(self, at: int, thread: int, stack: list[Task], found: Task) -> int:
        found.begun, found.thread = True, thread
        self.out.add_event(at, Kind.BEGIN, thread=thread, instance=found.number, type=found.kind)
        if found.parameter is not None:
            self.out.add_event(
                at, Kind.PARAMETER, thread=thread, instance=found.number, other=found.parameter, type="depth"
            )
        stack.append(found)
        return at

    def _yield(self, now: int, thread: int, stack: list[Task]) -> int:
        """An untied task gives way to whatever the thread's implicit task does; another thread may go on with it."""
        task = stack.pop()
        self.out.add_event(now, Kind.SWITCH, thread=thread, instance=stack[-1].number)
        self.suspended.append(task)
        return now + self.switch_ns

    def _end(self, now: int, thread: int, stack: list[Task]) -> int | None:
        task, out = stack[-1], self.out
        if task.number == 0:
            if not task.waits:
                out.add_event(now, Kind.SYNC_BEGIN, thread=thread, other=SyncKind.BARRIER, type="barrier")
                task.waits, task.kind = True, "barrier"
                if thread == 0:
                    self._main_done = True
            return now
        stack.pop()
        out.add_event(now, Kind.END, thread=thread, instance=task.number)
        if task.parent is not None:
            task.parent.children -= 1
        self.unfinished -= 1
        self.tasks_run += 1
        below = stack[-1]
        if below.number:
            out.add_event(now, Kind.SWITCH, thread=thread, instance=below.number)
        if self.at_once:
            self._created(now, thread, below, task.kind)
        return now

    def _look(self, now: int, thread: int, stack: list[Task], rng: random.Random) -> int | None:
        task, out = stack[-1], self.out
        barrier = task.kind == "barrier"
        if not barrier and task.children == 0:
            task.waits = False
            out.add_event(
                now, Kind.SYNC_END, thread=thread, instance=task.number, other=SyncKind.TASKWAIT, type="taskwait"
            )
            return now
        if self.suspended:
            found = self.suspended.pop(rng.randrange(len(self.suspended)))
            found.thread = thread
            out.add_event(now + self.switch_ns, Kind.SWITCH, thread=thread, instance=found.number)
            stack.append(found)
            return now + self.switch_ns
        if self.queue:
            found = self.queue.pop(rng.randrange(len(self.queue)) if rng.random() < 0.3 else -1)
            return self._begin(now + self.switch_ns, thread, stack, found)
        if barrier and self._main_done and self.unfinished == 0:
            out.add_event(now, Kind.SYNC_END, thread=thread, other=SyncKind.BARRIER, type="barrier")
            out.add_event(now, Kind.EXIT, thread=thread, instance=1, other=RegionKind.PARALLEL, type="parallel")
            out.add_event(now, Kind.WORKER_STOP, thread=thread)
            return None
        return now + self.look_ns


def recursive(depth: int, width: int, work_ns: int, level: int = 0, *, gives_way: bool = False) -> Body:
    """Return the body of a task that makes `width` like it down to `depth`, and waits for them (as nqueens)."""

    def body() -> Iterator[tuple[Any, ...]]:
        yield ("enter", "solve")
        yield ("work", work_ns)
        if level < depth:
            for _ in range(width):
                yield (
                    "create",
                    "solve task",
                    recursive(depth, width, work_ns, level + 1, gives_way=gives_way),
                    level + 1,
                )
        yield ("exit", "solve")
        if gives_way and level:
            yield ("yield",)
            yield ("work", work_ns)
        if level < depth:
            yield ("taskwait",)
        yield ("work", work_ns // 2)

    return body
