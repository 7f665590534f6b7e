"""What the planner says of latency under load, on random networks of all operators: bounds, and the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from execution import simulate
from plan_prediction import Exact, routing
from random_networks import Case, random_case

from advisor.domain.curves import TabulatedCurves
from advisor.planning import Request
from advisor.planning.streams import felt
from advisor.planning.structure import structure_of
from advisor.planning.visits import visits_of


def planned(case: Case, load: float) -> tuple[dict[str, int], float, float]:
    """Return cores, the rate of that load, and the latency that the planner states for it."""
    asked: dict[str, Any] = {"cores": case.cores} | routing(case)
    planner = Exact(case)
    answer = planner.allocate(**asked)
    rate = load * answer.throughput_per_s
    pinned = {key: {"cores": answer.cores[key], "instances": 1} for key in case.network.keys}
    told = planner.allocate(**asked, pinned=pinned, arrival_per_s=rate, objective="latency")
    assert told.latency_queued_s is not None
    return dict(answer.cores), rate, told.latency_queued_s


@pytest.mark.parametrize("seed", [201, 206, 214])
def test_mean_latency_is_that_of_the_simulator(seed: int) -> None:
    case = random_case(seed)
    cores, rate, told = planned(case, 0.6)
    found = simulate(
        case.network, case.boxes(cores), case.flow, arrival_per_s=rate, records=20_000, seed=seed
    ).latency_s
    assert told == pytest.approx(found.mean, rel=0.10 + found.relative)


@pytest.mark.parametrize("seed", range(220, 240))
def test_no_queue_feels_less_than_what_bounds_take_for_granted(seed: int) -> None:
    """The least of a Poisson stream, of what enters and of all services."""
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    keys = case.network.keys
    variation = rng.choice([0.05, 0.4, 1.0, 3.0], len(keys))
    request = Request(cores=len(keys), arrival_per_s=1.0, **routing(case))
    visits = visits_of(case.network, request)
    seconds = rng.uniform(0.1, 0.95, (4, len(keys))) / np.maximum(visits.per_record, 1e-9)
    table = TabulatedCurves.of([1], seconds[0][:, None], variation=variation)
    structure = structure_of(case.network, visits)
    ones = np.ones(seconds.shape, np.int64)
    for entering in (0.2, 1.0, 4.0):
        found = felt(structure, seconds, table.variation, ones, 1.0, entering)
        assert (found.streams >= min(1.0, entering, float(variation.min())) - 1e-9).all()
        assert ((found.again >= 0) & (found.again < 1)).all()
        assert ((found.common >= 0) & (found.common <= 1)).all()


def test_without_anybody_before_it_a_record_waits_for_nobody() -> None:
    for seed in range(240, 246):
        case = random_case(seed)
        calm = replace(case, curves={key: replace(curve, variation=0.0) for key, curve in case.curves.items()})
        cores, _, told = planned(calm, 1e-6)
        pinned = {key: {"cores": cores[key], "instances": 1} for key in calm.network.keys}
        alone = Exact(calm).allocate(cores=calm.cores, pinned=pinned, objective="latency", **routing(calm)).latency_s
        assert told == pytest.approx(alone, rel=1e-3)
