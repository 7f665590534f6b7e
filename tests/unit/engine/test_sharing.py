"""Several networks on one machine: laws, brute force, what was learned of their flow, hostile values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves
from built_networks import series

from advisor import Advisor
from advisor.domain.curves import TabulatedCurves
from advisor.planning import Request, Share, plan, plan_together

WORK = {"a": (1.0, 0.1), "b": (2.0, 0.1), "c": (3.0, 0.05), "slow": (1.0, 0.9)}


@pytest.fixture(scope="module")
def advisor() -> Advisor:
    made = Advisor()
    for name, (work, serial) in WORK.items():
        for x in (1, 2, 3, 4):
            for p in (1, 2, 4, 8, 16):
                made.observe(name, predictor=x, cores=p, elapsed_s=work * x * (serial + (1 - serial) / p))
    return made


def rates_of(found: Any) -> tuple[float, ...]:
    return tuple(part.guaranteed_per_s for part in found.networks)


def allocations_of(found: Any) -> list[Any]:
    return [part.allocation for part in found.networks]


def drawn(seed: int) -> tuple[list[Share], int]:
    """Two or three pipelines of one or two boxes, their curves, weights and limits, and a few cores."""
    draw = np.random.default_rng(seed)
    shares: list[Share] = []
    for _ in range(int(draw.integers(2, 4))):
        n = int(draw.integers(1, 3))
        network = series(*"xy"[:n])
        serial, parallel = draw.uniform(0.05, 1.0, n), draw.uniform(0.5, 4.0, n)
        curves: TabulatedCurves = amdahl_curves(serial, parallel)
        if draw.random() < 0.5:
            counts = np.arange(1, 13)
            curves = TabulatedCurves.from_arrays(counts, serial[:, None] + parallel[:, None] / counts)
        maximum = {"x": int(draw.integers(1, 6))} if draw.random() < 0.5 else None
        instances = int(draw.integers(1, 3))
        request = Request(cores=1, maximum=maximum, instances_max=instances)
        shares.append(Share(network, curves, request, weight=float(draw.choice([1.0, 2.0, 0.5]))))
    return shares, int(draw.integers(sum(len(s.network.keys) for s in shares), 13))


def best_of_all_splits(shares: list[Share], cores: int) -> list[float]:
    """Throughputs by weight, the least first, of the split of the cores whose list is the largest; by trying all."""
    reach = [
        [
            0.0 if count < len(share.network.keys)
            else plan(share.network, share.curves, Request(
                cores=count, turns="never", maximum=share.request.maximum,
                instances_max=share.request.instances_max)).throughput_per_s
            / share.weight
            for count in range(cores + 1)
        ]
        for share in shares
    ]  # fmt: skip
    splits: list[tuple[int, ...]] = [()]
    for _ in shares:
        splits = [(*split, n) for split in splits for n in range(cores + 1 - sum(split))]
    return max(sorted(own[n] for own, n in zip(reach, split, strict=True)) for split in splits)


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 400))])
def test_the_least_by_weight_is_the_largest_of_all_splits(seed: int) -> None:
    """X is that of brute force; of two networks the other one's throughput, too."""
    shares, cores = drawn(seed)
    found = plan_together(shares, cores)
    best = best_of_all_splits(shares, cores)
    level = min(rate / share.weight for rate, share in zip(rates_of(found), shares, strict=True))
    assert level == pytest.approx(best[0], rel=1e-9)
    own = sorted(p.throughput_per_s / s.weight for p, s in zip(allocations_of(found), shares, strict=True))
    assert own[0] >= level * (1 - 1e-9)
    if len(shares) == 2:
        assert own == pytest.approx(best, rel=1e-9)
    assert sum(part.cores_used for part in found.networks) + found.spare == cores
    for part, share in zip(found.networks, shares, strict=True):  # what is spare is of no use to anybody
        more = Request(cores=part.cores_used + found.spare, turns="never", maximum=share.request.maximum,
                       instances_max=share.request.instances_max)  # fmt: skip
        alone = plan(share.network, share.curves, more).throughput_per_s
        assert alone <= part.allocation.throughput_per_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(400, 404))
