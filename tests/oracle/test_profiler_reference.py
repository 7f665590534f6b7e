"""The profiler against paper 5's pseudocode written down: a tree an instance, merged at its end, every open region stopped."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from profile_laws import check_laws
from task_program import Program, recursive

from advisor.domain.task_events import Kind, RegionKind, SyncKind, TaskEvents
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

Path = tuple[tuple[Any, ...], ...]


@dataclass
class Position:
    """A task's call path and its clocks: one started, then stopped and resumed, for each open region (Fig. 12)."""

    path: Path = ()
    running: list[int | None] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)
    visits: dict[Path, list[int]] = field(default_factory=lambda: defaultdict(list))

    def enter(self, region: tuple[Any, ...], now: int) -> None:
        self.path += (region,)
        self.running.append(now)
        self.spent.append(0)

    def leave(self, now: int) -> None:
        started = self.running.pop()
        assert started is not None
        self.visits[self.path].append(self.spent.pop() + now - started)
        self.path = self.path[:-1]

    def stop(self, now: int) -> None:
        for i, started in enumerate(self.running):
            assert started is not None
            self.spent[i] += now - started
            self.running[i] = None

    def resume(self, now: int) -> None:
        self.running = [now] * len(self.running)


def reference(events: TaskEvents) -> dict[Path, list[int]]:
    """Return the visits of every call path, in ns."""
    records = events.records[events.records["time"].argsort(kind="stable")]
    strings = events.strings
    implicit: dict[int, Position] = defaultdict(Position)
    tasks: dict[int, Position] = {}
    kinds: dict[int, str] = {}
    current: dict[int, int] = defaultdict(int)
    merged: dict[Path, list[int]] = defaultdict(list)

    def switch(thread: int, number: int, now: int) -> None:
        if current[thread]:
            implicit[thread].leave(now)
            tasks[current[thread]].stop(now)
        current[thread] = number
        if number:
            tasks[number].resume(now)
            implicit[thread].enter(("stub", kinds[number]), now)

    for now, number, other, name, thread, kind, _ in records.tolist():
        text = strings[name] if name < len(strings) else ""
        here = tasks[current[thread]] if current[thread] else implicit[thread]
        match Kind(kind):
            case Kind.WORKER_START:
                here.enter(("thread", str(thread)), now)
            case Kind.ENTER:
                role = {RegionKind.PLAIN: "region", RegionKind.CREATION: "creation", RegionKind.PARALLEL: "parallel"}
                here.enter((role[RegionKind(other)], text), now)
            case Kind.SYNC_BEGIN:
                here.enter(("taskwait" if other == SyncKind.TASKWAIT else "barrier", text), now)
            case Kind.PARAMETER:
                here.enter(("parameter", text, other), now)
            case Kind.EXIT | Kind.SYNC_END | Kind.WORKER_STOP:
                here.leave(now)
            case Kind.BEGIN:
                tasks[number], kinds[number] = Position(), text
                switch(thread, number, now)
                tasks[number].enter(("task", text), now)
            case Kind.SWITCH:
                if number != current[thread]:
                    switch(thread, number, now)
            case Kind.END:
                while here.path:
                    here.leave(now)
                switch(thread, 0, now)
                for path, visits in tasks.pop(number).visits.items():
                    merged[path] += visits
            case _:
                pass
    for position in implicit.values():
        for path, visits in position.visits.items():
            merged[path] += visits
    return merged


