"""What the planner says of latency under load, on random networks of all operators: bounds, and the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from execution import simulate
from plan_prediction import Exact, routing
from random_networks import Case, random_case


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
