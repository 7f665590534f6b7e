"""The groupings found by packing, which large networks get, against the optimum where cases are small enough."""

from __future__ import annotations

import numpy as np
import pytest
from amdahl import amdahl_curves

from advisor.domain.networks import series
from advisor.planning import Request, asked_of
from advisor.planning.demand import Demand, demand_of
from advisor.planning.options import Places, places_of
from advisor.planning.packing import EXCHANGED_MAX, Packings
from advisor.planning.partitions import best_partition_of


def tables(serial: np.ndarray, parallel: np.ndarray, cores: int, **limits: object) -> tuple[Demand, Places]:
    network = series(*(f"c{row}" for row in range(len(serial))))
    request = Request(cores=cores, **limits)  # type: ignore[arg-type]
    demand = demand_of(asked_of(network, request), amdahl_curves(serial, parallel))
    return demand, places_of(demand, cores)


def found_on(places: Places, cores: int) -> float:
    """The period of what is packed on some cores, by its groups."""
    found = Packings(places.turn_s, places.sizes).shortest(cores)
    assert found is not None
    period, group, sizes = found
    assert 1 <= sizes.sum() <= cores
    turns = places.at(sizes[group])[0]
    assert np.isfinite(turns).all()
    cycle = np.bincount(group, weights=turns, minlength=len(sizes))
    assert (cycle[sizes == 0] == 0).all()
    assert period == pytest.approx(cycle.max(), rel=1e-12)
    return period


def shortest(places: Places, cores: int) -> float:
    found = best_partition_of(places.turn_s, places.stay_s, cores)
    assert found is not None
    return found[0]


def draw(rng: np.random.Generator, instances: int) -> tuple[Demand, Places, int]:
    n = int(rng.integers(4, 9))
    cores = int(rng.integers(2, n))
    low = np.where(rng.random(n) < 0.1, 2, 1)
    high = low + rng.integers(0, 4, n) if rng.random() < 0.5 else np.full(n, 2**20)
    keys = [f"c{row}" for row in range(n)]
    limits = {
        name: dict(zip(keys, map(int, some), strict=True))
        for name, some in (("minimum", low), ("maximum", high), ("instances_max", rng.integers(1, instances + 1, n)))
    }
    return *tables(rng.lognormal(-1, 1, n), rng.lognormal(0, 1, n), cores, **limits), cores


@pytest.mark.parametrize("instances", [1, 3])
def test_packing_is_never_better_than_the_optimum_and_seldom_worse(instances: int) -> None:
    rng = np.random.default_rng(instances)
    ratios = []
    for _ in range(60):
        demand, places, cores = draw(rng, instances)
        best = shortest(places, cores)
        bound = demand.least_period(cores, float(places.turn_s[:, -1].sum()))
        assert bound <= best * (1 + 1e-9)
        ratios.append(found_on(places, cores) / best)
    assert min(ratios) >= 1 - 1e-9
    assert np.quantile(ratios, 0.9) <= 1 + 1e-9
    assert max(ratios) <= 1.05


@pytest.mark.parametrize(("n", "cores"), [(30, 9), (200, 190), (200, 20), (1500, 700)])
@pytest.mark.parametrize("maximum", [2**20, 8])
def test_packing_comes_near_its_bound_for_many_components(n: int, cores: int, maximum: int) -> None:
    rng = np.random.default_rng(n)
    limits = {"maximum": dict.fromkeys((f"c{row}" for row in range(n)), maximum)}
    demand, places = tables(rng.lognormal(-3, 1, n), rng.lognormal(0, 1, n), cores, **limits)
    bound = demand.least_period(cores, float(places.turn_s[:, -1].sum()))
    assert found_on(places, cores) <= bound * 1.03


@pytest.mark.parametrize("n", [11, 30, EXCHANGED_MAX + 1])
def test_what_is_packed_on_some_cores_is_the_same_on_every_machine(n: int) -> None:
    rng = np.random.default_rng(n)
    serial, parallel = rng.lognormal(-2, 1, n), rng.lognormal(0, 1, n)
    for cores in (n // 2, n, n + 7):
        small, large = (tables(serial, parallel, machine)[1] for machine in (cores, 4 * n))
        assert found_on(small, cores) == found_on(large, cores)
