"""What each policy does, on graphs small enough to follow by hand; divisions; a user's own policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from advisor.domain.task_graphs import task_graph
from advisor.errors import InvalidValue
from advisor.simulation import POLICIES, Program, divisions, policy_of, simulate
from advisor.simulation.fixed import Heft
from advisor.simulation.policies import CallerPolicy, Static, WorkStealing


def order_of(execution) -> list[int]:
    """Tasks by start, then number."""
    return np.lexsort((np.arange(len(execution.program.graph)), execution.trace.starts)).tolist()


def bag(times, **columns):
    """Independent tasks."""
    return task_graph(times, unit="ns", columns=columns)


def test_shared_lists_give_tasks_in_their_order() -> None:
    graph = bag([2, 5, 3, 9, 1])
    wanted = {
        "fifo": [0, 1, 2, 3, 4],
        "lifo": [4, 3, 2, 1, 0],
        "lpt": [3, 1, 2, 0, 4],
        "largest_first": [3, 0, 1, 2, 4],
        "bottom_level": [3, 1, 2, 0, 4],
    }
    for policy, order in wanted.items():
        assert order_of(simulate(graph, 1, policy, trace=True)) == order


def test_bottom_level_looks_to_the_end_of_the_program() -> None:
    # Task 1 is short but heads the longest path.
    graph = task_graph([5, 1, 4, 8], [(1, 3)], unit="ns")
    assert order_of(simulate(graph, 1, "bottom_level", trace=True)) == [1, 3, 0, 2]
    assert simulate(graph, 2, "bottom_level").ticks == 9
    assert simulate(graph, 2, "fifo").ticks == simulate(graph, 2, "lpt").ticks == 13


def test_ties_are_broken_by_time_then_number_after_all_completions_of_the_instant() -> None:
    # 0 and 1 end together; 2 waits for 1 and 3 for 0: both are ready before anything is dispatched, and 2 goes first.
    graph = task_graph([4, 4, 1, 1], [(1, 2), (0, 3)], unit="ns")
    execution = simulate(graph, 2, trace=True)
    assert execution.trace.processors.tolist() == [0, 1, 0, 1]
    assert execution.trace.starts.tolist() == [0, 0, 4, 4]


def test_divisions_of_loops() -> None:
    graph = bag(np.ones(10), loop=[0] * 6 + [1] * 3 + [-1])
    program = Program(graph)
    assert divisions.blocked(program, 2).tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1, 0]
    assert divisions.cyclic(program, 4).tolist() == [0, 1, 2, 3, 0, 1, 0, 1, 2, 0]
    assert np.bincount(divisions.blocked(program, 5)[:6]).tolist() == [2, 1, 1, 1, 1]
    # Without loops: blocks of each depth, and round robin in program order.
    chain = Program(task_graph([1, 1, 1, 1], [(0, 2), (1, 3)], unit="ns"))
    assert divisions.blocked(chain, 2).tolist() == [0, 1, 0, 1]
    assert divisions.cyclic(chain, 3).tolist() == [0, 1, 2, 0]


def test_a_process_without_work_goes_to_the_queue_with_the_fewest_processes() -> None:
    # Queue 0 has one task, 1 has four, 2 three: process 0 is done first and joins queue 1 or 2, whichever has fewer processes,
    # of equal ones the lower; there it takes the task that waits longest.
    graph = bag([1, 5, 5, 5, 5, 4, 4, 4], queue=[0, 1, 1, 1, 1, 2, 2, 2])
    trace = simulate(graph, 3, "semi_static", trace=True).trace
    assert trace.processors[:3].tolist() == [0, 1, 0]
    assert trace.starts[2] == 1
    # Nobody leaves its queue under own_queue.
    own = simulate(graph, 3, "own_queue", trace=True).trace
    assert own.processors.tolist() == [0, 1, 1, 1, 1, 2, 2, 2]
    assert simulate(graph, 3, "own_queue").ticks == 20


def test_work_stealing_is_seeded_and_works_newest_first_at_home() -> None:
    fan = task_graph([1, *([3] * 12)], [(0, k) for k in range(1, 13)], unit="ns")
    execution = simulate(fan, 1, "work_stealing", trace=True)
    assert order_of(execution) == [0, *range(12, 0, -1)]
    stolen = simulate(fan, 2, "work_stealing", trace=True).trace
    assert stolen.processors[1] == 1  # the oldest went to the thief
    rng = np.random.default_rng(0)
    graph = task_graph(rng.integers(1, 50, 300), [(k // 3, k) for k in range(1, 300)], unit="ns")
    runs = {seed: simulate(graph, 6, WorkStealing(seed), trace=True).trace for seed in (1, 2)}
    again = simulate(graph, 6, WorkStealing(1), trace=True).trace
    assert (runs[1].processors == again.processors).all()
    assert (runs[1].processors != runs[2].processors).any()


def test_heft_uses_gaps() -> None:
    gap = Program(task_graph([2, 6, 1, 3], [(0, 1), (1, 3)], unit="ns"))
    assert Heft().schedule(gap, 1, np.array([0, 1, 3, 2]))[0].tolist() == [0, 2, 11, 8]
    # A chain on one processor leaves the other one to what is ready: the short task goes there, into the first gap.
    graph = task_graph([4, 4, 4, 2], [(0, 1), (1, 2)], unit="ns")
    execution = simulate(graph, 2, "heft", trace=True)
    assert execution.trace.processors.tolist() == [0, 0, 0, 1]
    assert execution.ticks == 12


def test_a_users_policy_is_a_function() -> None:
    asked: list[tuple[tuple[int, ...], int]] = []

    def shortest(ready, processor):
        asked.append((ready, processor))
        return min(ready, key=lambda task: graph.ticks[task])

    graph = bag([3, 1, 2])
    execution = simulate(graph, 1, shortest, trace=True)
    assert order_of(execution) == [1, 2, 0]
    assert execution.policy == "chosen"
    assert asked[0] == ((0, 1, 2), 0)
    # One that lets a processor wait while another works is legal; one that lets all wait is stuck.
    assert simulate(graph, 2, lambda ready, processor: ready[0] if processor == 0 else None).ticks == 6
    with pytest.raises(InvalidValue, match="3 tasks left"):
        simulate(graph, 2, lambda ready, processor: None)
    with pytest.raises(InvalidValue, match="ready tasks"):
        simulate(graph, 2, CallerPolicy(lambda ready, processor: 99))


def test_wrong_policies_and_values_are_refused() -> None:
    graph = bag([1, 2])
    for cores in (0, -1, 2.0, 2**20, "2"):
        with pytest.raises(InvalidValue, match="cores"):
            simulate(graph, cores)
    with pytest.raises(InvalidValue, match="bottom_level"):
        policy_of("best")
    with pytest.raises(InvalidValue, match="processor from 0 to 1"):
        simulate(graph, 2, Static("mine", lambda program, cores: np.array([0, 5])))


def test_an_empty_graph_and_a_single_task() -> None:
    for policy in ("fifo", "lifo", "lpt", "static_blocked", "static_cyclic", "semi_static", "work_stealing", "heft"):
        assert simulate(task_graph([]), 3, policy).ticks == 0
        assert simulate(task_graph([]), 3, policy, trace=True).ticks == 0
        assert simulate(task_graph([2.5]), 3, policy).makespan == 2.5
    assert set(POLICIES) >= {"fifo", "lifo", "lpt", "largest_first", "bottom_level", "enumerated"}


def test_strands_of_a_tied_task_wait_for_their_processor() -> None:
    # A strand, a short and a long task that it lets go, and the strand that waits for the short one.
    free = task_graph([1.0, 2.0, 10.0, 1.0], [(0, 1), (0, 2), (1, 3)])
    tied = replace(free, columns={"tied": np.array([0, -1, -1, 0])})
    assert simulate(free, 2, "lifo").makespan == 11.0  # the other processor goes on with it
    execution = simulate(tied, 2, "lifo", trace=True)  # its own has the long one
    assert execution.makespan == simulate(tied, 2, "lifo").makespan == 12.0
    assert execution.trace is not None
    assert execution.trace.processors.tolist() == [0, 1, 0, 0]
    assert simulate(tied, 2, "fifo").makespan == 11.0
    lists = simulate(tied, 2, "static_cyclic", trace=True)  # task 3 would be dealt to processor 1
    assert lists.trace is not None
    assert lists.trace.processors.tolist() == [0, 1, 0, 0]


def test_a_processor_goes_on_with_what_it_began_last() -> None:
    # Two tied tasks on one processor, suspended one on top of the other; both could go on.
    graph = task_graph([1.0, 1.0, 1.0, 5.0, 5.0], [(0, 2), (1, 2), (2, 3), (2, 4)], columns={"tied": [7, 9, -1, 7, 9]})
    execution = simulate(graph, 1, "fifo", trace=True)
    assert execution.trace is not None
    assert execution.trace.starts.tolist() == [0, 10**9, 2 * 10**9, 8 * 10**9, 3 * 10**9]
