"""Real OpenMP programs under the tool: what they did is told exactly, whatever the machine is busy with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from omp_programs import (
    MISSING,
    SOURCES,
    Programs,
    Ran,
    at_even_steps,
    records_of_the_program,
    tasks_by_depth,
)

from advisor.domain.task_events import Flag
from advisor.files.events import read_events
from advisor.files.graphs import read_graph
from advisor.files.profiles import profile_of_events
from advisor.profile import layout as at
from advisor.profile.diagnosis import Finding, diagnose
from advisor.profile.recorded import graph_of_events
from advisor.profile.tree import Profile
from advisor.profile.whole_run import run_of
from advisor.simulation import Program, simulate

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

# N and CUT: tasks all the way down, and with a cut-off that leaves each enough to do. LU's tasks are blocks: never small.
PROGRAMS = {
    "fib": ((11,), (26, 5)),
    "nqueens": ((6,), (9, 2)),
    "sort": ((300,), (200_000, 4)),
    "sparselu": ((5,), (12,)),
    "strassen": ((128,), (256, 1)),
    "fft": ((128,), (16_384, 3)),
}
GRAPHS = {"fib": (18, 6), "sort": (20_000, 4), "sparselu": (8,)}
UNACCOUNTED = 0.02  # of p * time
# The clock stands for nobody: a thread that the machine takes away between two regions is unaccounted for as long. Noise only
# adds, so the least of some runs is the tool's own.
TRIES = 40  # the first is nearly always enough; on a machine with seven others for each core, eight once were not


def exact(ran: Ran) -> Profile:
    """Check that a run's profile has every task, and nothing was refused, dropped or repaired."""
    profile, report = ran.profile(), ran.report()
    m = profile.measures
    assert ran.status == 0, ran.errors
    assert (m.creates, m.begins, m.ends, m.cancels) == (ran.tasks, ran.tasks, ran.tasks, 0)
    assert report["tasks"] == report["followed"] == ran.tasks
    assert (report["unsent"], report["dropped"], report["summed"], report["extra"], report["ended"]) == (
        0,
        0,
        0,
        0,
        True,
    )
    assert set(profile.notes) <= {"clock_drift_ns"}, profile.notes
    assert sum(tasks_by_depth(profile).values()) == ran.tasks
    assert sum(int(profile.count[root]) for root in profile.roots(at.TASK)) == ran.tasks
    created = profile.role == at.CREATION
    assert int(profile.count[created].sum()) == ran.tasks
    return profile


def least(runs: Callable[[], Profile], measured: Callable[[Profile], float], enough: float) -> float:
    """The least of a measure over some runs, or the first that is small enough."""
    found = measured(runs())
    for _ in range(TRIES - 1):
        if found < enough:
            break
        found = min(found, measured(runs()))
    return found


def unaccounted(profile: Profile) -> float:
    return abs(profile.measures.unaccounted_s) / profile.measures.workers_s


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_with_a_cut_off_all_time_is_accounted_for(programs: Programs, name: str, threads: int, tied: bool) -> None:
    profiles: list[Profile] = []

    def run() -> Profile:
        profiles.append(exact(programs.run(name, *PROGRAMS[name][1], threads=threads, tied=tied)))
        return profiles[-1]

    assert least(run, unaccounted, UNACCOUNTED) < UNACCOUNTED
    profile = profiles[-1]
    assert profile.measures.workers_max == threads
    if len(PROGRAMS[name][1]) > 1:
        assert (
            max(tasks_by_depth(profile)) == PROGRAMS[name][1][1] - 1
        )  # the depth that the tool counts is the program's


