"""Streams, loops, joins and order against exact cases of queueing theory, and against recursions of single records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import network_from_nodes
from advisor.planning import Request, evaluate
from advisor.planning.extremes import in_order, overtaken
from advisor.planning.returns import busiest_of, returning
from advisor.planning.streams import kept_of, renewal
from advisor.planning.structure import StreamState, structure_of
from advisor.planning.visits import visits_of

RECORDS = 400_000


def box(name: str) -> dict[str, Any]:
    return {"kind": "box", "name": name}


def latency(
    nodes: Sequence[dict[str, Any]], seconds: Sequence[float], variation: float | Sequence[float], **request: Any
) -> float:
    """Return the mean latency that the planner states for boxes of one core, records arriving at rate 1."""
    network = network_from_nodes(list(nodes))
    variations = [variation] * len(seconds) if isinstance(variation, float) else list(variation)
    curves = TabulatedCurves.of([1], [[some] for some in seconds], variation=variations)
    asked = Request(cores=len(seconds), arrival_per_s=1.0, **request)
    ones = dict.fromkeys(network.keys, 1)
    found = evaluate(network, curves, asked, ones, ones).latency_queued_s
    assert found is not None
    return found


def fifo(arrivals: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Return when records leave a queue with one server: D_n = max_k (a_k + S_k + ... + S_n)."""
    worked = np.cumsum(services)
    return worked + np.maximum.accumulate(arrivals - (worked - services))


