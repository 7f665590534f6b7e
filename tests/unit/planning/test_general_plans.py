"""Plans of all kinds of nodes: routing, constraints, objectives and what the answers tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves
from built_networks import series

from advisor import planning
from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import ImpossibleTarget
from advisor.planning import plan, request_about
from advisor.planning.placing import machine_of, place
from advisor.planning.plans import plan_pinned

COUNTS = [1, 2, 4, 8]


def Request(**given: Any) -> planning.Request:  # noqa: N802
    """Ask with turns where cores are fewer than components only: what cores of one's own promise is looked at here."""
    return planning.Request(**{"turns": "scarce", **given})


def wrapped(kind: str, **extra: Any) -> Network:
    """The network ``a .. kind(b)``, the inner node at line 3, column 5."""
    inner = {"kind": kind, "children": [1], "line": 3, "column": 5, **extra}
    return network_from_nodes(
        [{"kind": "box", "name": "a"}, {"kind": "box", "name": "b"}, inner, {"kind": "series", "children": [0, 2]}]
    )


def joined(*names: str, kind: str = "join", **extra: Any) -> Network:
    boxes = [{"kind": "box", "name": name} for name in names]
    return network_from_nodes([*boxes, {"kind": kind, "children": list(range(len(names))), **extra}])


def table(*rows: list[float], **extra: Any) -> TabulatedCurves:
    return TabulatedCurves.from_arrays(COUNTS, np.array(rows, float), **extra)


def ones(n: int) -> TabulatedCurves:
    return amdahl_curves(np.ones(n), np.zeros(n))


def codes(answer: Allocation) -> set[str]:
    return {reason.code for reason in answer.why}


class TestRouting:
    def test_partners_at_a_synchrocell_are_waited_for_where_it_joins_again_and_again(self) -> None:
        parts = [
            {"kind": "box", "name": "a"}, {"kind": "box", "name": "b"}, {"kind": "choice", "children": [0, 1]},
            {"kind": "sync", "patterns": ["{a}", "{b}"]},
        ]  # fmt: skip
        curves = amdahl_curves(np.array([1.0, 3.0]), np.zeros(2))
        # A bare one joins a single pair in its life: after that a record passes one branch, and on.
        bare = network_from_nodes([*parts, {"kind": "series", "children": [2, 3]}])
        assert plan(bare, curves, Request(cores=2, shares=[[1, 1]])).latency_s == pytest.approx(2.0)
        again = {"kind": "replication", "children": [3], "patterns": ["{c}"]}
        always = network_from_nodes([*parts, again, {"kind": "series", "children": [2, 4]}])
        request = Request(cores=2, shares=[[1, 1]], depths=[[0.0, 1.0]])
        assert plan(always, curves, request).latency_s == pytest.approx(3.0)

    def test_visits_answer_for_shares(self) -> None:
        network, one = joined("a", "b", kind="choice"), amdahl_curves(np.array([1.0, 2.0]), np.zeros(2))
        # Visits of all keys stand in for shares that nobody gave.
        visits = {"a": 0.75, "b": 0.25}
        assert plan(network, one, Request(cores=2, visits=visits)).latency_s == pytest.approx(1.25)

    def test_the_heaviest_replica_bounds_a_split(self) -> None:
        network = wrapped("split", tag="t")
        curves = amdahl_curves(np.array([0.01, 1.0]), np.zeros(2))
        even = plan(network, curves, Request(cores=9, instances_max={"b": 8}, fan_outs=[4]))
        assert (even.instances["b"], even.throughput_per_s) == (4, pytest.approx(4.0))
        skewed = plan(network, curves, Request(cores=9, instances_max={"b": 8}, fan_outs=[[6, 1, 1, 1, 1]]))
        # The replica of 60 % keeps one instance busy; another one serves the rest.
        assert (skewed.instances["b"], skewed.throughput_per_s) == (2, pytest.approx(1 / 0.6))


class TestConstraints:
    NET = series("a", "b", "c")
    CURVES = table([8, 4, 2, 1], [8, 5, 4, 6], [4, 4, 4, 4], peak_bytes=[10.0, 5.0, 1.0])

    def test_curves_that_rise_again_get_no_more(self) -> None:
        answer = plan(self.NET, self.CURVES, Request(cores=30, objective="latency"))
        assert answer.cores == {"a": 8, "b": 4, "c": 1}
        assert answer.spare == 17


