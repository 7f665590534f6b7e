"""Plans in turns: every option is planned, large cases keep their bounds, and what cannot be is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves
from built_networks import series

from advisor import Advisor
from advisor.domain.curves import TabulatedCurves
from advisor.errors import AdvisorError, ImpossibleTarget, InvalidValue, Unsupported
from advisor.planning import Request, plan

COUNTS = np.array([1, 2, 4, 8])
NET = series("a", "b", "c", "d")
TIMES = np.array([[4, 2.2, 1.3, 0.9], [2, 1.1, 0.7, 0.6], [1, 0.6, 0.5, 0.6], [3, 1.6, 0.9, 0.6]])
TABLE = TabulatedCurves.from_arrays(COUNTS, TIMES, upper_s=1.1 * TIMES, variation=0.5, contention=0.05, peak_bytes=1e9)
AMDAHL = amdahl_curves(np.full(4, 0.1), np.array([4.0, 2.0, 1.0, 3.0]))

OPTIONS: list[dict[str, Any]] = [
    {}, {"objective": "latency"},
    {"objective": "fewest_cores", "target": {"throughput_per_s": 0.15}},
    {"objective": "fewest_cores", "target": {"latency_s": 6.0}}, {"minimum": {"a": 2}}, {"maximum": {"a": 1}},
    {"instances_max": 3}, {"allowed": {"power_of": 2}}, {"pinned": {"a": 2}},
    {"pinned": {"a": {"cores": 1, "instances": 2}}}, {"nodes": 2}, {"memory_bytes": 5e9},
    {"nodes": 2, "memory_bytes": 2.5e9}, {"arrival_per_s": 0.1}, {"arrival_per_s": 0.1, "objective": "latency"},
    {"arrival_per_s": 0.1, "objective": "latency", "quantile": 0.95}, {"arrival_per_s": 0.1, "arrival_variation": 4.0},
    {"objective": "latency", "quantile": 0.95}, {"scale": {"a": 0.5}}, {"level": 0.9}, {"work_max": 5},
    {"arrival_per_s": 0.1, "objective": "fewest_cores", "target": {"latency_s": 20.0}},
]  # fmt: skip


@pytest.mark.parametrize("asked", OPTIONS)
@pytest.mark.parametrize("curves", [TABLE, AMDAHL])
def test_every_option_is_planned_on_fewer_cores_than_components(curves: Any, asked: dict[str, Any]) -> None:
    answer = plan(NET, curves, Request(cores=3, **asked))
    assert sorted(key for _, keys in answer.groups for key in keys) == sorted(NET.keys)
    assert answer.cores_used + answer.spare == 3
    for size, keys in answer.groups:
        assert all(answer.cores[key] * answer.instances[key] <= size for key in keys)
    assert 0 < max((answer.utilization or {}).values()) <= 1
    assert answer.as_dict()["groups"]
    if "arrival_per_s" in asked:
        assert answer.latency_queued_s is not None
        assert answer.latency_queued_s > answer.latency_s
    if "quantile" in asked and curves is TABLE:
        assert answer.latency_quantile_s is not None
        assert answer.latency_quantile_s > (answer.latency_queued_s or answer.latency_s)
    if "nodes" in asked:
        assert answer.placement is not None
        assert all(max(keys) <= 1 for keys in answer.placement.values())


@pytest.mark.parametrize(
    ("asked", "error", "field"),
    [
        ({"memory_bytes": 3e9}, ImpossibleTarget, "a"),
        ({"nodes": 1, "pinned": {"a": 2}}, InvalidValue, "minimum.a"),
        ({"pinned": {"a": 4}}, InvalidValue, "minimum.a"),
        ({"minimum": {"b": 4}}, InvalidValue, "minimum.b"),
        ({"arrival_per_s": 9.0, "objective": "latency"}, ImpossibleTarget, None),
        ({"objective": "fewest_cores", "target": {"latency_s": 0.1}, "arrival_per_s": 0.1}, ImpossibleTarget, None),
        ({"objective": "fewest_cores", "target": {"throughput_per_s": 0.4}}, ImpossibleTarget, None),
        ({"pinned": {"a": {"instances": 2}}, "arrival_per_s": 0.1}, Unsupported, "pinned.a"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], error: type[AdvisorError], field: str | None) -> None:
    with pytest.raises(error) as raised:
        plan(NET, TABLE, Request(cores=3, **asked))
    assert field is None or raised.value.field == field
    if error is ImpossibleTarget:
        assert raised.value.bound is not None


def test_instances_are_capped_where_they_would_not_fit_into_memory() -> None:
    curves = TabulatedCurves.from_arrays(COUNTS, TIMES, peak_bytes=1e9)
    free = plan(NET, curves, Request(cores=3, instances_max=3))
    capped = plan(NET, curves, Request(cores=3, instances_max=3, memory_bytes=5e9))
    assert sum(free.instances.values()) > 5
    assert sum(capped.instances.values()) <= 5
    assert capped.gap is None


def large(n: int, seed: int, **more: Any) -> TabulatedCurves:
    rng = np.random.default_rng(seed)
    seconds = rng.lognormal(0, 1, (n, 1)) * (rng.random((n, 1)) * 0.3 + 0.7 / COUNTS)
    return TabulatedCurves.from_arrays(COUNTS, seconds, **more)


def test_large_cases_keep_nodes_and_bounds() -> None:
    network = series(*(f"c{row}" for row in range(14)))
    curves = large(14, 1, peak_bytes=1e9, variation=0.3)
    plain = plan(network, curves, Request(cores=9))
    placed = plan(network, curves, Request(cores=9, nodes=3, memory_bytes=6e9))
    assert placed.placement is not None
    assert placed.throughput_per_s <= plain.throughput_per_s * (1 + 1e-9)
    needs, cores = np.zeros(3), np.zeros(3)
    for size, keys in placed.groups:
        node = placed.placement[keys[0]][0]
        assert all(placed.placement[key] == (node,) for key in keys)
        needs[node] += len(keys) * 1e9
        cores[node] += size
    assert needs.max() <= 6e9
    assert cores.max() <= 3


def test_contention_of_many_components_lowers_the_throughput() -> None:
    network = series(*(f"c{row}" for row in range(9)))
    contended = plan(network, large(9, 3, contention=0.05), Request(cores=8))
    free = plan(network, large(9, 3), Request(cores=8))
    assert contended.throughput_per_s < free.throughput_per_s


def test_the_fewest_in_turns_tell_what_cores_of_ones_own_would_take() -> None:
    counts = np.arange(1, 9)
    network, curves = series("a", "b"), TabulatedCurves.from_arrays(counts, np.array([[4.0], [1.0]]) / counts)
    asked = {"cores": 8, "objective": "fewest_cores", "target": {"throughput_per_s": 0.4}}
    own, shared = (plan(network, curves, Request(**asked, turns=turns)) for turns in ("never", "better"))
    assert (own.cores_used, shared.cores_used) == (3, 2)
    (reported,) = (reason for reason in shared.why if reason.code == "turns")
    assert reported.value == own.cores_used
    assert "3 cores" in reported.text


@pytest.mark.parametrize(("n", "cores"), [(30, 9), (200, 20), (200, 190)])
@pytest.mark.parametrize("maximum", [2**20, 8])
def test_plans_of_many_components_come_near_the_bound_of_any_plan(n: int, cores: int, maximum: int) -> None:
    """All work on all cores, or the slowest component on as many as it may have: no plan's period is below that."""
    rng, keys = np.random.default_rng(n), [f"c{row}" for row in range(n)]
    serial, parallel = rng.lognormal(-3, 1, n), rng.lognormal(0, 1, n)
    asked = Request(cores=cores, maximum=dict.fromkeys(keys, maximum), turns="better")
    found = plan(series(*keys), amdahl_curves(serial, parallel), asked)
    low, high = float((serial + parallel / min(cores, maximum)).max()), float((serial + parallel).sum())
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        narrowest = np.maximum(np.ceil(parallel / np.maximum(middle - serial, 1e-12) * (1 - 1e-12)), 1)
        low, high = (middle, high) if (serial * narrowest + parallel).sum() > middle * cores else (low, middle)
    assert 0.97 <= found.throughput_per_s * low <= 1 + 1e-9