def test_what_runs_at_once_for_want_of_threads_is_told_from_what_the_program_wants_in_line(programs: Programs) -> None:
    ran = programs.run("at_once", 4, threads=1)
    reported, rid = exact(ran).measures, Flag.UNDEFERRED | Flag.AT_ONCE
    as_deferred = Counter(each & ~rid if each & Flag.AT_ONCE else each for each in ran.flags().elements())
    ran = programs.run("at_once", 4, threads=2)
    assert exact(ran).measures.at_once == 0
    # Dependences are not told to a tool where one thread is alone: the four tasks that have some stay in line.
    assert as_deferred - ran.flags() == {Flag.UNDEFERRED | Flag.DEPENDENT: 4}
    assert ran.flags() - as_deferred == {0: 4}
    assert (reported.at_once, reported.in_order, reported.creates) == (4 * 4, 4, 8 * 4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_thread_tells_the_programs_own_span(programs: Programs, name: str) -> None:
    """The profiler's path against the recorded graph's, found by other means, which holds creations, and gaps."""
    ran = programs.run(name, *PROGRAMS[name][1])
    assert exact(ran).measures.at_once == ran.tasks
    events = list(read_events(ran.folder / "events"))
    even = at_even_steps(events)
    for batches in (events, even):
        m = profile_of_events(batches).measures
        span_s = Program(graph_of_events(batches)).span * 1e-9
        assert m.span_s <= span_s + 1e-6
        beside_s = m.creation_s + m.management_s + m.waiting_s + abs(m.unaccounted_s)
        assert span_s <= m.span_s + beside_s + 1e-6
    # What the program leaves to others is no matter of how long the machine let it wait in which task.
    m = profile_of_events(even).measures
    assert m.span_s < 0.7 * m.work_s
    assert m.parallelism >= m.burdened_parallelism > 1.0


def names(ran: Ran) -> list[str]:
    profile = exact(ran)
    return sorted(profile.names[root] for root in profile.roots(at.TASK))


def test_types_are_named_by_function_and_line_in_every_build(programs: Programs) -> None:
    source = (SOURCES / "nqueens.c").read_text().splitlines()
    (line,) = (number for number, text in enumerate(source, 1) if text.lstrip().startswith("TASK"))
    for options in (["-g", "-O0"], ["-g", "-O2"], ["-gline-tables-only", "-O1", "-no-pie"], ["-gdwarf-4", "-O2"]):
        programs.compile("nqueens", "again", *options)
        assert names(programs.run("again", 6)) == [f"solve (nqueens.c:{line})"]


def test_without_lines_types_are_named_by_the_place_in_their_function(programs: Programs) -> None:
    reported = names(programs.run("nqueens", 6))
    assert [name.split("+")[0] for name in reported] == ["solve"]
    assert [name.split(" ")[1] for name in reported] == ["(nqueens)"]
    first = exact(programs.run("fft", 64))
    assert len(first.roots(at.TASK)) == 2  # two constructs of one function, told apart by their offsets
    assert len({first.names[root].split("+")[0] for root in first.roots(at.TASK)}) == 1


def test_sizes_and_parameters_of_the_header_arrive(programs: Programs) -> None:
    ran = programs.run("sort", 300, 3)
    exact(ran)
    assert ran.kinds()["SIZE"] == ran.tasks
    profile = exact(programs.run("fft", 64, 3))
    reported = {
        int(profile.value[node])
        for node in range(len(profile))
        if profile.role[node] == at.PARAMETER and profile.names[node] == "n"
    }
    assert reported == {32, 16, 8}


def test_the_header_does_nothing_without_the_tool(programs: Programs) -> None:
    assert programs.run("plain").output == "unharmed\n"
    assert programs.run("sort", 300, 3, tool=False).tasks == programs.run("sort", 300, 3).tasks


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["fib", "nqueens", "strassen"])
def test_sums_hold_what_the_events_would(programs: Programs, name: str, threads: int, tied: bool) -> None:
    arguments = PROGRAMS[name][0]
    full = exact(programs.run(name, *arguments, threads=threads, tied=tied))
    ran = programs.run(name, *arguments, threads=threads, tied=tied, mode="sums")
    summed, report, m = ran.profile(), ran.report(), ran.profile().measures
    assert (m.creates, m.begins, m.ends) == (ran.tasks, ran.tasks, ran.tasks)
    assert tasks_by_depth(summed) == tasks_by_depth(full)
    assert 0 < report["followed"] < report["tasks"] == ran.tasks
    assert report["dropped"] == 0
    assert set(summed.notes) <= {"clock_drift_ns", "instances_summed"}, summed.notes
    assert summed.notes["instances_summed"] == ran.tasks - report["followed"]
    assert (m.summed, full.measures.summed) == (ran.tasks - report["followed"], 0)
    assert run_of(summed)["span_s"] is None  # no path through them is known
    assert 0.0 < run_of(full)["span_s"] <= full.measures.elapsed_s
    # Of a sample each task stands for as many as it was chosen from: about all.
    reported = list(summed.types.values())
    assert sum(each["seen"] for each in reported) == report["followed"]
    assert abs(sum(each["count"] for each in reported) - ran.tasks) < 5.0 * (report["sample"] * ran.tasks) ** 0.5
    assert abs(m.unaccounted_s) <= 0.1 * m.workers_s + 1e-3  # a stub's edges, and the sums' own: some tens of ns a task


def test_in_full_mode_a_file_has_every_event_however_small_the_rings(programs: Programs) -> None:
    ran = programs.run("nqueens", 7, mode="full", buffer=1024)
    report = ran.report()
    assert report["sent"] > 1024 * 2
    assert (report["dropped"], report["followed"], report["held_ns"] > 0) == (0, ran.tasks, True)
    exact(ran)
    graph = graph_of_events(read_events(ran.folder / "events"))
    assert simulate(Program(graph), 1).makespan == graph.ticks.sum() > 0