def path_of(profile: Profile, node: int) -> Path:
    found: list[tuple[Any, ...]] = []
    while node >= 0:
        role = at.ROLE_NAMES[int(profile.role[node])]
        value = (int(profile.value[node]),) if role == "parameter" else ()
        found.append((role, profile.names[node], *value))
        node = int(profile.parent[node])
    return tuple(reversed(found))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_call_path_has_the_visits_of_the_pseudocode(seed: int, threads: int) -> None:
    untied = seed % 2 == 1
    events = Program(
        threads, recursive(4, 1 + seed % 3, 700 + 13 * seed, gives_way=untied), seed=seed, untied=untied, contention=0.3
    ).run()
    profiler = Profiler(compiled=False)
    cuts = np.array_split(events.records[events.records["time"].argsort(kind="stable")], 3)
    for k, part in enumerate(cuts):
        profiler.fold_batch(TaskEvents(part, events.strings if k == 0 else ()))
    folded = profiler.flush()
    assert not folded.refused
    profile = profile_of(profiler)
    check_laws(profile)
    expected = reference(events)
    assert {path_of(profile, node) for node in range(len(profile))} == set(expected)
    for node in range(len(profile)):
        visits = expected[path_of(profile, node)]
        assert profile.count[node] == len(visits)
        assert profile.inclusive_ns[node] == sum(visits)
        assert (profile.least_ns[node], profile.most_ns[node]) == (min(visits), max(visits))
        assert profile.mean_ns[node] == pytest.approx(np.mean(visits), rel=1e-12)
        if len(visits) > 1:
            assert profile.variance_ns2[node] == pytest.approx(np.var(visits, ddof=1), rel=1e-9, abs=1e-6)
    assert not profile.notes
    assert profile.measures.begins == profile.measures.ends == profile.measures.creates


def test_span_is_the_longest_path_through_the_tree() -> None:
    """A full tree of fixed work: the span is one task a level, each whole, before and after its taskwait."""
    for threads in (1, 3):
        profiler = Profiler(window_ns=0, compiled=False)
        events = Program(threads, recursive(3, 2, 1000), create_ns=0).run()
        profiler.fold_batch(TaskEvents(events.records[events.records["time"].argsort(kind="stable")], events.strings))
        measures = profile_of(profiler).measures
        assert measures.work_s == pytest.approx((2**4 - 1) * 1.5e-6)
        # Some ns are work besides: a task that has begun stands in no wait while its switch ends.
        assert measures.span_s == pytest.approx(4 * 1.5e-6, rel=0.01)
        assert measures.parallelism == pytest.approx(15 / 4, rel=0.01)
        # On each level the burden of one creation, and that of one task's end.
        assert measures.burdened_span_s == pytest.approx(measures.span_s + 6 * 5e-6, rel=0.01)
        bounds = measures.bounds((1, 4))
        assert bounds[0].least_s == pytest.approx(measures.work_s)
        assert bounds[1].least_s == pytest.approx(measures.span_s, rel=1e-9)
        assert bounds[1].most_s == pytest.approx(measures.work_s / 4 + 1.7 * measures.burdened_span_s)


def integrals(events: TaskEvents) -> tuple[int, int]:
    """Return delay and no_work in ns, by looking at all threads and all tasks anew at each event."""
    records = events.records[events.records["time"].argsort(kind="stable")]
    regions: dict[int, list[bool]] = defaultdict(
        list
    )  # of a task, or of a thread's implicit one as -1 - thread: is it a wait
    current: dict[int, int] = {}
    parent: dict[int, int] = {}
    created: set[int] = set()
    suspended: set[int] = set()
    delay = no_work = last = 0
    for now, number, _, _, thread, kind, _ in records.tolist():
        waiting = sum(bool(regions[task]) and regions[task][-1] for task in current.values())
        awaited = {parent[task] for task in created | suspended | set(current.values()) if task in parent}
        ready = len(created) + sum(not (regions[task] and regions[task][-1] and task in awaited) for task in suspended)
        delay += min(ready, waiting) * (now - last)
        no_work += (waiting - min(ready, waiting)) * (now - last)
        last = now
        here = current.setdefault(thread, -1 - thread)
        match Kind(kind):
            case Kind.CREATE:
                created.add(number)
                parent[number] = here
            case Kind.BEGIN | Kind.SWITCH:
                if here > 0:
                    suspended.add(here)
                created.discard(number)
                suspended.discard(number)
                current[thread] = number or -1 - thread
            case Kind.END:
                del parent[number]
                current[thread] = -1 - thread
            case Kind.ENTER:
                regions[here].append(False)
            case Kind.SYNC_BEGIN:
                regions[here].append(True)
            case Kind.EXIT | Kind.SYNC_END:
                regions[here].pop()
            case Kind.WORKER_STOP:
                del current[thread]
            case _:
                pass
    return delay, no_work


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threads", [2, 4])
def test_delay_and_no_work_are_what_looking_anew_finds(seed: int, threads: int) -> None:
    program = Program(
        threads, recursive(3, 2, 700 + 13 * seed, gives_way=seed % 2 == 1), seed=seed, untied=seed % 2 == 1
    )
    program.look_ns = 300  # workers look rarely: some tasks lie ready
    events = program.run()
    profiler = Profiler(compiled=False)
    profiler.fold_batch(events)
    profiler.flush()
    measures = profile_of(profiler).measures
    delay, no_work = integrals(events)
    assert delay > 0
    assert no_work > 0
    assert measures.delay_s == pytest.approx(delay * 1e-9, rel=1e-12)
    assert measures.no_work_s == pytest.approx(no_work * 1e-9, rel=1e-12)