def test_own_cores_of_which_more_is_expected_and_promised_are_taken() -> None:
    work = {"load": (0.05, 0.0), "parse": (0.12, 0.1), "match": (0.60, 0.05), "rank": (0.20, 0.3), "store": (0.03, 0.9)}
    learned = Advisor()
    for name, (alone_s, serial) in work.items():
        for cores in [1, 2, 4, 8] * 3:
            learned.observe(name, predictor=1, cores=cores, elapsed_s=alone_s * (serial + (1 - serial) / cores))
    for cores in range(5, 41):  # beyond 8 the curves are uncertain, and plans allow for it
        shared, own = (learned.allocate(" .. ".join(work), cores=cores, turns=turns) for turns in ("better", "never"))
        assert shared.expected_per_s is not None
        assert own.expected_per_s is not None
        better = shared.expected_per_s > own.expected_per_s or shared.throughput_per_s > own.throughput_per_s
        assert bool(shared.groups) == better
        assert bool(shared.groups) or shared.cores == own.cores


def test_the_reason_of_turns_compares_two_expectations() -> None:
    advisor = Advisor()
    for name, work_s in (("read", 1.0), ("blur", 5.0), ("write", 0.6)):
        for cores in (1, 2, 4, 8) * 6:
            advisor.observe(name, predictor=1.0, cores=cores, elapsed_s=work_s * (0.05 + 0.95 / cores))
    plan = advisor.allocate("read .. blur .. write", cores=5)
    (reason,) = (each for each in plan.why if each.code == "turns")
    assert plan.expected_per_s is not None
    assert plan.throughput_per_s < plan.expected_per_s
    assert reason.value < plan.expected_per_s
    assert f"{plan.expected_per_s:.4g} records/s are expected" in reason.text