def poisson(seed: int) -> tuple[np.random.Generator, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng, np.cumsum(rng.exponential(1.0, RECORDS))


def test_dispersion_of_erlang_gaps_is_exact() -> None:
    x = np.array([0.1, 1.0, 10.0])
    assert renewal(x, 0.5) + 1 == pytest.approx(0.5 + (1 - np.exp(-4 * x)) / (8 * x), rel=1e-12)
    assert renewal(x, 1.0) == pytest.approx(np.zeros(3), abs=1e-15)


def test_what_is_kept_of_arrivals_grows_from_nothing_to_all() -> None:
    t = np.logspace(-5, 5, 60)
    kept = kept_of(t)
    assert (np.diff(kept) > 0).all()
    assert kept[0] < 0.01
    assert kept[-1] == pytest.approx(1.0, abs=1e-5)


def test_exponential_services_are_jacksons_network() -> None:
    """Loops, choices and series of exponential boxes: each is M/M/1 at its own rate, exactly."""
    nodes = [
        box("a"), box("b"), {"kind": "choice", "children": [0, 1]}, box("c"), {"kind": "series", "children": [2, 3]},
        {"kind": "feedback", "children": [4], "patterns": ["{again}"]}, box("d"), {"kind": "series", "children": [5, 6]},
    ]  # fmt: skip
    seconds, visits = [0.5, 0.3, 0.4, 0.9], [1.4 * 0.6, 1.4 * 0.4, 1.4, 1.0]
    found = latency(nodes, seconds, 1.0, shares=[[0.6, 0.4]], returns=[1 - 1 / 1.4])
    expected = sum(v * s / (1 - v * s) for v, s in zip(visits, seconds, strict=True))
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("variation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_a_box_in_a_feedback_is_takacs(variation: float, rho: float) -> None:
    """M/G/1 with feedback to the end of the queue: as many records inside as with a geometric sum as one service."""
    back = 0.4
    nodes = [box("a"), {"kind": "feedback", "children": [0], "patterns": ["{again}"]}]
    found = latency(nodes, [rho * (1 - back)], variation, returns=[back])
    whole = back + (1 - back) * variation
    assert found == pytest.approx(rho + rho * rho * (1 + whole) / 2 / (1 - rho), rel=1e-9)


def returned(
    nodes: Sequence[dict[str, Any]], rho: Sequence[float], seen: StreamState | None = None, **request: Any
) -> list[float]:
    network = network_from_nodes(list(nodes))
    structure = structure_of(network, visits_of(network, Request(cores=9, **request)))
    used = np.array([rho])
    return returning(structure, used, busiest_of(structure, used), np.ones_like(used), seen or StreamState({}, {}))[
        0
    ].tolist()


def test_only_visits_that_meet_nobody_busier_count_together() -> None:
    loop = {"kind": "feedback", "patterns": ["{again}"]}
    series = [box("a"), box("b"), {"kind": "series", "children": [0, 1]}, loop | {"children": [2]}]
    assert returned(series, [0.5, 0.8], returns=[0.3]) == pytest.approx([0.0, 0.3])
    choice = [box("a"), box("b"), {"kind": "choice", "children": [0, 1]}, loop | {"children": [2]}]
    both = returned(choice, [0.5, 0.8], returns=[0.3], shares=[[0.25, 0.75]])
    # From the busier one a record may pass the other in between; from the other it comes back at once or not at all.
    assert both == pytest.approx([0.3 * 0.25, 0.3 * 0.75 / (1 - 0.3 * 0.25)])
    nested = [
        box("a"),
        loop | {"children": [0]},
        box("b"),
        {"kind": "series", "children": [1, 2]},
        loop | {"children": [3]},
    ]
    assert returned(nested, [0.5, 0.8], returns=[0.3, 0.2]) == pytest.approx([0.2, 0.3])
    assert returned(nested, [0.8, 0.5], returns=[0.3, 0.2]) == pytest.approx([1 - 0.8 * 0.7, 0.0])


def test_visits_count_together_as_far_as_the_queue_still_remembers() -> None:
    nodes = [box("a"), box("b"), {"kind": "series", "children": [0, 1]},
             {"kind": "feedback", "children": [2], "patterns": ["{again}"]}]  # fmt: skip

    def after(away_s: float) -> float:
        seen = StreamState({}, {3: np.array([away_s + 2.0])}, np.array([[1.0, 2.0]]))
        return returned(nodes, [0.5, 0.8], seen, returns=[0.3])[1]

    assert after(0.0) == pytest.approx(0.3)
    assert 0.3 > after(0.1) > after(1.0) > after(10.0) > 0
    assert after(1e6) == pytest.approx(0.0, abs=1e-5)
    window = 1 / 0.7  # 1 s felt with single visits, longer with a geometric sum of them
    assert after(1.0) == pytest.approx(0.3 * (1 - (1 - math.exp(-window)) / window), rel=1e-12)


def joined(boxes: int) -> list[dict[str, Any]]:
    return [*(box(f"b{i}") for i in range(boxes)), {"kind": "join", "children": list(range(boxes))}]


@pytest.mark.parametrize("rho", [0.05, 0.3, 0.6, 0.85, 0.97])
def test_a_join_of_two_exponential_boxes_is_nelson_and_tantawis(rho: float) -> None:
    """Exact (Flatto and Hahn 1984): (12 - rho) / 8 of one M/M/1."""
    assert latency(joined(2), [rho, rho], 1.0) == pytest.approx((12 - rho) / 8 * rho / (1 - rho), rel=2e-3)


@pytest.mark.parametrize("boxes", [3, 4, 8])
def test_joins_of_more_boxes_are_near_nelson_and_tantawis(boxes: int) -> None:
    """Their scaling (1988), itself within 5 % of simulations up to 32 boxes."""
    rho, harmonic = 0.7, sum(1 / k for k in range(1, boxes + 1)) / 1.5
    expected = (harmonic + 4 / 11 * (1 - harmonic) * rho) * (12 - rho) / 8 * rho / (1 - rho)
    assert latency(joined(boxes), [rho] * boxes, 1.0) == pytest.approx(expected, rel=0.07)


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


@pytest.mark.parametrize("load", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_batches_of_an_infinite_server_in_order(load: float) -> None:
    """Exact: E[h(O)] for a record's time O in order, h(y) = L exp(L B(y)) int_0^y P(O < z) dz, B the integral of the tail."""
    x = np.linspace(0, 40, 80_001)
    step = x[1]
    left = (1 - np.exp(-x)) * np.exp(-load * np.exp(-x))
    until = np.concatenate([[0.0], np.cumsum((left[1:] + left[:-1]) / 2 * step)])
    behind = load * until * np.exp(load * np.exp(-x))
    exact = float((np.diff(left) * (behind[1:] + behind[:-1]) / 2).sum())
    mean, _, held = overtaken(np.ones((1, 1)), np.ones((1, 1)), load, np.ones(1))
    assert mean[0] == pytest.approx(float((1 - left).sum() * step), rel=1e-3)
    assert held.behind[0] == pytest.approx(exact, rel=0.17)


@pytest.mark.parametrize(("share", "slow", "fast"), [(0.5, 1.2, 1.2), (0.1, 6.0, 0.3), (0.05, 12.0, 0.2)])
def test_batches_of_two_queues_in_order(share: float, slow: float, fast: float) -> None:
    rng, arrivals = poisson(7)
    first = rng.random(RECORDS) < share
    done = np.empty(RECORDS)
    for some, seconds in ((first, slow), (~first, fast)):
        done[some] = fifo(arrivals[some], rng.exponential(seconds, int(some.sum())))
    sizes = np.diff(np.flatnonzero(done >= np.maximum.accumulate(done)))
    expected = float((sizes * (sizes - 1)).sum() / 2 / sizes.sum())
    stays = np.array([[slow / (1 - share * slow), fast / (1 - (1 - share) * fast)]])
    shares = np.array([share, 1 - share])
    mean, _, held = in_order(stays, stays**2, shares, shares)
    assert mean[0] == pytest.approx(float((np.maximum.accumulate(done) - arrivals).mean()), rel=0.03)
    assert held.behind[0] == pytest.approx(expected, rel=0.35)


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