def longest_path(events: TaskEvents) -> int:
    """Return the span in ns: the run as a graph of pieces of work between creations and joins, its longest path."""
    records = events.records[events.records["time"].argsort(kind="stable")]
    work: list[int] = []
    before: list[list[int]] = []
    piece: dict[int, int] = {}  # of a task, or of a thread's implicit one as -1 - thread: where it stands
    regions: dict[int, list[bool]] = defaultdict(list)  # is it work
    since: dict[int, int] = {}  # of those that run
    current: dict[int, int] = {}
    creator: dict[int, int] = {}
    ends: dict[int, list[int]] = defaultdict(list)

    def go_on(task: int, *behind: int) -> None:
        work.append(0)
        before.append([*behind, piece[task]] if task in piece else list(behind))
        piece[task] = len(work) - 1

    def spend(task: int, now: int) -> None:
        if task in since and (not regions[task] or regions[task][-1]) and (task > 0 or regions[task]):
            work[piece[task]] += now - since[task]
        if task in since:
            since[task] = now

    def runs(thread: int, task: int, now: int) -> None:
        here = current[thread]
        spend(here, now)
        del since[here]
        since[task] = now
        current[thread] = task

    for now, number, other, _, thread, kind, _ in records.tolist():
        if thread not in current:
            current[thread] = -1 - thread
            since[-1 - thread] = now
            go_on(-1 - thread)
        here = current[thread]
        spend(here, now)
        match Kind(kind):
            case Kind.CREATE:
                go_on(number, piece[here])
                go_on(here)
                creator[number] = here
            case Kind.BEGIN | Kind.SWITCH:
                if (number or -1 - thread) != here:
                    runs(thread, number or -1 - thread, now)
            case Kind.END:
                ends[creator[number]].append(piece[number])
                runs(thread, -1 - thread, now)
            case Kind.ENTER:
                regions[here].append(other != RegionKind.CREATION)
            case Kind.SYNC_BEGIN:
                regions[here].append(False)
            case Kind.EXIT | Kind.SYNC_END:
                regions[here].pop()
                if kind == Kind.SYNC_END and other == SyncKind.TASKWAIT:
                    go_on(here, *ends[here])
            case _:
                pass
    length: list[int] = []
    for k, behind in enumerate(before):
        length.append(work[k] + max((length[each] for each in behind), default=0))
    return max(length)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("threads", [1, 3])
def test_the_span_is_the_longest_path_of_the_graph(seed: int, threads: int) -> None:
    untied = seed % 2 == 1
    events = Program(
        threads, recursive(4, 1 + seed % 3, 700 + 13 * seed, gives_way=untied), seed=seed, untied=untied, contention=0.3
    ).run()
    profiler = Profiler(compiled=False)
    profiler.fold_batch(events)
    profiler.flush()
    assert profile_of(profiler).measures.span_s == pytest.approx(longest_path(events) * 1e-9, rel=1e-12)
