"""What plans in turns promise, by the simulator of `benchmarks/turns.py`."""

from __future__ import annotations

import numpy as np
import pytest
from turns import Simulated, curves

from advisor.domain.networks import network_from_nodes, series
from advisor.planning import Request, plan


def test_a_pipeline_in_one_group_waits_as_the_equations_say() -> None:
    """They are exact here: the simulator is within three half widths."""
    network, table = series("a", "b", "c"), curves(np.random.default_rng(7), 3, 0.3)
    rate = 0.6 * plan(network, table, Request(cores=1)).throughput_per_s
    found = plan(network, table, Request(cores=1, arrival_per_s=rate))
    assert found.latency_queued_s is not None
    mean, width = Simulated(network, table, found, {}, 0.3, 1).arrivals(rate, 12_000)
    assert width < 0.12 * mean
    assert abs(found.latency_queued_s - mean) <= 1.5 * width


def test_branches_on_one_core_are_through_when_both_are() -> None:
    boxes = [{"kind": "box", "name": name} for name in "abc"]
    network = network_from_nodes([*boxes, {"kind": "join", "children": [0, 1]}, {"kind": "series", "children": [3, 2]}])
    table = curves(np.random.default_rng(2), 3, 0.2)
    rate = 0.3 * plan(network, table, Request(cores=2)).throughput_per_s
    found = plan(network, table, Request(cores=2, objective="latency", arrival_per_s=rate))
    assert found.latency_queued_s is not None
    mean, _ = Simulated(network, table, found, {}, 0.2, 1).arrivals(rate, 4_000)
    assert found.latency_queued_s == pytest.approx(mean, rel=0.15)


def test_the_throughput_in_turns_is_reached() -> None:
    network, table = series("a", "b", "c", "d"), curves(np.random.default_rng(4), 4, 0.5)
    found = plan(network, table, Request(cores=4, turns="better"))
    assert found.groups
    reached = Simulated(network, table, found, {}, 0.5, 1).throughput(4_000)
    assert found.throughput_per_s == pytest.approx(reached, rel=0.05)
