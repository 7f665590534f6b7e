"""What plans are compared with: others' rules do what their authors say, and the optimum is one."""

from __future__ import annotations

import itertools
import math

import pytest
from autoscalers import autoscaled, best_possible
from random_networks import Case, Curve, random_case

from advisor.domain.flows import Flow
from advisor.domain.networks import series


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
