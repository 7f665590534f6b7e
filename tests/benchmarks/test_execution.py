"""The simulator against closed forms, exact recursions and the rules of execution."""

from __future__ import annotations

from typing import Any

import execution
import numpy as np
import pytest
import steady_state
from execution import Box, Outcome, simulate

from advisor.domain.flows import Flow
from advisor.domain.networks import Network, Node, network_from_nodes, series

SEED = 7  # figures below are deterministic: the bounds are three of their half widths, checked once


def near(estimate: steady_state.Estimate, expected: float) -> None:
    """The expected value lies within 1.5 half widths of a 95 % interval, which is narrow enough to tell."""
    assert abs(estimate.mean - expected) <= 1.5 * estimate.half_width, (estimate, expected)
    assert estimate.relative < 0.08, estimate


def wrapped(kind: str, *names: str, **more: Any) -> Network:
    """One node of a kind around boxes: in a series where it takes one child."""
    nodes = [Node("box", name) for name in names]
    children = tuple(range(len(names)))
    if kind != "join" and len(names) > 1:
        nodes.append(Node("series", children=children))
        children = (len(names),)
    return Network((*nodes, Node(kind, children=children, **more)))


def run(network: Network, boxes: dict[str, Box], **options: Any) -> Outcome:
    return simulate(network, boxes, **({"records": 40_000, "seed": SEED} | options))


# -- closed forms ---------------------------------------------------------------------------------------------------------


def test_a_tandem_of_exponential_boxes_is_a_sum() -> None:
    found = run(series("a", "b"), {"a": Box(1.0), "b": Box(0.5)}, arrival_per_s=0.6)
    near(found.latency_s, 1 / (1 - 0.6) + 1 / (2 - 0.6))


def test_records_that_return_leave_no_room_for_new_ones() -> None:
    # The queue of a saturated box stays bounded although what returns is always taken: exits are its rate times (1 - r).
    network = series(wrapped("feedback", "a"), "b")
    boxes = {"a": Box(1.0), "b": Box(0.01)}
    found = run(network, boxes, stream_records=4, flow=Flow(returns=(0.5,)))
    near(found.throughput_per_s, 0.5)
    assert found.latency_s.mean < 2 * 8


@pytest.mark.parametrize("room", [0, 3])
def test_two_boxes_block_each_other(room: int) -> None:
    # With room b between two exponential boxes of one rate: (b + 2) / (b + 3)
    found = run(series("a", "b"), {"a": Box(1.0), "b": Box(1.0)}, stream_records=room)
    near(found.throughput_per_s, (room + 2) / (room + 3))


def test_boxes_that_run_together_slow_each_other() -> None:
    # While b runs on its 2 cores, a goes at half its speed. b takes 1 s, then is held: a does the other half alone.
    boxes = {"a": Box(1.0, "deterministic", cores=1, contention=0.5), "b": Box(1.0, "deterministic", cores=2)}
    found = run(series("b", "a"), boxes, stream_records=5, records=2_000)
    assert found.throughput_per_s.mean == pytest.approx(1 / 1.5, rel=1e-3)


# -- exact recursions -----------------------------------------------------------------------------------------------------