@pytest.mark.parametrize("mode", ["auto", "sums"])
def test_what_does_not_fit_is_counted_exactly(programs: Programs, mode: str) -> None:
    whole = records_of_the_program(programs.run("nqueens", 7).report())
    ran = programs.run("nqueens", 7, mode=mode, buffer=1024)
    report, m = ran.report(), ran.profile().measures
    assert records_of_the_program(report) == whole
    assert report["sent"] <= 1024 * 2
    assert report["followed"] < report["tasks"] == ran.tasks
    assert (report["dropped"] == 0, report["summed"] > 0) == (True, True) or mode == "auto"
    assert (m.creates, m.begins, m.ends) == (
        ran.tasks,
        ran.tasks,
        ran.tasks,
    )  # those that were left out are in the sums


@pytest.mark.parametrize("mode", ["full", "sums"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_diagnosis_of_queens_without_a_cut_off_names_the_depth(programs: Programs, threads: int, mode: str) -> None:
    """Paper 5, section VI: tasks of the deep levels are too small, stop at depth 3 of an n of 14; here n is 9."""

    def too_small() -> list[Finding]:
        ran = programs.run("nqueens", 9, threads=threads, mode=mode)
        return [found for found in diagnose(ran.profile()) if found.code == "tasks_too_small"]

    found = next((found for found in (too_small() for _ in range(TRIES)) if found), [])
    assert len(found) == 1, "no run says that the tasks are too small"
    assert found[0].evidence["parameter"] == "depth"
    assert found[0].evidence["cut_off"] in (3, 4)
    assert f"stop at depth {found[0].evidence['cut_off']}" in found[0].text
    assert found[0].loss_s > 0.0
    assert found[0].gain > 1.0


def test_a_file_that_cannot_be_written_does_not_stop_the_program(programs: Programs, tmp_path: Path) -> None:
    free = programs.run("sort", 300, tool=False)
    for file in (tmp_path / "no" / "such" / "folder", "/dev/full"):
        ran = programs.run("sort", 300, file=file)
        assert (ran.status, ran.tasks) == (0, free.tasks)
        assert "cannot be written" in ran.errors
    full = programs.run("sort", 300, file_kib=64)
    report = full.report()
    assert (full.status, full.tasks, report["sent"], report["ended"]) == (0, free.tasks, 0, False)
    assert report["unsent"] == records_of_the_program(report) > free.tasks
    assert "the file of task events is cut" in full.errors


# -- recorded graphs -----------------------------------------------------------------------------------------------------


def elapsed_ns(ran: Ran) -> int:
    """Time from the first event of the run to its last."""
    batches = list(read_events(ran.folder / "events"))
    times = np.concatenate([batches[0].clock.nanoseconds(batch.records["time"]) for batch in batches])
    return int(times.max() - times.min())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_graph_has_every_task_and_takes_one_processor_as_long(programs: Programs, name: str, threads: int) -> None:
    ran = programs.run(name, *GRAPHS[name], threads=threads)
    assert ran.status == 0, ran.errors
    graph = read_graph((ran.folder / "events").rename(ran.folder / "run.events")).graph
    (ran.folder / "run.events").rename(ran.folder / "events")
    program, measures = Program(graph), ran.profile().measures
    instances = {named.rpartition(", part ")[0] for named in graph.names if ", part " in named}
    assert len([one for one in instances if not one.startswith("thread ")]) == ran.tasks
    if threads == 1:
        assert program.work == simulate(program, 1).ticks
        assert (
            0 <= elapsed_ns(ran) - program.work <= 0.01 * program.work
        )  # but for what the runtime calls idle at its end
    else:
        # Thread 0 is there before the first event of thread 1, so each has its own time; the clock is rounded to ns.
        assert program.work == pytest.approx(1e9 * (measures.workers_s - measures.waiting_s), abs=len(graph))
    # The graph counts the time of creations into paths as well, which the profiler leaves out. On one thread all tasks run at
    # once, and both take them as the program wishes them.
    assert program.span >= 1e9 * measures.span_s - len(graph)
    for policy in ("work_stealing", "fifo"):
        two = simulate(program, 2, policy, trace=True)
        assert max(program.work / 2, program.span) <= two.ticks <= program.work
        assert two.trace is not None
        tied = graph.columns["tied"]
        for group in np.unique(tied[tied >= 0]):
            assert len(np.unique(two.trace.processors[tied == group])) == 1
