"""Latency under arrivals against exact cases of queueing theory, and against recursions of single records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import network_from_nodes
from advisor.planning import Request, request_about
from advisor.planning.plans import plan_pinned

RECORDS = 400_000
STATED = 0.02  # what runs of 20,000 records are within: these cases load their boxes up to 90 %


def box(name: str) -> dict[str, Any]:
    return {"kind": "box", "name": name}


def latency(
    nodes: Sequence[dict[str, Any]], seconds: Sequence[float], variation: float | Sequence[float], **request: Any
) -> float:
    """Return the mean latency that the planner states for boxes of one core, records arriving at rate 1."""
    network = network_from_nodes(list(nodes))
    variations = [variation] * len(seconds) if isinstance(variation, float) else list(variation)
    curves = TabulatedCurves.from_arrays([1], [[some] for some in seconds], variation=variations)
    asked = Request(cores=len(seconds), arrival_per_s=1.0, **request)
    ones = np.ones((2, len(network.keys)), np.int64)
    found = plan_pinned(request_about(network, asked), curves, ones).latency_queued_s
    assert found is not None
    return found


def fifo(arrivals: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Return when records leave a queue with one server: D_n = max_k (a_k + S_k + ... + S_n)."""
    worked = np.cumsum(services)
    return worked + np.maximum.accumulate(arrivals - (worked - services))