@pytest.fixture
def given_times(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Service times that a box of shape ``given`` takes: the row of the list that its variation names."""
    tables: list[np.ndarray] = []
    # Stations draw from the end.
    monkeypatch.setitem(execution.SHAPES, "given", lambda _rng, _n, row: tables[int(row)][::-1])
    return tables


def given(row: int, **more: Any) -> Box:
    return Box(1.0, "given", row, **more)


@pytest.mark.parametrize("room", [0, 1, 4])
def test_a_line_with_bounded_streams_follows_its_recursion(room: int, given_times: list[np.ndarray]) -> None:
    rng, n = np.random.default_rng(5), 2_000
    given_times += [rng.lognormal(0, 1, n) for _ in range(3)]
    arrivals = np.cumsum(rng.exponential(1.5, n))
    found = simulate(
        series("a", "b", "c"), {"a": given(0), "b": given(1), "c": given(2)},
        arrivals_s=arrivals, stream_records=room, records=n,
    )  # fmt: skip
    left = np.zeros((4, n))  # left[j, k]: record k leaves box j - 1; row 0 is its arrival
    left[0] = arrivals
    starts = np.zeros((4, n))
    for k in range(n):
        for j in range(1, 4):
            starts[j, k] = max(left[j - 1, k], left[j, k - 1] if k else 0.0)
            left[j, k] = starts[j, k] + given_times[j - 1][k]
        # A record leaves when the stream after it has room: when the record `room + 1` before it has left the next box.
        for j in (2, 1):
            if k > room:
                left[j, k] = max(left[j, k], left[j + 1, k - room - 1])
        for j in (2, 3):  # what was held starts later
            starts[j, k] = max(left[j - 1, k], left[j, k - 1] if k else 0.0)
            done = starts[j, k] + given_times[j - 1][k]
            left[j, k] = max(done, left[j + 1, k - room - 1]) if j == 2 and k > room else done
    np.testing.assert_allclose(found.trace.exits_s, left[3], rtol=1e-12)
    np.testing.assert_allclose(found.trace.latencies_s, left[3] - arrivals, rtol=1e-9)


@pytest.mark.parametrize("ordered", [False, True])
def test_who_is_early_waits_where_order_is_kept(ordered: bool, given_times: list[np.ndarray]) -> None:
    rng, n = np.random.default_rng(6), 1_000
    given_times.append(rng.lognormal(0, 1.5, n))
    arrivals = np.cumsum(rng.exponential(0.2, n))
    network = Network((Node("box", "a"), Node("split", children=(0,), tag="t", ordered=ordered)))
    found = simulate(network, {"a": given(0, instances=n)}, arrivals_s=arrivals, records=n)
    done = arrivals + given_times[0]
    expected = np.maximum.accumulate(done) if ordered else np.sort(done)
    np.testing.assert_allclose(found.trace.exits_s, expected, rtol=1e-12)


# -- rules ----------------------------------------------------------------------------------------------------------------

EVERYTHING = [
    {"kind": "box", "name": "a"},
    {"kind": "box", "name": "b"},
    {"kind": "join", "children": [0, 1]},
    {"kind": "box", "name": "c"},
    {"kind": "split", "children": [3], "tag": "t", "ordered": True},
    {"kind": "series", "children": [2, 4]},
    {"kind": "replication", "children": [5], "ordered": True, "patterns": ["{done}"]},
    {"kind": "box", "name": "d"},
    {"kind": "feedback", "children": [7], "patterns": ["{again}"]},
    {"kind": "choice", "children": [6, 8], "ordered": True},
    {"kind": "sync", "patterns": ["{x}", "{y}"]},
    {"kind": "filter", "text": "[]"},
    {"kind": "box", "name": "once", "once": True},
    {"kind": "box", "name": "e"},
    {"kind": "placement", "children": [13], "place": 1},
    {"kind": "series", "children": [9, 10, 11, 12, 14]},
]
FLOW = Flow(shares=([0.6, 0.4],), depths=([0.1, 0.3, 0.6],), fan_outs=([1.0],), returns=(0.3,))


@pytest.mark.parametrize("room", [0, 2, None])
def test_every_operator_executes_and_no_record_is_lost_or_doubled(room: int | None) -> None:
    network = network_from_nodes(EVERYTHING)
    boxes = {key: Box(1.0, instances=1 + row % 2) for row, key in enumerate(network.keys)}
    runs: list[tuple[str, int]] = []
    found = simulate(
        network, boxes, FLOW, arrival_per_s=0.3, stream_records=room, records=3_000, seed=SEED,
        observe=lambda key, record, *_: runs.append((key, record)),
    )  # fmt: skip
    assert len(found.trace.exits_s) == 3_000
    last = [record for key, record in runs if key == "e"]
    assert len(set(last)) == len(last)
    visits = {key: sum(1 for k, _ in runs if k == key) / 3_000 for key in network.keys}
    assert visits["once"] == 0
    for key, expected in {"a": 0.9, "b": 0.9, "c": 0.9, "d": 0.4 / 0.7, "e": 1.0}.items():
        assert visits[key] == pytest.approx(expected, rel=0.07), key
    # Little's law, on the whole trace: the integral of the records inside is the sum of their times.
    entered = found.trace.exits_s - found.trace.latencies_s
    inside = np.sort(np.concatenate([entered, found.trace.exits_s]))
    steps = np.concatenate([np.ones(3_000), -np.ones(3_000)])
    order = np.argsort(np.concatenate([entered, found.trace.exits_s]), kind="stable")
    area = float((np.cumsum(steps[order])[:-1] * np.diff(inside)).sum())
    assert area == pytest.approx(float(found.trace.latencies_s.sum()), rel=1e-9)


# -- the steady state -----------------------------------------------------------------------------------------------------
