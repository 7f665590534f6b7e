"""What plans promise, on random networks of all operators and in time sharing: bounds, and the simulators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from built_networks import series
from execution import simulate
from plan_prediction import Exact, routing
from random_networks import Case, random_case
from turns import Simulated, curves

from advisor.domain.networks import network_from_nodes
from advisor.planning import Request, plan


def planned(case: Case, load: float) -> tuple[dict[str, int], float, float]:
    """Return cores, the rate of that load, and the latency that the planner states for it."""
    asked: dict[str, Any] = {"cores": case.cores} | routing(case)
    planner = Exact(case)
    answer = planner.allocate(**asked)
    rate = load * answer.throughput_per_s
    pinned = {key: {"cores": answer.cores[key], "instances": 1} for key in case.network.keys}
    reported = planner.allocate(**asked, pinned=pinned, arrival_per_s=rate, objective="latency")
    assert reported.latency_queued_s is not None
    return dict(answer.cores), rate, reported.latency_queued_s


@pytest.mark.parametrize("seed", [201, 206, 214])
def test_mean_latency_is_that_of_the_simulator(seed: int) -> None:
    case = random_case(seed)
    cores, rate, reported = planned(case, 0.6)
    found = simulate(
        case.network, case.boxes(cores), case.flow, arrival_per_s=rate, records=20_000, seed=seed
    ).latency_s
    assert reported == pytest.approx(found.mean, rel=0.10 + found.relative)


def test_without_anybody_before_it_a_record_waits_for_nobody() -> None:
    for seed in range(240, 246):
        case = random_case(seed)
        calm = replace(case, curves={key: replace(curve, variation=0.0) for key, curve in case.curves.items()})
        cores, _, reported = planned(calm, 1e-6)
        pinned = {key: {"cores": cores[key], "instances": 1} for key in calm.network.keys}
        alone = Exact(calm).allocate(cores=calm.cores, pinned=pinned, objective="latency", **routing(calm)).latency_s
        assert reported == pytest.approx(alone, rel=5e-3)


# -- time sharing -----------------------------------------------------------------------------------------------------------


def test_a_pipeline_in_one_group_waits_as_the_equations_say() -> None:
    """They are exact here: the simulator is within three half widths."""
    network, table = series("a", "b", "c"), curves(np.random.default_rng(7), 3, 0.3)
    rate = 0.6 * plan(network, table, Request(cores=1)).throughput_per_s
    found = plan(network, table, Request(cores=1, arrival_per_s=rate))
    assert found.latency_queued_s is not None
    mean, width = Simulated(network, table, found, {}, 0.3, 1).arrivals(rate, 12_000)
    assert width < 0.12 * mean
    assert abs(found.latency_queued_s - mean) <= 1.5 * width


def test_branches_on_one_core_are_through_when_both_are() -> None:
    boxes = [{"kind": "box", "name": name} for name in "abc"]
    network = network_from_nodes([*boxes, {"kind": "join", "children": [0, 1]}, {"kind": "series", "children": [3, 2]}])
    table = curves(np.random.default_rng(2), 3, 0.2)
    rate = 0.3 * plan(network, table, Request(cores=2)).throughput_per_s
    found = plan(network, table, Request(cores=2, objective="latency", arrival_per_s=rate))
    assert found.latency_queued_s is not None
    mean, _ = Simulated(network, table, found, {}, 0.2, 1).arrivals(rate, 4_000)
    assert found.latency_queued_s == pytest.approx(mean, rel=0.15)


def test_the_throughput_in_turns_is_reached() -> None:
    network, table = series("a", "b", "c", "d"), curves(np.random.default_rng(4), 4, 0.5)
    found = plan(network, table, Request(cores=4, turns="better"))
    assert found.groups
    reached = Simulated(network, table, found, {}, 0.5, 1).throughput(4_000)
    assert found.throughput_per_s == pytest.approx(reached, rel=0.05)
