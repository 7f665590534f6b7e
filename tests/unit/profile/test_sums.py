"""Instances told as sums: the same nodes as their events make, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live import running
from profile_laws import path_of

from advisor.domain.task_events import (
    ABSENT_TYPE,
    NO_EVENTS,
    SUM,
    Clock,
    EventWriter,
    Kind,
    RegionKind,
    TaskEvents,
    decode,
)
from advisor.errors import InvalidValue, TooLarge
from advisor.files.events import read_events, write_events
from advisor.profile import layout as at
from advisor.profile.checkpoint import from_bytes, to_bytes
from advisor.profile.profiler import Profiler
from advisor.profile.state import Caps
from advisor.profile.tree import Profile
from advisor.profile.view import profile_of

STRINGS = ("fib", "depth", "tasks not followed", "barrier")
COMPARED = ("count", "inclusive_ns", "exclusive_ns", "least_ns", "most_ns")


def tasks(seed: int, n: int) -> list[tuple[int, int, int, int]]:
    """Return depth, work, creation and waiting of tasks."""
    rng = np.random.default_rng(seed)
    return [(int(rng.integers(0, 3)), *rng.integers(1, 1000, 3).tolist()) for _ in range(n)]


def followed(given: list[tuple[int, int, int, int]]) -> TaskEvents:
    out = EventWriter()
    for name in STRINGS:
        out.string_number(name)
    now = 0
    for number, (depth, work, creation, waiting) in enumerate(given, 1):
        out.add_event(now, Kind.CREATE, instance=number, type="fib")
        out.add_event(now, Kind.BEGIN, instance=number, type="fib")
        out.add_event(now, Kind.PARAMETER, type="depth", other=depth)
        out.add_event(now + work, Kind.ENTER, type="fib", other=RegionKind.CREATION)
        out.add_event(now + work + creation, Kind.EXIT, type="fib", other=RegionKind.CREATION)
        out.add_event(now + work + creation, Kind.SYNC_BEGIN, type="fib")
        now += work + creation + waiting
        out.add_event(now, Kind.SYNC_END, type="fib")
        out.add_event(now, Kind.END, instance=number)
    return out.batch()


def summed(given: list[tuple[int, int, int, int]], ticks: int = 1) -> np.ndarray[Any, Any]:
    """Return the sums of tasks by depth, times in ticks of 1/ticks ns."""
    rows = []
    for depth in sorted({each[0] for each in given}):
        times = np.array([each[1:] for each in given if each[0] == depth], np.int64) * ticks
        whole = times.sum(axis=1)
        n = len(whole)
        rows.append(
            (
                0,
                1,
                depth,
                n,
                *times.sum(axis=0).tolist(),
                n,
                n,
                int(whole.min()),
                int(whole.max()),
                float((whole**2).sum()),
            )
        )
    return np.array(rows, SUM)


def events_of_sums(*parts: Any, clock: Clock | None = None, ended: bool = False) -> TaskEvents:
    sums = np.concatenate(parts)
    return TaskEvents(NO_EVENTS.records, STRINGS, clock or Clock(), sums=sums, ended=ended)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("ticks", [1, 4])
def test_sums_give_the_nodes_that_events_give(compiled: bool, ticks: int) -> None:
    given = tasks(1, 500)
    one, other = Profiler(window_ns=0, compiled=compiled), Profiler(window_ns=0, compiled=compiled)
    one.fold_batch(followed(given))
    folded = other.fold_batch(
        events_of_sums(summed(given[:200], ticks), summed(given[200:], ticks), clock=Clock(1e9 * ticks))
    )
    assert (folded.accepted, folded.summed, folded.refused) == (6, 500, {})
    a, b = profile_of(one), profile_of(other)
    paths = {path_of(b, node): node for node in range(len(b))}
    for node in [node for node, _ in a.walk(a.roots(at.TASK)[0])]:
        same = paths.pop(path_of(a, node))
        inner = a.role[node] in (at.CREATION, at.TASKWAIT)  # single visits of these are not in the sums
        for name in COMPARED[: 3 if inner else None]:
            assert getattr(a, name)[node] == getattr(b, name)[same], (name, path_of(a, node))
        assert b.mean_ns[same] == pytest.approx(a.mean_ns[node], rel=1e-12)
        if not inner:
            assert b.variance_ns2[same] == pytest.approx(a.variance_ns2[node], rel=1e-9)
    assert not paths
    ours, theirs = b.measures, a.measures
    assert (ours.creates, ours.begins, ours.ends) == (theirs.creates, theirs.begins, theirs.ends)
    for name in ("work_s", "creation_s", "waiting_s"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-12)
    assert b.notes == {"instances_summed": 500}


def test_a_thread_whose_tasks_are_told_apart_is_accounted_for_once() -> None:
    given = tasks(2, 40)
    took = sum(work + creation + waiting for _, work, creation, waiting in given)
    out = EventWriter()
    for name in STRINGS:
        out.string_number(name)
    out.add_event(0, Kind.SYNC_BEGIN, type="barrier", other=1)
    out.add_event(10, Kind.ENTER, type="tasks not followed", other=RegionKind.APART)
    out.add_event(10 + took, Kind.EXIT, type="tasks not followed", other=RegionKind.APART)
    out.add_event(30 + took, Kind.SYNC_END, type="barrier", other=1)
    profiler = Profiler(window_ns=0, compiled=False)
    profiler.fold_batch(out.batch())
    before = profile_of(profiler)
    assert before.measures.unaccounted_s == pytest.approx(took * 1e-9)  # until the sums are there
    profiler.fold_batch(TaskEvents(NO_EVENTS.records, sums=summed(given)))
    after = profile_of(profiler)
    m = after.measures
    assert m.unaccounted_s == pytest.approx(0.0, abs=1e-15)
    assert m.work_s == pytest.approx(sum(each[1] for each in given) * 1e-9)
    assert m.delay_s + m.no_work_s == pytest.approx(m.waiting_s)
    assert after.exclusive_ns[after.role == at.STUB].tolist() == [took]
    assert after.exclusive_ns[after.role[after.root] == at.TASK].sum() == took


def test_a_sync_region_has_no_such_kind() -> None:
    out = EventWriter()
    out.add_event(0, Kind.SYNC_BEGIN, type="x", other=4)
    out.add_event(0, Kind.ENTER, type="x", other=5)
    profiler = Profiler(window_ns=0, compiled=False)
    assert profiler.fold_batch(out.batch()).refused == {"unknown_region_kind": 2}


@pytest.mark.parametrize("compiled", [False, True])
def test_bad_sums_are_refused_one_by_one_and_change_nothing(compiled: bool) -> None:
    (good, *_) = summed([(0, 100, 20, 30)] * 3)
    bad = {
        "type": [4, ABSENT_TYPE], "parameter": [4], "count": [0, 2**60, 2], "work": [2**63, 2**62, 0],
        "least": [151, 2**64 - 1], "most": [149, 0], "squares": [np.nan, -1.0, 0.0, np.inf, 67_000.0],
        "creates": [2**64 - 1], "waits": [2**61],
    }  # fmt: skip
    rows = []
    for name, values in bad.items():
        for value in values:
            row = good.copy()
            row[name] = value
            rows.append(row)
    profiler = Profiler(window_ns=0, compiled=compiled)
    folded = profiler.fold_batch(events_of_sums(np.array(rows, SUM)))
    assert folded.refused == {"unknown_string": 3, "bad_sum": len(rows) - 3}
    assert (folded.accepted, folded.summed) == (0, 0)
    assert folded.first[0][1] == "unknown_string"
    assert len(profile_of(profiler)) == 0
    assert profile_of(profiler).measures.ends == 0


def test_sums_beyond_the_cap_of_nodes_go_to_the_overflow() -> None:
    profiler = Profiler(window_ns=0, compiled=False, caps=Caps(nodes=8))
    profiler.fold_batch(events_of_sums(summed([(depth, 100, 20, 30) for depth in range(50)])))
    profile = profile_of(profiler)
    assert len(profile) <= 8
    assert profile.measures.ends == 50
    assert profile.exclusive_ns.sum() == 50 * 150
    assert profile.notes["nodes_beyond_cap"] > 0


def test_headers_with_sums_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidValue, match="sums"):
        decode(b"", sums=b"x" * 87)
    with pytest.raises(TooLarge, match="sums"):
        decode(b"", sums=bytes(SUM.itemsize * 8193))


def test_sums_and_the_end_go_to_a_file_and_through_a_restart(tmp_path: Path) -> None:
    given = tasks(3, 30)
    last = EventWriter()
    last.add_event(10**6, Kind.WORKER_STOP)
    records = np.concatenate([followed(given).records, last.batch().records])
    events = TaskEvents(records, STRINGS, sums=summed(given), ended=True)
    write_events(tmp_path / "run.events", [events])
    (back,) = read_events(tmp_path / "run.events")
    assert back.sums.tobytes() == events.sums.tobytes()
    assert back.ended
    profiler = Profiler(compiled=False)
    profiler.fold_batch(back)
    again = from_bytes(to_bytes(profiler), Profiler(compiled=False))
    assert profile_of(again).as_dict() == profile_of(profiler).as_dict()
    assert profile_of(again).notes == {"instances_summed": 30}


def test_the_end_of_a_run_empties_the_window_and_the_next_run_goes_on() -> None:
    first, second = followed([(0, 5, 5, 5)]), followed([(0, 5, 5, 5)])
    second.records["time"] += 100
    profiler = Profiler(compiled=False)
    assert profiler.fold_batch(first).waiting == 8
    folded = profiler.fold_batch(TaskEvents(NO_EVENTS.records, ended=True))
    assert (folded.accepted, folded.waiting, len(folded.ended)) == (8, 0, 1)
    folded = profiler.fold_batch(TaskEvents(second.records, ended=True))
    assert (folded.accepted, folded.waiting, len(folded.ended)) == (8, 0, 1)
    assert "events_waiting" not in profile_of(profiler).notes


async def test_a_short_run_is_shown_whole_once_it_has_ended(tmp_path: Path) -> None:
    given = tasks(4, 20)
    async with running(tmp_path) as live:
        peer = await live.peer()
        events, sums = followed(given), summed(given)
        request = {"producer": "p", "sequence": 1, "records": events.records.tobytes(), "strings": list(STRINGS)}
        for _ in range(2):  # a replay changes nothing
            answer = await peer.call("task_events", request | {"sums": sums.tobytes(), "ended": True})
        assert answer["replayed"]
        reported = await peer.call("profile", {"producer": "p"})
        profile = Profile.from_dict(reported["profile"])
        assert profile.notes == {"instances_summed": 20}
        assert profile.measures.ends == 40
        status = await peer.call("status")
        assert status["totals"]["tasks_ended"] == 40