def test_the_order_of_networks_and_the_scale_of_weights_do_not_matter(seed: int) -> None:
    shares, cores = drawn(seed)
    found = plan_together(shares, cores)
    turned = plan_together(shares[::-1], cores)
    assert rates_of(turned)[::-1] == pytest.approx(rates_of(found))
    scaled = [Share(s.network, s.curves, s.request, weight=8 * s.weight) for s in shares]
    assert allocations_of(plan_together(scaled, cores)) == allocations_of(found)


def test_one_network_alone_is_allocate(advisor: Advisor) -> None:
    for objective in ("throughput", "latency"):
        (part,) = advisor.allocate_together([{"network": "a .. b"}], cores=12, objective=objective).networks
        alone = advisor.allocate("a .. b", cores=12, objective=objective)
        assert (part.allocation.cores, part.guaranteed_per_s) == (alone.cores, pytest.approx(alone.throughput_per_s))
        assert part.allocation.latency_s == pytest.approx(alone.latency_s)
        assert part.allocation.objective == objective


def test_what_was_learned_of_the_flow_answers_where_the_query_is_silent() -> None:
    advisor = Advisor()
    advisor.define_network("a | b", id=3)
    for record in range(8):
        advisor.observe("a" if record % 4 else "b", cores=1, elapsed_s=1.0, network="3", entered=True)
    advisor.observe("c", cores=1, elapsed_s=1.0)
    learned = advisor.allocate_together([{"network": 3}, {"network": "c"}], cores=8)
    assert [part.name for part in learned.networks] == ["3", "2"]
    given = advisor.allocate_together(
        [{"network": "a | b", "shares": [[3, 1]], "name": "3"}, {"network": "c"}], cores=8
    )
    assert learned == given
    other = advisor.allocate_together([{"network": 3, "shares": [[0, 1]]}, {"network": "c"}], cores=8)
    assert other.networks[0].allocation.bottleneck == ("b",)


def test_arrivals_are_the_weights_and_queue(advisor: Advisor) -> None:
    networks = [{"network": "a .. b", "arrival_per_s": 0.2}, {"network": "c", "arrival_per_s": 0.1}]
    found = advisor.allocate_together(networks, cores=20, objective="latency", quantile=0.95)
    assert rates_of(found)[0] == pytest.approx(2 * rates_of(found)[1])
    for part in found.networks:
        plan = part.allocation
        assert plan.latency_s < plan.latency_queued_s < plan.latency_quantile_s  # type: ignore[operator]


def test_networks_that_slow_each_other_down_are_guaranteed_less() -> None:
    """What all reach together is what the whole allocation does with contention between networks."""
    counts = np.arange(1, 17)
    seconds = np.array([[0.1], [0.2]]) + np.array([[4.0], [2.0]]) / counts
    found = []
    for kappa in (0.0, 0.05):
        curves = TabulatedCurves.from_arrays(counts, seconds, contention=np.full(2, kappa))
        found.append(plan_together([Share(series("x", "y"), curves, Request(cores=1)) for _ in range(2)], 16))
    free, slowed = found
    assert rates_of(slowed)[0] == pytest.approx(rates_of(slowed)[1])
    assert rates_of(slowed)[0] < 0.9 * rates_of(free)[0]
    # Alone on its cores a network has no neighbours.
    assert allocations_of(slowed)[0].throughput_per_s > rates_of(slowed)[0]
    assert any(reason.code == "contention" for reason in slowed.why)


def test_rules_and_nodes_hold_for_all(advisor: Advisor) -> None:
    networks = [
        {"network": "a .. b", "allowed": {"power_of": 2}}, {"network": "c", "allowed": {"c": {"multiple_of": 3}}},
        {"network": "b", "pinned": {"b": {"cores": 2, "instances": 2}}}, {"network": "a", "allowed": [5, 6]},
    ]  # fmt: skip
    found = advisor.allocate_together(networks, cores=32, nodes=8)
    first, second, third, fourth = (part.allocation for part in found.networks)
    assert all(count & (count - 1) == 0 for count in first.cores.values())
    assert second.cores["c"] % 3 == 0
    assert (third.cores, third.instances) == ({"b": 2}, {"b": 2})
    assert fourth.cores["a"] in (5, 6)
    load = np.zeros(4)
    for part in found.networks:
        for key, places in (part.allocation.placement or {}).items():
            np.add.at(load, list(places), part.allocation.cores[key])
    assert load.sum() == sum(part.cores_used for part in found.networks)
    assert load.max() <= 8
