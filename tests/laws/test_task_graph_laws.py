"""Laws of task graph analysis on random graphs: bounds that hold, loops that agree, contention that costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from graphs import graphs, parents_of
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.simulation import POLICIES, Program, metrics, simulate
from advisor.simulation.bounds import bounds
from advisor.simulation.fixed import Heft
from advisor.simulation.policies import Ranked, bottom_level
from advisor.simulation.systems import Bandwidth, Centre, Lock, Queueing, alone

ANY_GRAPH = [name for name in POLICIES if name != "enumerated"]
GREEDY = ("fifo", "lifo", "lpt", "largest_first", "bottom_level", "semi_static", "work_stealing")
CORES = st.integers(1, 6)


def check_legal(graph, execution):
    """No task before its parents are done, no processor twice at a time, times as demanded."""
    trace = execution.trace
    for task, parents in enumerate(parents_of(graph)):
        for parent in parents:
            assert trace.finishes[parent] <= trace.starts[task]
    assert ((trace.processors >= 0) & (trace.processors < execution.cores)).all()
    for processor in range(execution.cores):
        mine = np.flatnonzero(trace.processors == processor)
        order = mine[np.lexsort((trace.finishes[mine], trace.starts[mine]))]
        assert (trace.finishes[order][:-1] <= trace.starts[order][1:]).all()


def check_bounds(graph, cores, policy):
    execution = simulate(graph, cores, policy, trace=True)
    check_legal(graph, execution)
    trace = execution.trace
    assert (trace.finishes - trace.starts == graph.ticks).all()
    program = execution.program
    assert max(-(-program.work // cores), program.span) <= execution.ticks
    # Graham's bound is for schedules that let no processor idle while a task is ready.
    if policy in GREEDY:
        assert execution.ticks * cores <= program.work + (cores - 1) * program.span
        assert bounds(program, cores)["graham"] * program.graph.ticks_per_unit >= execution.ticks - 1e-6
    assert execution.ticks <= program.work
    assert simulate(graph, cores, policy).ticks == execution.ticks


@given(graph=graphs(), cores=CORES, policy=st.sampled_from(ANY_GRAPH))
@settings(max_examples=400, deadline=None)
def test_every_policy_gives_a_legal_schedule_within_the_bounds(graph, cores, policy):
    check_bounds(graph, cores, policy)


@given(graph=graphs(), cores=CORES, policy=st.sampled_from(ANY_GRAPH))
@settings(max_examples=200, deadline=None)
def test_busy_and_idle_time_make_the_makespan(graph, cores, policy):
    execution = simulate(graph, cores, policy, trace=True)
    idle = metrics.idle(execution)
    total = metrics.busy(execution) + idle.no_ready_task + idle.dependency + idle.imbalance
    assert (total == execution.ticks).all()
    assert min(part.min() for part in idle) >= 0
    if policy in GREEDY:
        assert idle.dependency.sum() == 0


@given(graph=graphs(), cores=CORES, policy=st.sampled_from(ANY_GRAPH))
@settings(max_examples=200, deadline=None)
def test_the_critical_path_is_a_chain_from_the_start_to_the_end(graph, cores, policy):
    execution = simulate(graph, cores, policy, trace=True)
    steps = metrics.critical_path(execution)
    assert steps[0].start == 0
    assert steps[-1].finish == execution.ticks
    assert steps[0].why == "start"
    parents = parents_of(graph)
    for before, step in pairwise(steps):
        assert before.finish == step.start
        if step.why == "dependency":
            assert before.task in parents[step.task]
        elif step.why == "processor":
            assert execution.trace.processors[before.task] == execution.trace.processors[step.task]
    assert sum(step.finish - step.start for step in steps) == execution.ticks


@given(graph=graphs(), cores=CORES)
@settings(max_examples=200, deadline=None)
def test_the_loops_without_timeline_agree_with_the_general_one(graph, cores):
    program = Program(graph)
    listed = (POLICIES["static_cyclic"], POLICIES["heft"])
    for policy in (POLICIES["fifo"], POLICIES["lifo"], Ranked("level", bottom_level), *listed):
        assert simulate(program, cores, policy).ticks == simulate(program, cores, policy, trace=True).ticks


class EachItsOwn:
    """Shared bandwidth whose tasks are looked at one by one, though they are alike."""

    name = "each"

    def __init__(self, demand):
        self.demand = demand

    def bind(self, graph):
        return self

    def overheads(self, running, remaining):
        return [left * max(0.0, len(running) * self.demand - 1.0) for left in remaining]


@given(graph=graphs(), cores=CORES, policy=st.sampled_from(["fifo", "bottom_level", "static_cyclic", "semi_static"]))
@settings(max_examples=200, deadline=None)
def test_contention_that_costs_nothing_changes_no_tick(graph, cores, policy):
    plain = simulate(graph, cores, policy, trace=True).trace
    for options in ({"contention": EachItsOwn(0.0)}, {"contention": Bandwidth(0.0)}, {"lock": Lock(0.0)}):
        found = simulate(graph, cores, policy, trace=True, **options).trace
        assert all((a == b).all() for a, b in zip(plain, found, strict=True))


@given(graph=graphs(), cores=CORES, demand=st.floats(0.05, 1.0))
@settings(max_examples=150, deadline=None)
def test_one_clock_for_alike_tasks_agrees_with_each_task_at_its_own_pace(graph, cores, demand):
    graph = replace(graph, ticks=graph.ticks * 10**6)
    clock = simulate(graph, cores, "static_cyclic", contention=Bandwidth(demand)).ticks
    paces = simulate(graph, cores, "static_cyclic", contention=EachItsOwn(demand)).ticks
    assert abs(clock - paces) <= 2 * len(graph)


@given(graph=graphs(), cores=CORES)
@settings(max_examples=150, deadline=None)
def test_static_schedules_only_lose_by_contention(graph, cores):
    graph = replace(graph, ticks=graph.ticks * 1000)
    plain = simulate(graph, cores, "static_cyclic").ticks
    for system in (Bandwidth(0.5), Queueing([Centre(100e-9)], 1e6), Queueing([Centre(100e-9, "delay")], 1e6)):
        assert simulate(graph, cores, "static_cyclic", contention=system).ticks >= plain - len(graph)


@given(graph=graphs(), cores=CORES, demand=st.floats(0.0, 1.0), hold=st.floats(0, 1e-9))
@settings(max_examples=100, deadline=None)
def test_times_measured_alone_are_reproduced_on_one_core(graph, cores, demand, hold):
    graph = replace(graph, ticks=(graph.ticks + 1) * 10**6)
    system = Queueing([Centre(1e-4), Centre(2e-4, "delay")], 100.0 * demand)
    found = simulate(alone(graph, system, Lock(hold)), 1, "fifo", contention=system, lock=Lock(hold))
    assert abs(found.ticks - graph.ticks.sum()) <= 2 * len(graph)


@given(graph=graphs(), cores=CORES)
@settings(max_examples=150, deadline=None)
def test_heft_plans_what_is_executed(graph, cores):
    execution = simulate(graph, cores, "heft", trace=True)
    check_legal(graph, execution)
    program = Program(graph)
    ranked = np.lexsort((program.position, -program.bottom_levels))
    starts, owner = Heft().schedule(program, cores, ranked)
    assert (execution.trace.starts == starts).all()
    assert (execution.trace.processors == owner).all()


@given(graph=graphs(tasks_max=7), cores=st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_no_policy_beats_the_optimum(graph, cores):
    best = optimum(graph, cores)
    for policy in ANY_GRAPH:
        assert simulate(graph, cores, policy).ticks >= best


def optimum(graph, cores):
    """The shortest schedule by search: some order of the tasks, each as early as it can be (semi-active schedules hold one)."""
    parents = parents_of(graph)
    ticks = graph.ticks.tolist()
    best = int(graph.ticks.sum())

    def extend(finishes, free, most):
        nonlocal best
        if most >= best and len(finishes) < len(ticks):
            return
        if len(finishes) == len(ticks):
            best = min(best, most)
            return
        for task in range(len(ticks)):
            if task in finishes or any(parent not in finishes for parent in parents[task]):
                continue
            ready = max((finishes[parent] for parent in parents[task]), default=0)
            for processor in {at: p for p, at in enumerate(free)}.values():
                end = max(ready, free[processor]) + ticks[task]
                following = [*free]
                following[processor] = end
                extend(finishes | {task: end}, following, max(most, end))

    extend({}, [0] * cores, 0)
    return best