def poisson(seed: int) -> tuple[np.random.Generator, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng, np.cumsum(rng.exponential(1.0, RECORDS))


def test_exponential_services_are_jacksons_network() -> None:
    """Loops, choices and series of exponential boxes: each is M/M/1 at its own rate, exactly."""
    nodes = [
        box("a"), box("b"), {"kind": "choice", "children": [0, 1]}, box("c"), {"kind": "series", "children": [2, 3]},
        {"kind": "feedback", "children": [4], "patterns": ["{again}"]}, box("d"), {"kind": "series", "children": [5, 6]},
    ]  # fmt: skip
    seconds, visits = [0.5, 0.3, 0.4, 0.9], [1.4 * 0.6, 1.4 * 0.4, 1.4, 1.0]
    found = latency(nodes, seconds, 1.0, shares=[[0.6, 0.4]], returns=[1 - 1 / 1.4])
    expected = sum(v * s / (1 - v * s) for v, s in zip(visits, seconds, strict=True))
    assert found == pytest.approx(expected, rel=STATED)


@pytest.mark.parametrize("variation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_a_box_in_a_feedback_is_takacs(variation: float, rho: float) -> None:
    """M/G/1 with feedback to the end of the queue: as many records inside as with a geometric sum as one service."""
    back = 0.4
    nodes = [box("a"), {"kind": "feedback", "children": [0], "patterns": ["{again}"]}]
    found = latency(nodes, [rho * (1 - back)], variation, returns=[back])
    whole = back + (1 - back) * variation
    assert found == pytest.approx(rho + rho * rho * (1 + whole) / 2 / (1 - rho), rel=STATED)


@pytest.mark.parametrize("variation", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("rho", [0.3, 0.9, 0.99])
def test_a_box_alone_is_pollaczek_and_khinchine(variation: float, rho: float) -> None:
    """What is known exactly of each queue leaves no noise to a single one."""
    found = latency([box("a")], [rho], variation)
    assert found == pytest.approx(rho + rho * rho * (1 + variation) / 2 / (1 - rho), rel=1e-9)


def test_the_same_question_has_the_same_answer_and_a_slower_box_a_longer_one() -> None:
    nodes = [box("a"), box("b"), {"kind": "join", "children": [0, 1]}]
    one, again = (latency(nodes, [0.8, 0.7], 0.5) for _ in range(2))
    assert one == again
    assert latency(nodes, [0.8 * 1.001, 0.7], 0.5) > one


def joined(boxes: int) -> list[dict[str, Any]]:
    return [*(box(f"b{i}") for i in range(boxes)), {"kind": "join", "children": list(range(boxes))}]


@pytest.mark.parametrize("boxes", [2, 3, 8])
@pytest.mark.parametrize(("rho", "allowed"), [(0.3, 0.02), (0.6, 0.03), (0.85, 0.06)])
def test_joins_of_equal_boxes(boxes: int, rho: float, allowed: float) -> None:
    """Log-normal services of variation 1, as plans take them, record by record."""
    rng, arrivals = poisson(11)
    log_variance = math.log(2.0)
    done = [fifo(arrivals, rho * rng.lognormal(-log_variance / 2, log_variance**0.5, RECORDS)) for _ in range(boxes)]
    expected = float((np.max(done, axis=0) - arrivals).mean())
    assert latency(joined(boxes), [rho] * boxes, 1.0) == pytest.approx(expected, rel=allowed)


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_equal_certain_boxes_of_a_join_are_always_done_together(rho: float) -> None:
    alone = latency([box("a")], [rho], 0.0)
    assert latency(joined(3), [rho] * 3, 0.0) == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("variation", [0.0, 0.3, 1.0])
def test_joins_of_unequal_boxes(variation: float) -> None:
    rng, arrivals = poisson(3)
    seconds = [0.8, 0.75, 0.4]
    shape = 1 / variation if variation else 0.0
    done = [fifo(arrivals, rng.gamma(shape, s / shape, RECORDS) if variation else np.full(RECORDS, s)) for s in seconds]
    expected = float((np.max(done, axis=0) - arrivals).mean())
    assert latency(joined(3), seconds, variation) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("seconds", [(0.54, 0.6), (0.3, 0.85), (0.85, 0.5), (0.7, 0.8)])
def test_certain_boxes_in_series_wait_at_the_slowest(seconds: tuple[float, float]) -> None:
    """Friedman (1965): the waits of deterministic servers in series are those of the slowest alone."""
    slowest = max(seconds)
    expected = sum(seconds) + slowest * slowest / 2 / (1 - slowest)
    nodes = [box("a"), box("b"), {"kind": "series", "children": [0, 1]}]
    assert latency(nodes, seconds, 0.0) == pytest.approx(expected, rel=0.10)


@pytest.mark.parametrize(("rho", "allowed"), [(0.3, 0.02), (0.6, 0.03), (0.85, 0.06)])
def test_order_of_two_queues(rho: float, allowed: float) -> None:
    rng, arrivals = poisson(5)
    first = rng.random(RECORDS) < 0.5
    done = np.empty(RECORDS)
    for some in (first, ~first):
        done[some] = fifo(arrivals[some], rng.exponential(2 * rho, int(some.sum())))
    expected = float((np.maximum.accumulate(done) - arrivals).mean())
    nodes = [box("a"), box("b"), {"kind": "choice", "children": [0, 1], "ordered": True}]
    assert latency(nodes, [2 * rho, 2 * rho], 1.0, shares=[[0.5, 0.5]]) == pytest.approx(expected, rel=allowed)


@pytest.mark.parametrize("rho", [0.6, 0.85])
def test_a_box_after_order_feels_the_batches(rho: float) -> None:
    rng, arrivals = poisson(9)
    first = rng.random(RECORDS) < 0.2
    done = np.empty(RECORDS)
    for some, seconds in ((first, 5 * rho), (~first, 0.3)):
        done[some] = fifo(arrivals[some], rng.exponential(seconds, int(some.sum())))
    released = np.maximum.accumulate(done)
    expected = float((fifo(released, np.full(RECORDS, rho)) - arrivals).mean())
    nodes = [
        box("a"), box("b"), {"kind": "choice", "children": [0, 1], "ordered": True}, box("c"),
        {"kind": "series", "children": [2, 3]},
    ]  # fmt: skip
    found = latency(nodes, [5 * rho, 0.3, rho], [1.0, 1.0, 0.0], shares=[[0.2, 0.8]])
    assert found == pytest.approx(expected, rel=0.10 if rho < 0.8 else 0.20)


@pytest.mark.parametrize("back", [0.3, 0.5])
def test_order_around_a_loop_that_never_queues(back: float) -> None:
    """Certain passes of m seconds, so short that nobody queues: P(left by x) = F(x) exp(-L int_x^inf P(T > t) dt)."""
    seconds = 1e-3
    nodes = [box("a"), {"kind": "feedback", "children": [0], "patterns": ["{again}"]},
             {"kind": "split", "children": [1], "tag": "t", "ordered": True}]  # fmt: skip
    passes = np.arange(1, 200)
    done = 1 - back**passes
    beyond = np.array([seconds * sum(back**n for n in range(number, 200)) for number in passes])
    left = done * np.exp(-beyond)
    expected = seconds * (1 + float((1 - left).sum()))
    found = latency(nodes, [seconds], 0.0, returns=[back])
    assert found == pytest.approx(expected, rel=0.01)
    assert math.isfinite(found)
