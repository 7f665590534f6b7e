"""Paper 5's Figures 1 to 11 (and its Table II): event streams and the profiles that they become.

The figures print call paths and, in part, times; where they print none, times are chosen here so that every node's differ.
"""

from __future__ import annotations

import pytest
from profile_laws import path_of

from advisor.domain.task_events import EventWriter, Flag, Kind, RegionKind, SyncKind
from advisor.profile import layout as at
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

CREATE, PARALLEL = RegionKind.CREATION, RegionKind.PARALLEL
Reported = dict[str, tuple[int, int, int, int]]  # path: visits, open, inclusive, exclusive


class Stream:
    """A profiler fed step by step, looked at between."""

    def __init__(self) -> None:
        self.out = EventWriter()
        self.profiler = Profiler(window_ns=0, compiled=False)

    def say(self, time: int, kind: Kind, **fields: object) -> Stream:
        self.out.add_event(time, kind, **fields)  # type: ignore[arg-type]
        folded = self.profiler.fold_batch(self.out.batch())
        assert folded.accepted == 1, folded.first
        return self

    @property
    def profile(self) -> Profile:
        return profile_of(self.profiler)

    @property
    def reported(self) -> Reported:
        profile = self.profile
        columns = (profile.count, profile.open, profile.inclusive_ns, profile.exclusive_ns)
        return {
            " > ".join(part.removeprefix("region ") for part in path_of(profile, node)): tuple(
                int(c[node]) for c in columns
            )
            for node in range(len(profile))
        }

    @property
    def active(self) -> int:
        """Entries of the table of explicit tasks (Figs. 6 to 11)."""
        return profile_of(self.profiler).measures.active


def test_figure_1_an_event_stream_and_its_profile() -> None:
    """main calls foo, bar and foo again, without overlap; a node a call path."""
    stream = Stream().say(0, Kind.ENTER, type="main")
    for start, end, name in ((1, 3, "foo"), (4, 8, "bar"), (8, 13, "foo")):
        stream.say(start, Kind.ENTER, type=name).say(end, Kind.EXIT, type=name)
    stream.say(15, Kind.EXIT, type="main").say(15, Kind.WORKER_STOP)
    assert stream.reported == {
        "thread thread 0": (1, 0, 15, 0),
        "thread thread 0 > main": (1, 0, 15, 4),
        "thread thread 0 > main > foo": (2, 0, 7, 7),
        "thread thread 0 > main > bar": (1, 0, 4, 4),
    }
    profile = stream.profile
    foo = profile.names.index("foo")
    assert (profile.least_ns[foo], profile.most_ns[foo], profile.mean_ns[foo]) == (2, 5, 3.5)


def test_figure_2_regions_of_two_suspended_tasks_are_told_apart() -> None:
    """Both tasks are suspended inside foo: enter and exit of foo do not nest, and the instance tells whose they are."""
    stream = Stream().say(0, Kind.SYNC_BEGIN, type="barrier", other=SyncKind.BARRIER)
    stream.say(1, Kind.BEGIN, instance=1, type="task").say(2, Kind.ENTER, instance=1, type="foo")
    stream.say(4, Kind.BEGIN, instance=2, type="task").say(5, Kind.ENTER, instance=2, type="foo")
    stream.say(8, Kind.SWITCH, instance=1).say(12, Kind.EXIT, instance=1, type="foo").say(13, Kind.END, instance=1)
    stream.say(14, Kind.SWITCH, instance=2).say(21, Kind.EXIT, instance=2, type="foo").say(22, Kind.END, instance=2)
    reported = stream.reported
    assert reported["task task > foo"] == (2, 0, (2 + 4) + (3 + 7), 16)
    assert reported["task task"] == (2, 0, 3 + 5 + 4 + 8, 4)
    profile = stream.profile
    foo = profile.names.index("foo")
    assert (profile.least_ns[foo], profile.most_ns[foo]) == (6, 10)


def test_figure_3_a_task_belongs_where_it_is_executed() -> None:
    """Fig. 3, right: parallel 1, creation 1, task 6, barrier 1. Put where it was made, creation would be -5 and barrier 7."""
    stream = Stream().say(0, Kind.ENTER, instance=1, type="parallel", other=PARALLEL)
    stream.say(1, Kind.ENTER, type="create", other=CREATE).say(1, Kind.CREATE, instance=1, type="task")
    stream.say(2, Kind.EXIT, type="create", other=CREATE).say(
        2, Kind.SYNC_BEGIN, type="barrier", other=SyncKind.BARRIER
    )
    stream.say(3, Kind.BEGIN, instance=1, type="task").say(9, Kind.END, instance=1)
    stream.say(9, Kind.SYNC_END, type="barrier", other=SyncKind.BARRIER)
    stream.say(9, Kind.EXIT, instance=1, type="parallel", other=PARALLEL)
    top = "thread thread 0 > parallel parallel"
    assert stream.reported[top][3] == 1
    assert stream.reported[f"{top} > creation create"] == (1, 0, 1, 1)
    assert stream.reported[f"{top} > barrier barrier"] == (1, 0, 7, 1)
    assert stream.reported[f"{top} > barrier barrier > stub task"] == (1, 0, 6, 6)
    assert stream.reported["task task"] == (1, 0, 6, 6)
    assert (stream.profile.exclusive_ns >= 0).all()


