"""The groupings found by packing, which large networks get, against the optimum where cases are small enough."""

from __future__ import annotations

import numpy as np
import pytest

from advisor.domain.curves import AmdahlCurves
from advisor.domain.networks import series
from advisor.planning import Request
from advisor.planning.demand import Demand, Places, demand_of, places_of, terms_of
from advisor.planning.groupings import Grouping, cycles, packed
from advisor.planning.partitions import Partitions
from advisor.planning.visits import visits_of


def tables(serial: np.ndarray, parallel: np.ndarray, cores: int, **limits: object) -> tuple[Demand, Places]:
    network = series(*(f"c{row}" for row in range(len(serial))))
    request = Request(cores=cores, **limits)  # type: ignore[arg-type]
    demand = demand_of(terms_of(network, request, visits_of(network, request)), AmdahlCurves(serial, parallel))
    return demand, places_of(demand, cores)


def bounded(demand: Demand, places: Places, cores: int) -> tuple[float, Grouping]:
    """The bound of the period, and what was packed."""
    bound = demand.least_period(cores, float(places.turn_s[:, -1].sum()))
    found = packed(places, cores, bound, np.inf)
    assert found is not None
    return bound, found


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


@pytest.mark.parametrize(("instances", "usually"), [(1, 1.03), (3, 1.08)])
def test_packing_is_never_better_than_the_optimum_and_seldom_much_worse(instances: int, usually: float) -> None:
    rng = np.random.default_rng(instances)
    ratios = []
    for _ in range(60):
        demand, places, cores = draw(rng, instances)
        best = Partitions(places.turn_s, places.stay_s, cores).best_period(np.inf)
        bound, found = bounded(demand, places, cores)
        assert bound <= best * (1 + 1e-9)
        assert found.used <= cores
        assert np.isfinite(places.at(found.widths)[0]).all()
        ratios.append(float(cycles(places, found).max()) / best)
    assert min(ratios) >= 1 - 1e-12
    assert np.median(ratios) <= 1.01
    assert np.quantile(ratios, 0.9) <= usually


@pytest.mark.parametrize(("n", "cores"), [(30, 9), (200, 190), (200, 20), (1500, 700)])
@pytest.mark.parametrize("maximum", [2**20, 8])
def test_packing_comes_near_its_bound_for_many_components(n: int, cores: int, maximum: int) -> None:
    rng = np.random.default_rng(n)
    limits = {"maximum": dict.fromkeys((f"c{row}" for row in range(n)), maximum)}
    demand, places = tables(rng.lognormal(-3, 1, n), rng.lognormal(0, 1, n), cores, **limits)
    bound, found = bounded(demand, places, cores)
    assert float(cycles(places, found).max()) <= bound * 1.03
    assert found.used <= cores
