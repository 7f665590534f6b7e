"""What the longest path goes through, and what no worker could take: tasks run in line, and dependences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.domain.task_events import EventWriter, Flag, Kind, SyncKind
from advisor.profile.checkpoint import from_bytes, to_bytes
from advisor.profile.measures import Measures
from advisor.profile.profiler import Profiler
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

BURDEN_NS = 100


def serial(flags: Flag, depth: int, *, creates: bool = True) -> Measures:
    """Return the measures of a chain of tasks, each run inside its creator, while another worker waits at the barrier."""
    out = EventWriter()
    for thread in (0, 1):
        out.add_event(0, Kind.SYNC_BEGIN, thread=thread, type="barrier", other=SyncKind.BARRIER)
    now = 0
    for number in range(1, depth + 1):
        if creates:
            out.add_event(now, Kind.CREATE, instance=number, type="A", flags=flags)
        out.add_event(now, Kind.BEGIN, instance=number, type="A", flags=flags)
        now += 10
    for number in range(depth, 0, -1):
        now += 5
        out.add_event(now, Kind.END, instance=number)
        out.add_event(now, Kind.SWITCH, instance=number - 1)
    profiler = Profiler(window_ns=0, compiled=False, burden_ns=BURDEN_NS)
    folded = profiler.fold_batch(out.batch())
    assert not folded.refused
    return profile_of(profiler).measures


@pytest.mark.parametrize("flags", [Flag.UNDEFERRED, Flag.MERGED, Flag.UNDEFERRED | Flag.FINAL | Flag.UNTIED])
@pytest.mark.parametrize("creates", [True, False])
def test_a_chain_of_undeferred_tasks_has_no_parallelism_and_no_delay(flags: Flag, creates: bool) -> None:
    m = serial(flags, 20, creates=creates)
    assert m.work_s == pytest.approx(20 * 15e-9)
    assert m.span_s == pytest.approx(m.work_s)
    assert m.burdened_span_s == pytest.approx(m.span_s)  # handed to nobody
    assert m.parallelism == pytest.approx(1.0)
    assert m.ready == 0
    assert m.delay_s == 0.0  # the other worker could have taken none of them
    assert m.no_work_s == pytest.approx(m.elapsed_s)


def test_deferred_tasks_run_in_the_same_order_could_have_run_apart() -> None:
    m = serial(Flag(0), 20)
    assert m.work_s == pytest.approx(20 * 15e-9)
    assert m.span_s == pytest.approx(
        (19 * 10 + 15) * 1e-9
    )  # what each does before it creates the next, and the last one
    assert m.burdened_span_s == pytest.approx(m.span_s + 20 * BURDEN_NS * 1e-9)
    assert m.delay_s > 0.0


def test_the_creator_goes_on_behind_what_it_ran_in_line() -> None:
    out = EventWriter()
    out.add_event(0, Kind.BEGIN, instance=1, type="A")
    out.add_event(10, Kind.CREATE, instance=2, type="B", flags=Flag.UNDEFERRED)
    out.add_event(10, Kind.BEGIN, instance=2, type="B")
    out.add_event(40, Kind.END, instance=2)
    out.add_event(40, Kind.SWITCH, instance=1)
    out.add_event(45, Kind.CREATE, instance=3, type="C")
    out.add_event(50, Kind.END, instance=1)
    out.add_event(60, Kind.BEGIN, instance=3, type="C")
    out.add_event(67, Kind.END, instance=3)
    profiler = Profiler(window_ns=0, compiled=False)
    profiler.fold_batch(out.batch())
    assert profile_of(profiler).measures.span_s == pytest.approx((45 + 7) * 1e-9)


@pytest.mark.parametrize("depends", [True, False])
def test_a_task_that_depends_on_another_is_behind_it(depends: bool) -> None:
    out = EventWriter()
    for thread in (0, 1):
        out.add_event(0, Kind.SYNC_BEGIN, thread=thread, type="barrier", other=SyncKind.BARRIER)
    for number in (1, 2):
        out.add_event(0, Kind.CREATE, instance=number, type="A")
    if depends:
        out.add_event(0, Kind.DEPENDENCE, instance=2, other=1)
    out.add_event(0, Kind.BEGIN, instance=1, type="A")
    out.add_event(10, Kind.END, instance=1)
    out.add_event(10, Kind.BEGIN, instance=2, type="A")
    out.add_event(17, Kind.END, instance=2)
    profiler = Profiler(window_ns=0, compiled=False)
    assert not profiler.fold_batch(out.batch()).refused
    m = profile_of(profiler).measures
    assert m.dependences == depends
    assert m.span_s == pytest.approx(17e-9 if depends else 10e-9)
    assert m.delay_s == pytest.approx(0.0 if depends else 10e-9)  # the other worker could have taken the second
    assert m.delay_s + m.no_work_s == pytest.approx(17e-9)


def test_regions_of_one_name_are_one_line_with_a_count() -> None:
    """An unrolled loop creates its tasks at several places of one line: each is a string of its own, with the same text."""

    def folded(names: list[str]) -> list[tuple[str, int, int]]:
        profiler, out = Profiler(compiled=False), EventWriter()
        out.add_event(0, Kind.SYNC_BEGIN, other=SyncKind.BARRIER, type="barrier")
        for number in range(3):
            out.add_event(10 * number + 1, Kind.BEGIN, instance=number + 1, type=f"place {number}")
            out.add_event(10 * number + 4 + number, Kind.END, instance=number + 1)
        batch = out.batch()
        profiler.fold_batch(replace(batch, strings=("barrier", *names)))
        profiler.flush()
        again = from_bytes(to_bytes(profiler), Profiler(compiled=False))
        assert rows(profile_of(again)) == rows(profile_of(profiler))
        return rows(profile_of(profiler))

    def rows(profile: Profile) -> list[tuple[str, int, int]]:
        return [
            (profile.label(node), int(profile.count[node]), int(profile.inclusive_ns[node]))
            for node in range(len(profile))
        ]

    assert ("a.c:7", 3, 3 + 4 + 5) in folded(["a.c:7", "a.c:7", "a.c:7"])
    assert ("a.c:7", 2, 3 + 4) in folded(["a.c:7", "a.c:7", "b.c:7"])