def test_figure_4_a_task_suspended_in_a_taskwait_and_resumed_elsewhere() -> None:
    """task1 waits, task2 runs in between; no parent and child among explicit tasks, and task1's clock stands meanwhile."""
    stream = Stream().say(0, Kind.SYNC_BEGIN, type="taskwait of main", other=SyncKind.TASKWAIT)
    stream.say(1, Kind.BEGIN, instance=1, type="task1").say(
        3, Kind.SYNC_BEGIN, type="taskwait", other=SyncKind.TASKWAIT
    )
    stream.say(4, Kind.BEGIN, instance=2, type="task2").say(
        10, Kind.SYNC_BEGIN, type="taskwait", other=SyncKind.TASKWAIT
    )
    stream.say(11, Kind.SWITCH)
    stream.say(12, Kind.SYNC_END, type="taskwait of main", other=SyncKind.TASKWAIT)
    stream.say(13, Kind.SYNC_BEGIN, type="barrier", other=SyncKind.BARRIER)
    stream.say(15, Kind.SWITCH, instance=1).say(16, Kind.SYNC_END, type="taskwait", other=SyncKind.TASKWAIT)
    stream.say(20, Kind.END, instance=1)
    reported = stream.reported
    assert reported["task task1"] == (1, 0, 3 + 5, 2 + 4)
    assert reported["task task1 > taskwait taskwait"] == (1, 0, 2, 2)
    assert reported["task task2"] == (0, 1, 7, 6)
    # Its fragments are where they ran, each under its own scheduling point.
    assert reported["thread thread 0 > taskwait taskwait of main > stub task1"] == (1, 0, 3, 3)
    assert reported["thread thread 0 > taskwait taskwait of main > stub task2"] == (1, 0, 7, 7)
    assert reported["thread thread 0 > barrier barrier > stub task1"] == (1, 0, 5, 5)
    assert not [path for path in reported if path.startswith("task") and "stub" in path]


def test_figure_5_the_barrier_apart_from_the_tasks_in_it() -> None:
    """113 s of tasks and 103 s of waiting in the barrier; task0 51.5 s itself and 25.8 s creating."""
    s = 10**9
    stream = Stream().say(0, Kind.SYNC_BEGIN, type="barrier", other=SyncKind.BARRIER)
    stream.say(60 * s, Kind.BEGIN, instance=1, type="task0")
    stream.say(60 * s + 51_500_000_000, Kind.ENTER, type="create", other=CREATE)
    stream.say(60 * s + 77_300_000_000, Kind.EXIT, type="create", other=CREATE)
    stream.say(60 * s + 77_300_000_000, Kind.ENTER, type="other").say(173 * s, Kind.EXIT, type="other")
    stream.say(173 * s, Kind.END, instance=1).say(216 * s, Kind.SYNC_END, type="barrier", other=SyncKind.BARRIER)
    reported = stream.reported
    assert reported["thread thread 0 > barrier barrier"] == (1, 0, 216 * s, 103 * s)
    assert reported["thread thread 0 > barrier barrier > stub task0"] == (1, 0, 113 * s, 113 * s)
    assert reported["task task0"] == (1, 0, 113 * s, 51_500_000_000)
    assert reported["task task0 > creation create"][3] == 25_800_000_000


