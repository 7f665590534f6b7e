"""Laws of graphs of recorded runs: a small runtime in simulated time, its own times, and the profiler's measures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_program import Program as Run
from task_program import recursive

from advisor.domain.task_graphs import TaskGraph
from advisor.profile.measures import Measures
from advisor.profile.profiler import Profiler
from advisor.profile.recorded import graph_of_events
from advisor.profile.view import profile_of
from advisor.simulation import POLICIES, Program, simulate
from advisor.simulation.systems import Bandwidth

runs = st.fixed_dictionaries(
    {
        "threads": st.integers(1, 4),
        "depth": st.integers(0, 4),
        "width": st.integers(1, 3),
        "work": st.integers(1, 900),
        "seed": st.integers(0, 9),
        "untied": st.booleans(),
        "create": st.sampled_from([0, 30]),
    }
)


def recorded(given: dict, threads: int | None = None) -> tuple[TaskGraph, Profiler, int]:
    """Run a program; return its graph, the profiler that saw the same events, and how long it took."""
    run = Run(
        threads or given["threads"], recursive(given["depth"], given["width"], given["work"], gives_way=given["untied"]),
        seed=given["seed"], untied=given["untied"], create_ns=given["create"],
    )  # fmt: skip
    events = run.run()
    profiler = Profiler(window_ns=10**9, compiled=False)
    profiler.fold_batch(events)
    profiler.flush()
    times = events.records["time"]
    return graph_of_events([events]), profiler, int(times.max() - times.min())


def kept_together(graph: TaskGraph, processors: np.ndarray) -> bool:
    tied = graph.columns["tied"]
    return all(len(set(processors[tied == group].tolist())) == 1 for group in np.unique(tied[tied >= 0]))


@given(runs)
@settings(max_examples=40, deadline=None)
def test_what_one_thread_ran_takes_one_processor_as_long(given: dict) -> None:
    graph, _, took = recorded(given, 1)
    for policy in ("fifo", "lifo", "work_stealing", "static_blocked", "bottom_level"):
        assert simulate(graph, 1, policy).ticks == took


@given(runs)
@settings(max_examples=60, deadline=None)
def test_work_and_span_are_those_of_the_profiler_and_bound_the_run(given: dict) -> None:
    if given["threads"] == 1:
        return  # there the time between tasks counts as theirs
    graph, profiler, took = recorded(given)
    program, measures = Program(graph), profile_of(profiler).measures
    assert program.work == round(1e9 * (measures.workers_s - measures.waiting_s))
    if not given["create"]:
        assert program.span == round(1e9 * measures.span_s)
    assert max(program.work / given["threads"], program.span) <= took


@given(runs)
@settings(max_examples=60, deadline=None)
def test_tasks_that_one_thread_runs_at_once_have_the_paths_of_deferred_ones(given: dict) -> None:
    """Cilkview's promise: a serial run tells work, span and burdened span of a run on any number of threads."""
    body = recursive(given["depth"], given["width"], given["work"])
    made: list[tuple[Measures, TaskGraph]] = []
    for threads, at_once in ((1, True), (1, False), (given["threads"], False)):
        run = Run(threads, body, seed=given["seed"], create_ns=given["create"], at_once=at_once)
        events = run.run()
        profiler = Profiler(window_ns=10**9, compiled=False)
        assert not profiler.fold_batch(events).refused
        profiler.flush()
        made.append((profile_of(profiler).measures, graph_of_events([events])))
    (serial, graph), (deferred, _), (several, _) = made
    assert serial.at_once == serial.creates == several.creates
    assert several.at_once == 0
    assert (serial.span_s, serial.work_s) == (several.span_s, several.work_s)
    assert (
        serial.burdened_span_s == deferred.burdened_span_s
    )  # with more threads, entering the region is a burden as well
    assert serial.delay_s == 0.0  # nobody could have taken what ran at once
    if not given["create"]:
        assert Program(graph).span == round(1e9 * serial.span_s)


@given(runs, st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_strands_of_a_tied_task_stay_on_one_processor_under_every_policy(given: dict, cores: int) -> None:
    graph, _, _ = recorded(given)
    program = Program(graph)
    for name in POLICIES:
        execution = simulate(program, cores, name, trace=True)
        assert execution.trace is not None
        assert kept_together(graph, execution.trace.processors) or name == "enumerated" or given["untied"]
        assert max(program.work / cores, program.span) <= execution.ticks <= program.work
        assert simulate(program, cores, name).ticks == execution.ticks
    shared = simulate(program, cores, "work_stealing", contention=Bandwidth(1.0), trace=True)
    assert shared.trace is not None
    assert kept_together(graph, shared.trace.processors)
    assert shared.ticks == pytest.approx(program.work, abs=2 * len(graph))  # all of them share one memory
