"""System models by hand, what is learned of them, and uncertain times."""

from __future__ import annotations

import numpy as np
import pytest

from advisor import Advisor
from advisor.domain.task_graphs import task_graph
from advisor.errors import InvalidValue
from advisor.simulation import Program, answer, simulate
from advisor.simulation.systems import Bandwidth, Bus, Centre, Lock, Queueing


def together(times, **columns):
    return task_graph(times, columns=columns)


def test_bandwidth_is_shared_max_min_fairly() -> None:
    # Demands 0.2 and 0.9: the first keeps what it wants, the second gets 0.8 of the machine and takes 0.9/0.8 as long.
    graph = together([1.0, 0.9], d=[0.2, 0.9])
    trace = simulate(graph, 2, contention=Bandwidth("d"), trace=True).trace
    assert trace.finishes[0] / 1e9 == pytest.approx(1.0)
    # 1 s at rate 8/9, then the rest alone at rate 1.
    assert trace.finishes[1] / 1e9 == pytest.approx(1.0 + 0.9 - 8 / 9)
    # Alike: four of demand 1/2 take twice as long, two take no longer.
    assert simulate(together([1.0] * 4), 4, contention=Bandwidth(0.5)).makespan == pytest.approx(2.0)
    assert simulate(together([1.0] * 2), 2, contention=Bandwidth(0.5)).makespan == pytest.approx(1.0)


def test_one_queue_by_hand() -> None:
    # Two alike tasks, rate 2 requests a second of 0.1 s each: R(2) = 0.1 (1 + Q(1)), Q(1) = 0.1 / 0.6.
    residence = 0.1 * (1.0 + 0.1 / 0.6)
    system = Queueing([Centre(0.1)], 2.0)
    assert simulate(together([1.0, 1.0]), 2, contention=system).makespan == pytest.approx(1.0 + 2.0 * residence)
    assert simulate(together([1.0]), 2, contention=system).makespan == pytest.approx(1.2)


def test_a_rate_a_task_is_averaged_and_each_pays_its_own() -> None:
    graph = together([1.0, 1.0], r=[1.0, 3.0])
    residence = 0.1 * (1.0 + 0.1 / (1 / 2.0 + 0.1))  # solved at the mean rate 2
    trace = simulate(graph, 2, contention=Queueing([Centre(0.1)], "r"), trace=True).trace
    first = 1.0 + residence
    assert trace.finishes[0] / 1e9 == pytest.approx(first)
    # What is left of the other's demand runs alone: R(1) = 0.1.
    left = 1.0 - first / (1.0 + 3.0 * residence)
    assert trace.finishes[1] / 1e9 == pytest.approx(first + left * 1.3)


@pytest.mark.parametrize(
    "centres", [[Centre(0.1)], [Centre(0.1), Centre(0.3, "delay")], [Centre(0.1), Centre(0.2), Centre(0.05)]]
)
def test_tasks_alike_cost_the_same_however_they_are_solved(centres) -> None:
    """One class at a common rate, averages of a column that hardly differs, and a class a kind (approximate) agree."""
    rates = [2.0] * 5 + [2.0 + 1e-9]
    graph = together([1.0] * 6, r=rates)
    common = simulate(graph, 6, contention=Queueing(centres, 2.0)).makespan
    assert simulate(graph, 6, contention=Queueing(centres, "r")).makespan == pytest.approx(common, rel=1e-6)
    # At a quarter of the rate the busiest queue's load is below 1/2, where the approximation is within 2 %.
    light = together([1.0] * 6, r=[rate / 4 for rate in rates])
    classes = simulate(light, 6, contention=Queueing(centres, "r", "bard_schweitzer")).makespan
    assert classes == pytest.approx(simulate(light, 6, contention=Queueing(centres, 0.5)).makespan, rel=0.02)


def test_the_bus_grows_with_each_of_its_inputs_and_with_its_processors() -> None:
    def residence(processors, rate=0.05, inv=0.1, rwb=0.2, cache=0.3):
        return Bus(rate, inv, rwb, cache, cycle=1.0).residence(rate, (inv, rwb, cache), processors)

    times = [residence(k) for k in range(1, 21)]
    assert np.all(np.diff(times) > 0)
    # Alone nobody waits: 8 cycles for a plain read, of them 3 on the bus; an invalidation takes one.
    assert residence(1, inv=0.0, rwb=0.0, cache=0.0) == pytest.approx(8.0)
    assert residence(1, inv=1.0) == pytest.approx(1.0)
    assert residence(8, rwb=0.5) > residence(8)
    assert residence(8, rate=0.2) > residence(8)
    assert residence(8, inv=0.9) < residence(8)
    # No faster than its bottleneck: throughput stays below one request per bus time.
    for processors in (4, 16):
        cycle = 1.0 / 0.5 + residence(processors, rate=0.5, inv=0.0, rwb=0.0, cache=0.0)
        assert processors / cycle <= 1.0 / 3.0 + 1e-9


def test_a_lock_is_charged_once_at_dispatch() -> None:
    assert simulate(together([1.0]), 4, lock=Lock(0.25)).makespan == pytest.approx(1.25)
    assert simulate(together([1.0, 1.0]), 1, lock=Lock(0.25)).makespan == pytest.approx(2.5)
    # Two at once: the mean of M/M/1//2 with think time 1.
    wait = 0.25 * (0.25 / 1.25)
    assert simulate(together([1.0, 1.0]), 2, lock=Lock(0.25)).makespan == pytest.approx(1.25 + wait)


@pytest.mark.parametrize(
    "system",
    [
        Queueing([Centre(1.0)], method="guess"),
        Queueing([Centre(1.0, "flow")], "c"),  # type: ignore[arg-type]
    ],
)
def test_systems_that_only_python_can_say_are_refused(system) -> None:
    with pytest.raises(InvalidValue):
        simulate(together([1.0, 2.0], c=[1.0, 2.0]), 2, contention=system)


def test_task_times_come_from_models() -> None:
    adv = Advisor()
    rng = np.random.default_rng(2)
    for size in rng.uniform(10, 100, 120):
        adv.observe("blur", predictor=size, cores=1, elapsed_s=1e-3 * size * np.exp(rng.normal(0, 0.1)))
    graph = task_graph(
        np.zeros(20), types=("blur",), columns={"type": np.zeros(20), "size": np.full(20, 50.0)}, unit="ms"
    )
    (row,) = adv.simulate(graph, cores=4, predict_times=True)["results"]
    assert row["makespan"] == pytest.approx(5 * 50.0, rel=0.05)
    with pytest.raises(InvalidValue, match="types"):
        adv.simulate(task_graph([1.0]), predict_times=True)
    with pytest.raises(InvalidValue, match="unit"):
        adv.simulate(task_graph([1.0], unit="unit", types=("blur",), columns={"type": [0]}), predict_times=True)


def test_speedups_under_contention_are_relative_to_one_core_under_it() -> None:
    graph = together([1.0] * 8)
    found = answer(graph, cores=[1, 8], contention=[{"model": "bandwidth", "demand": 0.5}])
    assert [row["speedup"] for row in found["results"]] == pytest.approx([1.0, 2.0])
    assert Program(graph).work == 8 * 10**9