def test_figures_6_to_11_the_life_of_two_instances_of_one_construct() -> None:
    top = "thread thread 0 > parallel parallel"
    barrier = f"{top} > barrier barrier"
    # Fig. 6: no tasks; the table is empty and the current task is the implicit one.
    stream = Stream().say(0, Kind.ENTER, instance=1, type="parallel", other=PARALLEL)
    assert stream.active == 0
    assert set(stream.reported) == {"thread thread 0", top}
    # Fig. 7: two tasks of A were made, none has begun; then a barrier.
    for number, time in ((1, 1), (2, 3)):
        stream.say(time, Kind.ENTER, type="create A", other=CREATE).say(time, Kind.CREATE, instance=number, type="A")
        stream.say(time + 1, Kind.EXIT, type="create A", other=CREATE)
    stream.say(5, Kind.SYNC_BEGIN, type="barrier", other=SyncKind.BARRIER)
    assert stream.active == 0
    assert stream.reported[f"{top} > creation create A"] == (2, 0, 2, 2)
    assert stream.reported[barrier] == (0, 1, 0, 0)
    # Fig. 8: instance 1 has begun: its own tree, and a stub below the barrier.
    stream.say(7, Kind.BEGIN, instance=1, type="A").say(9, Kind.ENTER, instance=1, type="foo")
    assert stream.active == 1
    assert stream.reported["task A"] == (0, 1, 2, 2)
    assert stream.reported[f"{barrier} > stub A"] == (0, 1, 2, 2)
    # Fig. 9: instance 1 waits and is suspended; instance 2 has begun. One construct: the stub is the same node.
    stream.say(10, Kind.EXIT, instance=1, type="foo").say(10, Kind.SYNC_BEGIN, type="taskwait", other=SyncKind.TASKWAIT)
    stream.say(12, Kind.BEGIN, instance=2, type="A")
    assert stream.active == 2
    assert stream.reported["task A"] == (0, 2, 5, 2)
    assert stream.reported[f"{barrier} > stub A"] == (1, 1, 5, 5)
    # Fig. 10: instance 2 ended without entering a region; instance 1 goes on.
    stream.say(18, Kind.END, instance=2).say(18, Kind.SWITCH, instance=1)
    assert stream.active == 1
    assert stream.reported["task A"] == (1, 1, 5 + 6, 2 + 6)
    assert stream.reported["task A > taskwait taskwait"] == (0, 1, 2, 2)
    assert stream.reported[f"{barrier} > stub A"] == (2, 1, 11, 11)
    # Fig. 11: all is done: the implicit tree, and one tree of A for both.
    stream.say(19, Kind.SYNC_END, type="taskwait", other=SyncKind.TASKWAIT).say(21, Kind.END, instance=1)
    stream.say(22, Kind.SYNC_END, type="barrier", other=SyncKind.BARRIER)
    stream.say(22, Kind.EXIT, instance=1, type="parallel", other=PARALLEL).say(22, Kind.WORKER_STOP)
    assert stream.active == 0
    assert stream.reported == {
        "thread thread 0": (1, 0, 22, 0),
        top: (1, 0, 22, 3),
        f"{top} > creation create A": (2, 0, 2, 2),
        barrier: (1, 0, 17, 3),
        f"{barrier} > stub A": (3, 0, 14, 14),
        "task A": (2, 0, 14, 10),
        "task A > foo": (1, 0, 1, 1),
        "task A > taskwait taskwait": (1, 0, 3, 3),
    }
    profile = stream.profile
    root = profile.roots(at.TASK)[0]
    assert (profile.least_ns[root], profile.most_ns[root], profile.mean_ns[root]) == (6, 8, 7.0)
    assert profile.variance_ns2[root] == pytest.approx(2.0)
    # Table II: at most two instances at a time on this thread, in this parallel region.
    assert profile.active_max[profile.names.index("parallel")] == 2


def test_a_create_that_comes_after_the_begin_still_tells_what_task_it_is() -> None:
    stream = Stream().say(1, Kind.BEGIN, instance=1, type="A")
    stream.say(2, Kind.CREATE, thread=1, instance=1, type="A", flags=Flag.UNTIED).say(3, Kind.SWITCH)
    stream.say(4, Kind.SWITCH, thread=1, instance=1).say(6, Kind.END, thread=1, instance=1)
    assert stream.reported["task A"] == (1, 0, 4, 4)
    measures = stream.profile.measures
    assert (measures.creates, measures.begins, measures.ready) == (1, 1, 0)


def test_untied_tasks_move_and_nested_regions_nest() -> None:
    """What the paper leaves to the runtime: an untied task goes on on another thread; a parallel region inside a task."""
    stream = Stream()
    for thread in (0, 1):
        stream.say(0, Kind.ENTER, thread=thread, instance=1, type="outer", other=PARALLEL)
        stream.say(0, Kind.SYNC_BEGIN, thread=thread, type="barrier", other=SyncKind.BARRIER)
    stream.say(1, Kind.BEGIN, instance=1, type="A", flags=Flag.UNTIED).say(4, Kind.SWITCH)
    stream.say(6, Kind.SWITCH, thread=1, instance=1)
    stream.say(7, Kind.ENTER, thread=1, instance=2, type="inner", other=PARALLEL)
    stream.say(9, Kind.BEGIN, thread=1, instance=2, type="B").say(10, Kind.END, thread=1, instance=2)
    stream.say(10, Kind.SWITCH, thread=1, instance=1)
    stream.say(12, Kind.EXIT, thread=1, instance=2, type="inner", other=PARALLEL).say(
        13, Kind.END, thread=1, instance=1
    )
    reported = stream.reported
    assert reported["task A"] == (1, 0, 3 + 3 + 3, 3 + 1 + 1)
    assert reported["task A > parallel inner"] == (1, 0, 4, 4)
    assert reported["task B"] == (1, 0, 1, 1)
    outer = "thread thread 1 > parallel outer > barrier barrier"
    assert reported[f"{outer} > stub A"] == (2, 0, 6, 6)
    assert reported[f"{outer} > stub B"] == (1, 0, 1, 1)
    profile = stream.profile
    inner = profile.names.index("inner")
    assert profile.active_max[inner] == 2
