"""The chance that one allocation does better than another, against drawing the curves' errors many times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from built_networks import series

from advisor.domain.curves import TabulatedCurves
from advisor.network import parse
from advisor.planning import Request, plan, request_about
from advisor.planning.demand import demand_of
from advisor.planning.estimates import chance_of, estimated, reaches
from advisor.planning.exact import Plan, judged_plan
from advisor.planning.judge import Placed
from advisor.planning.present import in_use_of
from advisor.planning.requests import LATENCY, PERIOD

DRAWS = 100_000


def estimates(rng: np.random.Generator) -> tuple[Plan, Plan, np.ndarray, np.ndarray]:
    """Two allocations of a few components, and draws of their components' seconds."""
    n = int(rng.integers(2, 7))
    same = rng.random(n) < 0.4
    now = rng.uniform(1.0, 2.0, n)
    then = np.where(same, now, now * rng.uniform(0.7, 1.2, n))
    common, shape = rng.uniform(0.02, 0.2, n), rng.uniform(0.02, 0.1, n)
    other = np.where(same, 2.0, 3.0)
    asked, ones = request_about(series(*(f"c{row}" for row in range(n))), Request(cores=99)), np.ones((1, n), np.int64)
    demand = demand_of(asked, TabulatedCurves.from_arrays([1], now[:, None]))
    used, shares = np.array([3 * n]), ones.astype(float)
    found = [
        replace(judged_plan(demand, Placed(p[None], ones, t[None], shares, used)), errors=(common, shape))  # type: ignore[arg-type]
        for t, p in ((now, np.full(n, 2.0)), (then, other))
    ]
    level = rng.standard_normal((DRAWS, n)) * common
    one = rng.standard_normal((DRAWS, n)) * shape
    two = np.where(same, one, rng.standard_normal((DRAWS, n)) * shape)
    return *found, now * np.exp(level + one), then * np.exp(level + two)


@pytest.mark.parametrize("seed", range(8))
def test_the_chance_of_a_shorter_period(seed: int) -> None:
    now, then, drawn_now, drawn_then = estimates(np.random.default_rng(seed))
    drawn = (drawn_then.max(axis=1) < drawn_now.max(axis=1)).mean()
    assert chance_of(now, then, PERIOD) == pytest.approx(drawn, abs=0.03)


@pytest.mark.parametrize("seed", range(8))
def test_the_chance_of_a_lower_latency(seed: int) -> None:
    now, then, drawn_now, drawn_then = estimates(np.random.default_rng(seed))
    drawn = (drawn_then.sum(axis=1) < drawn_now.sum(axis=1)).mean()
    assert chance_of(now, then, LATENCY) == pytest.approx(drawn, abs=0.015)


@pytest.mark.parametrize("seed", range(4))
def test_the_chance_of_reaching_a_target(seed: int) -> None:
    now, _, drawn, _ = estimates(np.random.default_rng(seed))
    bound = float(np.median(drawn.max(axis=1)))
    assert reaches(now, "throughput_per_s", 1 / bound) == pytest.approx(0.5, abs=0.01)
    bound = float(np.quantile(drawn.sum(axis=1), 0.9))
    assert reaches(now, "latency_s", bound) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("cores", [24, 3])
def test_the_best_gives_what_its_plan_says(cores: int) -> None:
    """Own cores, and shared ones."""
    network = parse("a .. (b | c) .. d .. a")
    counts = np.array([1, 2, 4, 8, 16, 32])
    seconds = np.array([4.0, 6.0, 3.0, 2.0])[:, None] * (0.1 + 0.9 / counts)
    curves = TabulatedCurves.from_arrays(counts, seconds[[0, 1, 2, 3, 0]])
    request = Request(cores=cores, shares=[[0.3, 0.7]])
    best, asked = plan(network, curves, request), request_about(network, request)
    found = estimated(asked, curves, in_use_of("current", best, asked.keys))
    assert found.period_s == pytest.approx(1.0 / best.throughput_per_s, rel=1e-9)
    assert found.latency_s == pytest.approx(best.latency_s, rel=1e-9)
    assert found.cores_used == cores - best.spare
