"""Task events to a task graph, by hand: where an instance is split, and what waits for what."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain.task_events import ABSENT_TYPE, RECORD, EventWriter, Flag, Kind, RegionKind, SyncKind, TaskEvents
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import AdvisorError, InvalidValue
from advisor.profile.recorded import graph_of_events
from advisor.simulation import simulate

K, S, R = Kind, SyncKind, RegionKind


def edges_of(graph: TaskGraph) -> set[tuple[str, str]]:
    return {
        (graph.name(task), graph.name(child))
        for task in range(len(graph))
        for child in graph.children[graph.first[task] : graph.first[task + 1]].tolist()
    }


def times_of(graph: TaskGraph) -> dict[str, float]:
    return dict(zip(graph.names, graph.times.tolist(), strict=True))


def two_tasks() -> EventWriter:
    """10 of work, a task, 5, another, 5, a wait in which they run for 20 and 30 with 1 or 2 between, 7."""
    out = EventWriter()
    out.add_event(0, K.ENTER, type="main")
    out.add_event(10, K.CREATE, instance=1, type="f")
    out.add_event(15, K.CREATE, instance=2, type="g")
    out.add_event(20, K.SYNC_BEGIN, other=S.TASKWAIT, type="wait")
    out.add_event(22, K.BEGIN, instance=1)
    out.add_event(42, K.END, instance=1)
    out.add_event(43, K.BEGIN, instance=2)
    out.add_event(73, K.END, instance=2)
    out.add_event(74, K.SYNC_END, other=S.TASKWAIT, type="wait")
    out.add_event(81, K.EXIT, type="main")
    return out


def test_an_instance_is_split_where_it_creates_and_where_it_waits() -> None:
    graph = graph_of_events([two_tasks().batch()])
    assert times_of(graph) == {
        "thread 0, part 1": 10, "thread 0, part 2": 5, "thread 0, part 3": 5, "f 1, part 1": 22, "g 2, part 1": 31,
        "thread 0, part 4": 8,
    }  # fmt: skip
    assert edges_of(graph) == {
        ("thread 0, part 1", "thread 0, part 2"), ("thread 0, part 1", "f 1, part 1"),
        ("thread 0, part 2", "thread 0, part 3"), ("thread 0, part 2", "g 2, part 1"),
        ("thread 0, part 3", "thread 0, part 4"), ("f 1, part 1", "thread 0, part 4"),
        ("g 2, part 1", "thread 0, part 4"),
    }  # fmt: skip
    assert graph.columns["tied"].tolist() == [0, 0, 0, -1, -1, 0]
    assert graph.columns["part"].tolist() == [10 / 28, 5 / 28, 5 / 28, 1, 1, 8 / 28]
    assert [simulate(graph, cores).makespan for cores in (1, 2, 3)] == [81, 15 + 5 + 31 + 8, 15 + 31 + 8]


def test_where_several_threads_ran_waiting_is_nobodys_time() -> None:
    out = two_tasks()
    out.add_event(0, K.WORKER_START, thread=1)
    out.add_event(0, K.IDLE_BEGIN, thread=1)
    out.add_event(16, K.IDLE_END, thread=1)
    out.add_event(18, K.ENTER, thread=1, type="other")
    out.add_event(48, K.EXIT, thread=1, type="other")
    out.add_event(48, K.WORKER_STOP, thread=1)
    out.add_event(90, K.WORKER_START, thread=1)
    out.add_event(90, K.WORKER_STOP, thread=1)
    times = times_of(graph_of_events([out.batch()]))
    assert (times["f 1, part 1"], times["g 2, part 1"], times["thread 0, part 4"]) == (20, 30, 7)
    assert times["thread 1, part 1"] == 32


def test_an_undeferred_task_is_waited_for_unless_that_is_for_want_of_threads() -> None:
    def made(flags: Flag) -> TaskGraph:
        out = EventWriter()
        out.add_event(0, K.CREATE, instance=1, type="f")
        out.add_event(0, K.CREATE, instance=2, type="f", flags=flags)
        out.add_event(0, K.BEGIN, instance=2)
        out.add_event(10, K.END, instance=2)
        out.add_event(30, K.SYNC_BEGIN, other=S.TASKWAIT, type="w")
        out.add_event(30, K.BEGIN, instance=1)
        out.add_event(70, K.END, instance=1)
        out.add_event(70, K.SYNC_END, other=S.TASKWAIT, type="w")
        return graph_of_events([out.batch()])

    assert simulate(made(Flag.UNDEFERRED), 3).makespan == 40
    assert ("f 2, part 1", "thread 0, part 3") in edges_of(made(Flag.UNDEFERRED))
    assert ("f 2, part 1", "thread 0, part 3") not in edges_of(made(Flag.UNDEFERRED | Flag.AT_ONCE))
    assert ("f 2, part 1", "thread 0, part 3") in edges_of(made(Flag.UNDEFERRED | Flag.DEPENDENT))


def test_dependences_untied_tasks_and_sizes() -> None:
    out = EventWriter()
    for number in (1, 2):
        out.add_event(number, K.CREATE, instance=number, type="stage", flags=Flag.UNTIED)
    out.add_event(3, K.DEPENDENCE, instance=2, other=1)
    out.add_event(4, K.SYNC_BEGIN, other=S.TASKWAIT, type="w")
    out.add_event(4, K.BEGIN, instance=1)
    out.rows.append((5, 1, 4_617_315_517_961_601_024, 2**32 - 1, 0, int(K.SIZE), 0))  # 5.0
    out.add_event(6, K.CREATE, instance=3, type="leaf")
    out.add_event(9, K.END, instance=1)
    out.add_event(9, K.BEGIN, instance=2)
    out.add_event(19, K.END, instance=2)
    out.add_event(19, K.BEGIN, instance=3)
    out.add_event(20, K.END, instance=3)
    out.add_event(20, K.SYNC_END, other=S.TASKWAIT, type="w")
    graph = graph_of_events([out.batch()])
    assert ("stage 1, part 2", "stage 2, part 1") in edges_of(graph)
    assert ("leaf 3, part 1", "thread 0, part 4") not in edges_of(graph)  # a taskwait is for children only
    sizes = dict(zip(graph.names, graph.columns["size"].tolist(), strict=True))
    assert (sizes["stage 1, part 1"], sizes["stage 1, part 2"], sizes["stage 2, part 1"]) == (5, 5, 1)
    assert graph.columns["tied"][graph.names.index("stage 1, part 1")] == -1


@pytest.mark.parametrize("begins_early", [True, False])
def test_a_taskgroup_waits_for_descendants_and_what_is_done_inside_is_work(begins_early: bool) -> None:
    out = EventWriter()
    out.add_event(0, K.ENTER, type="main")
    if begins_early:
        out.add_event(0, K.SYNC_BEGIN, other=S.TASKGROUP, type="g")
    out.add_event(5, K.CREATE, instance=1, type="f")
    if not begins_early:
        out.add_event(5, K.SYNC_BEGIN, other=S.TASKGROUP, type="g")
    out.add_event(5, K.BEGIN, instance=1)
    out.add_event(7, K.CREATE, instance=2, type="f")
    out.add_event(8, K.END, instance=1)
    out.add_event(8, K.BEGIN, instance=2)
    out.add_event(20, K.END, instance=2)
    out.add_event(20, K.SYNC_END, other=S.TASKGROUP, type="g")
    out.add_event(26, K.EXIT, type="main")
    graph = graph_of_events([out.batch()])
    assert [simulate(graph, cores).makespan for cores in (1, 2)] == [26, 5 + 2 + 12 + 6]


def team(out: EventWriter, thread: int, start: int, work: int, end: int) -> None:
    """A member of region 9 that works, makes a task of 8 where it is thread 0, and comes to the barrier."""
    out.add_event(start, K.ENTER, thread=thread, instance=9, other=R.PARALLEL, type="parallel")
    if thread == 0:
        out.add_event(start + work, K.CREATE, thread=0, instance=1, type="f")
    out.add_event(start + work, K.SYNC_BEGIN, thread=thread, other=S.BARRIER, type="barrier")
    if thread == 0:
        out.add_event(start + work, K.BEGIN, thread=0, instance=1)
        out.add_event(start + work + 8, K.END, thread=0, instance=1)
    out.add_event(end, K.SYNC_END, thread=thread, other=S.BARRIER, type="barrier")
    out.add_event(end, K.EXIT, thread=thread, instance=9, other=R.PARALLEL, type="parallel")


@pytest.mark.parametrize("worker_enters", [9, 10, 12])
def test_a_barrier_is_for_all_members_and_tasks_and_the_master_opens_the_region(worker_enters: int) -> None:
    out = EventWriter()
    out.add_event(0, K.ENTER, type="initial")
    out.add_event(worker_enters - 1, K.WORKER_START, thread=1)
    team(out, 0, 10, 3, 40)
    team(out, 1, worker_enters, 28, 41)
    out.add_event(41, K.WORKER_STOP, thread=1)
    out.add_event(45, K.EXIT, type="initial")
    graph = graph_of_events([out.batch()])
    assert ("thread 0, part 1", "thread 1, part 2") in edges_of(graph)  # opened by the one who ran something around it
    assert simulate(graph, 2).makespan == 10 + 28 + 5
    assert simulate(graph, 3).makespan == 10 + 28 + 5
    assert simulate(graph, 1).makespan == 10 + 3 + 8 + 28 + 5 + 1  # of the worker before it enters


def test_a_task_that_was_given_up_leaves_no_strand() -> None:
    out = EventWriter()
    out.add_event(1, K.CREATE, instance=1, type="f")
    out.add_event(2, K.CREATE, instance=2, type="f")
    out.add_event(3, K.CANCEL, instance=1)
    out.add_event(3, K.DEPENDENCE, instance=2, other=1)
    out.add_event(4, K.SYNC_BEGIN, other=S.TASKWAIT, type="w")
    out.add_event(4, K.BEGIN, instance=2)
    out.add_event(6, K.CANCEL, instance=2)
    out.add_event(6, K.SYNC_END, other=S.TASKWAIT, type="w")
    graph = graph_of_events([out.batch()])
    assert [name for name in graph.names if name.startswith("f")] == ["f 2, part 1"]
    assert simulate(graph, 1).makespan == 5  # from the first event on


ILLEGAL: dict[str, list[tuple[Kind, dict[str, Any]]]] = {
    "an end of nothing": [(K.END, {"instance": 7})],
    "an end before its begin": [(K.CREATE, {"instance": 7, "type": "f"}), (K.END, {"instance": 7})],
    "a wait that was not begun": [(K.SYNC_END, {"other": S.TASKWAIT, "type": "w"})],
    "a switch to nobody": [(K.SWITCH, {"instance": 7})],
    "a switch to what has not begun": [(K.CREATE, {"instance": 7, "type": "f"}), (K.SWITCH, {"instance": 7})],
    "begun twice": [(K.BEGIN, {"instance": 7, "type": "f"})] * 2,
    "a barrier of another region": [
        (K.SYNC_BEGIN, {"other": S.BARRIER, "type": "barrier"}),
        (K.ENTER, {"instance": 9, "other": R.PARALLEL, "type": "parallel"}),
        (K.SYNC_END, {"other": S.BARRIER, "type": "barrier"}),
    ],
}


@pytest.mark.parametrize("illegal", ILLEGAL)
def test_a_stream_that_lacks_events_is_refused_with_its_moment(illegal: str) -> None:
    out = EventWriter()
    for kind, fields in ILLEGAL[illegal]:
        out.add_event(5, kind, **fields)
    with pytest.raises(InvalidValue, match="at 5 ns"):
        graph_of_events([out.batch()])


def test_dropped_events_are_refused_and_none_are_a_graph_of_nothing() -> None:
    dropped = TaskEvents(two_tasks().batch().records, ("main", "f", "g", "wait"), dropped=3)
    with pytest.raises(InvalidValue, match="dropped is 3"):
        graph_of_events([dropped])
    assert len(graph_of_events([])) == 0
    assert simulate(graph_of_events([]), 4).makespan == 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 1, 9, ABSENT_TYPE]),
            st.integers(0, 2), st.integers(0, 17), st.integers(0, 15),
        ),
        max_size=25,
    )
)  # fmt: skip
@settings(max_examples=250, deadline=None)
def test_any_records_are_a_graph_or_refused(rows: list[tuple[int, ...]]) -> None:
    records = np.array(rows, RECORD)
    with suppress(AdvisorError):
        graph = graph_of_events([TaskEvents(records, ("f", "g"))])
        for cores in (1, 2):
            assert simulate(graph, cores, "work_stealing").ticks <= graph.ticks.sum()
