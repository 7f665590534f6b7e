"""The groupings found by balancing, which large networks get, against the optimum where cases are small enough."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.planning.asked.demand import Demand
from advisor.planning.closed_forms.packing import packed
from advisor.planning.closed_forms.sharing import best_grouping
from advisor.planning.closed_forms.turns import period_bound


def draw(rng: np.random.Generator, instances: int) -> tuple[Demand, int]:
    n = int(rng.integers(4, 9))
    cores = int(rng.integers(2, n))
    low = np.where(rng.random(n) < 0.1, 2, 1).astype(np.int64)
    high = low + rng.integers(0, 4, n) if rng.random() < 0.5 else np.full(n, 2**20)
    return Demand(rng.lognormal(-1, 1, n), rng.lognormal(0, 1, n), low, high, rng.integers(1, instances + 1, n)), cores


@pytest.mark.parametrize(("instances", "usually"), [(1, 1.03), (3, 1.08)])
def test_balancing_is_never_better_than_the_optimum_and_seldom_much_worse(instances: int, usually: float) -> None:
    rng = np.random.default_rng(instances)
    ratios = []
    for _ in range(60):
        demand, cores = draw(rng, instances)
        best, found = best_grouping(demand, cores), packed(demand, cores)
        assert period_bound(demand, cores) <= best.period_s * (1 + 1e-12)
        assert int(found.sizes.sum()) <= cores
        assert (found.sizes[found.group] >= demand.low).all()
        assert (found.cores * found.instances <= found.sizes[found.group]).all()
        assert (found.instances <= demand.instances_max).all()
        ratios.append(found.period_s / best.period_s)
    assert min(ratios) >= 1 - 1e-12
    assert np.median(ratios) <= 1.01
    assert np.quantile(ratios, 0.9) <= usually


@pytest.mark.parametrize(("n", "cores"), [(30, 9), (200, 190), (200, 20), (1500, 700)])
@pytest.mark.parametrize("maximum", [2**20, 8])
def test_balancing_comes_near_its_bound_for_many_components(n: int, cores: int, maximum: int) -> None:
    rng = np.random.default_rng(n)
    ones = np.ones(n, np.int64)
    demand = Demand(rng.lognormal(-3, 1, n), rng.lognormal(0, 1, n), ones, ones * maximum, ones)
    found = packed(demand, cores)
    assert found.period_s <= period_bound(demand, cores) * 1.03
    assert int(found.sizes.sum()) <= cores