class TestObjectives:
    NET = series("a", "b")
    CURVES = table([8, 4.5, 3, 2.5], [4, 2.5, 2, 2], upper_s=[[9, 6, 5, 5], [4.1, 2.6, 2.1, 2.1]], variation=1.0)

    def test_the_upper_bound_prices_uncertainty(self) -> None:
        plain, cautious = (plan(self.NET, self.CURVES, Request(cores=6, level=level)) for level in (None, 0.9))
        (expected,) = (some.value for some in plain.why if some.code == "level")
        assert plain.throughput_per_s < cautious.throughput_per_s < 1 / 3  # a promise of 0.975, a bound at 0.9
        assert plain.throughput_per_s < expected <= 1 / 3
        assert "level" in codes(cautious)

    def test_queueing_adds_to_the_latency_and_the_quantile_lies_above_the_mean(self) -> None:
        answer = plan(self.NET, self.CURVES, Request(cores=8, objective="latency", arrival_per_s=0.2, quantile=0.95))
        assert answer.latency_queued_s is not None
        assert answer.latency_quantile_s is not None
        assert answer.latency_s < answer.latency_queued_s < answer.latency_quantile_s
        assert answer.utilization is not None
        assert all(0 < busy < 1 for busy in answer.utilization.values())
        with pytest.raises(ImpossibleTarget) as raised:
            plan(self.NET, self.CURVES, Request(cores=8, objective="latency", arrival_per_s=1.0))
        assert raised.value.bound == pytest.approx(1 / 3, rel=0.2)
        over = plan(self.NET, self.CURVES, Request(cores=8, arrival_per_s=1.0))
        assert over.latency_queued_s is None
        assert "overload" in codes(over)

    def test_contention_is_a_fixed_point(self) -> None:
        curves = table([4, 2, 1, 0.5], [4, 2, 1, 0.5], contention=0.1)
        answer = plan_pinned(request_about(self.NET, Request(cores=4)), curves, np.array([[2, 2], [1, 1]]))
        # Both work all the time: beside each, two cores of the other are busy.
        assert answer.throughput_per_s == pytest.approx(1 / (2 * 1.2))
        assert answer.active_cores == pytest.approx(4.0)
        # Components that hurt each other get fewer cores than there are.
        worse = plan(self.NET, table([4, 3.9, 3.8, 3.7], [4, 3.9, 3.8, 3.7], contention=0.1), Request(cores=16))
        assert worse.spare > 0

    def test_what_if_a_component_were_twice_as_fast(self) -> None:
        before, after = (
            plan_pinned(
                request_about(self.NET, Request(cores=4, objective="latency", scale=scale)),
                self.CURVES,
                np.array([[2, 2], [1, 1]]),
            )
            for scale in (None, {"a": 0.5})
        )
        assert before.latency_s - after.latency_s == pytest.approx(4.5 / 2)


class TestCoresThatAreLeft:
    def test_of_learned_curves_the_nearly_slowest_get_them(self) -> None:
        """One box gains from no core beyond two; of the others one takes nearly as long, one far less."""
        counts = np.arange(1, 13)
        seconds = np.stack([np.maximum(2.0 / counts, 1.0), 4.7 / counts, 0.5 / counts])
        network = series("slow", "near", "far")
        exact = plan(network, TabulatedCurves.from_arrays(counts, seconds), Request(cores=12, turns="never"))
        learned = TabulatedCurves.from_arrays(counts, seconds, upper_s=seconds * 1.05)
        found = plan(network, learned, Request(cores=12, turns="never"))
        assert exact.cores == {"slow": 2, "near": 5, "far": 1}
        assert found.cores == {"slow": 2, "near": 6, "far": 1}
        asked = Request(
            cores=12, turns="never", objective="fewest_cores", target={"throughput_per_s": found.throughput_per_s}
        )
        assert plan(network, learned, asked).cores_used == 8  # what is promised needs none of them
        few = plan(network, learned, Request(cores=8, turns="never"))
        assert (few.cores_used, few.throughput_per_s) == (8, found.throughput_per_s)


def test_what_fits_the_nodes_by_memory_alone_is_placed() -> None:
    """`a` of most cores takes the small node by best fit; `c` of most memory then has none to itself."""
    machine = machine_of(5, 3, 5.0)
    assert place(machine, np.array([2, 1, 1]), np.ones(3, np.int64), np.array([2.0, 2.0, 4.0])) == [[0], [0], [1]]
    assert place(machine, np.array([2, 1, 1]), np.ones(3, np.int64), np.array([3.0, 3.0, 3.0])) == []
