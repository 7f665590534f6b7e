"""What plans are compared with: others' rules do what their authors say, and the optimum is one."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from autoscalers import autoscaled, best_possible, equal_shares, shares_of_work
from execution import simulate
from random_networks import PREDICTOR, Case, Curve, random_case, teach

from advisor.domain.flows import Flow
from advisor.domain.networks import series
from advisor.engine import Advisor


def linear_case(work: dict[str, float], cores: int) -> Case:
    curves = {key: Curve("saturating", seconds, 0.0, math.inf, 0.0, 0.0) for key, seconds in work.items()}
    return Case(series(*work), Flow(), curves, cores)


def test_a_linear_autoscaler_is_right_in_one_step_where_rates_are_linear() -> None:
    case = linear_case({"a": 1.0, "b": 2.0, "c": 5.0}, 16)
    steps = autoscaled(case, 2.0)
    assert steps.settings[-1] == {"a": 2, "b": 4, "c": 10}
    assert steps.changes == 1
    assert steps.settled
    assert autoscaled(case, None).settings[-1] == best_possible(case) == {"a": 2, "b": 4, "c": 10}


def test_a_linear_autoscaler_takes_several_steps_where_rates_saturate() -> None:
    # T(p) = 0.2 + 0.8 / p: for 2 records/s the fewest cores are 2.67; the linear rule from one core says 2, then more.
    case = Case(series("a"), Flow(), {"a": Curve("saturating", 1.0, 0.2, math.inf, 0.0, 0.0)}, 64)
    steps = autoscaled(case, 2.5)
    assert steps.changes > 1
    assert case.capacity_per_s(case.boxes(steps.settings[-1])) >= 2.5


def test_shares_give_all_cores_out() -> None:
    for seed in range(20):
        case = random_case(seed)
        for given in (equal_shares(case), shares_of_work(case), autoscaled(case, None).settings[-1]):
            assert sum(given.values()) == case.cores
            assert min(given.values()) >= 1


@pytest.mark.parametrize("seed", range(4))
def test_the_best_possible_is_that_of_exhaustion(seed: int) -> None:
    case = random_case(seed)
    keys = case.network.keys[:3]
    small = Case(series(*keys), Flow(), {key: case.curves[key] for key in keys}, 12)
    every = (
        dict(zip(keys, counts, strict=True))
        for counts in itertools.product(range(1, 11), repeat=3)
        if sum(counts) <= small.cores
    )
    best = max(small.capacity_per_s(small.boxes(cores)) for cores in every)
    assert small.capacity_per_s(small.boxes(best_possible(small))) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 5])
def test_visits_of_a_random_network_are_those_of_its_execution(seed: int) -> None:
    case = random_case(seed)
    runs = dict.fromkeys(case.network.keys, 0)

    def count(key: str, *_: float) -> None:
        runs[key] += 1

    boxes = {key: replace(box, mean_s=1e-6) for key, box in case.boxes(equal_shares(case)).items()}
    simulate(case.network, boxes, case.flow, arrival_per_s=1.0, records=4_000, seed=seed, observe=count)
    for key, expected in case.visits().items():
        assert runs[key] / 4_000 == pytest.approx(expected, rel=0.1, abs=0.02), key


def test_a_taught_advisor_knows_the_curves() -> None:
    case, advisor = random_case(11), Advisor()
    teach(advisor, case, 11)
    counts = np.array([1.0, 4.0, 10.0])
    for key, curve in case.curves.items():
        found = advisor.predict(key, predictor=PREDICTOR, cores=counts).elapsed_s
        np.testing.assert_allclose(found, curve.seconds(counts), rtol=0.12)
