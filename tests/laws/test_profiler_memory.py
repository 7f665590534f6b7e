"""Memory of the profiler is that of the profile and of what is open, however many tasks have ended."""

from __future__ import annotations

import sys

import numpy as np
from task_program import Program, recursive

from advisor.domain.task_events import EventWriter, Kind, TaskEvents
from advisor.profile.profiler import Profiler
from advisor.profile.state import Caps
from advisor.profile.view import profile_of


def repeat(profiler: Profiler, events: TaskEvents, rounds: int, first: int = 0) -> None:
    """Fold a program again and again, later each time and with new instances."""
    each = int(events.records["instance"].max())
    span = int(events.records["time"].max()) + 1
    for k in range(first, first + rounds):
        records = events.records.copy()
        records["time"] += k * span
        records["instance"] += (records["instance"] > 0) * np.uint64(k * each)
        assert not profiler.fold_batch(TaskEvents(records, events.strings if k == 0 else ())).refused


def sizes(profiler: Profiler) -> list[int]:
    return [len(part) for part in profiler.tables.state]


def test_tables_do_not_grow_with_tasks() -> None:
    events = Program(3, recursive(4, 2, 500)).run()
    profiler = Profiler(window_ns=10_000, compiled=False)
    repeat(profiler, events, 4)
    before = sizes(profiler)
    total = sys.getsizeof(profiler.window._held) + sum(sys.getsizeof(part) for part in profiler.tables.state)
    repeat(profiler, events, 40, 4)
    assert sizes(profiler) == before
    after = sys.getsizeof(profiler.window._held) + sum(sys.getsizeof(part) for part in profiler.tables.state)
    assert abs(after - total) < 100_000  # what the window holds at the moment
    assert len(profiler.strings) == len(events.strings)


def test_tasks_whose_begin_was_lost_do_not_take_the_room_of_those_that_run() -> None:
    profiler = Profiler(window_ns=0, compiled=False, caps=Caps(instances=80))
    out = EventWriter()
    for number in range(1, 200):
        out.add_event(number, Kind.CREATE, instance=number, type="A")
    for number in range(200, 300):
        out.add_event(10 * number, Kind.BEGIN, instance=number, type="A")
        out.add_event(10 * number + 5, Kind.END, instance=number)
    assert not profiler.fold_batch(out.batch()).refused
    profile = profile_of(profiler)
    assert profile.measures.ends == 100
    assert profile.notes == {"instances_untracked": 199 - 69}
