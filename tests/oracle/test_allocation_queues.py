"""Waits, quantiles, joins and order against closed forms and against records simulated one by one."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import network_from_nodes
from advisor.planning import Request, evaluate
from advisor.planning.extremes import latest, quantile_of
from advisor.planning.queueing import erlang_c, waiting

RECORDS = 60_000


def one(value: float) -> np.ndarray:
    return np.array([value])


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.5), (2, 1.2), (5, 4.0), (20, 18.0)])
def test_erlang_c_is_the_sum(servers: int, offered: float) -> None:
    terms = [1.0]
    for k in range(1, servers + 1):
        terms.append(terms[-1] * offered / k)
    last = terms[-1] / (1 - offered / servers)
    expected = last / (sum(terms[:-1]) + last)
    assert erlang_c(np.array([servers]), one(offered / servers))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0, 3.0])
def test_one_server_is_pollaczek_and_khinchine(variation: float) -> None:
    for rho in (0.2, 0.6, 0.9):
        mean, spread = waiting(one(rho), one(1.0), one(variation), np.array([1]), one(1.0))
        assert mean[0] == pytest.approx(rho * (1 + variation) / 2 / (1 - rho), rel=1e-9)
        assert spread[0] > 0
    assert np.isinf(waiting(one(1.0), one(1.0), one(1.0), np.array([1]), one(1.0))[0][0])
    assert waiting(one(0.0), one(1.0), one(1.0), np.array([1]), one(1.0))[0][0] == 0.0


def test_many_servers_of_exponential_services_are_exact() -> None:
    mean, spread = waiting(one(3.2), one(1.0), one(1.0), np.array([4]), one(1.0))
    chance = erlang_c(np.array([4]), one(0.8))[0]
    assert mean[0] == pytest.approx(chance / (4 - 3.2), rel=1e-9)
    # The wait is exponential of rate n - a with probability C, else 0.
    assert spread[0] == pytest.approx(2 * chance / 0.8**2 - mean[0] ** 2, rel=1e-9)


def test_the_latest_of_exponential_times_is_harmonic() -> None:
    mean, variance = latest(np.ones((1, 4)), np.ones((1, 4)))
    assert mean[0] == pytest.approx(1 + 1 / 2 + 1 / 3 + 1 / 4, rel=1e-6)
    assert variance[0] == pytest.approx(1 + 1 / 4 + 1 / 9 + 1 / 16, rel=1e-5)
    certain, none = latest(np.array([[3.0, 2.0]]), np.array([[1e-12, 0.0]]))
    assert certain[0] == pytest.approx(3.0, rel=1e-5)
    assert none[0] == pytest.approx(0.0, abs=1e-6)


def test_order_of_an_infinite_server() -> None:
    """Records with exponential times and no queue, handed on in order: simulated one by one."""
    rng = np.random.default_rng(2)
    arrivals = np.cumsum(rng.exponential(0.5, RECORDS))
    done = np.maximum.accumulate(arrivals + rng.exponential(1.0, RECORDS))
    nodes = [{"kind": "box", "name": "a"}, {"kind": "split", "children": [0], "tag": "t", "ordered": True}]
    curves = TabulatedCurves.of([1], [[1.0]], variation=1.0)
    answer = evaluate(network_from_nodes(nodes), curves, Request(cores=40, arrival_per_s=2.0), {"a": 1}, {"a": 40})
    assert answer.latency_queued_s == pytest.approx(float((done - arrivals).mean()), rel=0.03)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_quantiles_of_gamma_sums(level: float) -> None:
    rng = np.random.default_rng(4)
    for shape in (0.5, 1.0, 3.0, 50.0):
        drawn = np.quantile(rng.gamma(shape, 1 / shape, 400_000), level)
        assert quantile_of(one(1.0), one(1 / shape), level)[0] == pytest.approx(drawn, rel=0.02)


class Records:
    """Records through a tree, station by station: first come first served, gamma services."""

    def __init__(self, seed: int, seconds: dict[str, float], variation: float, instances: dict[str, int]) -> None:
        self.rng, self.seconds, self.variation, self.instances = (
            np.random.default_rng(seed),
            seconds,
            variation,
            instances,
        )

    def through(self, part: tuple[Any, ...], arrivals: np.ndarray) -> np.ndarray:
        kind = part[0]
        if kind == "box":
            return self.served(part[1], arrivals)
        if kind == "series":
            for child in part[1]:
                arrivals = self.through(child, arrivals)
            return arrivals
        if kind == "join":
            return np.max([self.through(child, arrivals) for child in part[1]], axis=0)
        done = np.empty_like(arrivals)
        branch = self.rng.choice(len(part[1]), len(arrivals), p=part[2])
        for order, child in enumerate(part[1]):
            done[branch == order] = self.through(child, arrivals[branch == order])
        if kind == "ordered":
            by_arrival = np.argsort(arrivals)
            done[by_arrival] = np.maximum.accumulate(done[by_arrival])
        return done

    def served(self, name: str, arrivals: np.ndarray) -> np.ndarray:
        shape = 1 / self.variation
        times = self.rng.gamma(shape, self.seconds[name] / shape, len(arrivals))
        free, done = [0.0] * self.instances[name], np.empty_like(arrivals)
        for index in np.argsort(arrivals, kind="stable"):
            start = max(free[0], arrivals[index])
            done[index] = start + times[index]
            heapq.heapreplace(free, done[index])
        return done


def nodes_of(part: tuple[Any, ...]) -> tuple[list[dict[str, Any]], list[list[float]]]:
    nodes: list[dict[str, Any]] = []
    shares: list[list[float]] = []

    def add(some: tuple[Any, ...]) -> int:
        if some[0] == "box":
            nodes.append({"kind": "box", "name": some[1]})
            return len(nodes) - 1
        if some[0] in ("choice", "ordered"):
            shares.append(some[2])
        children = [add(child) for child in some[1]]
        kind = "choice" if some[0] == "ordered" else some[0]
        nodes.append({"kind": kind, "children": children} | ({"ordered": True} if some[0] == "ordered" else {}))
        return len(nodes) - 1

    add(part)
    return nodes, shares


A, B, C, D = (("box", name) for name in "abcd")
TREES = {
    "pipeline": ("series", [A, B, C, D]),
    "choice": ("series", [A, ("choice", [B, C], [0.7, 0.3]), D]),
    "ordered": ("series", [A, ("ordered", [B, C], [0.7, 0.3]), D]),
    "join": ("series", [A, ("join", [B, C, D])]),
    "mixed": ("join", [("series", [A, B]), ("choice", [C, D], [0.5, 0.5])]),
}  # fmt: skip


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(("variation", "instances"), [(0.2, 1), (1.0, 1), (1.0, 3)])
def test_latency_of_simulated_records(name: str, variation: float, instances: int) -> None:
    tree = TREES[name]
    nodes, shares = nodes_of(tree)
    network = network_from_nodes(nodes)
    rng = np.random.default_rng(11)
    seconds = dict(zip("abcd", rng.uniform(0.6, 1.4, 4).tolist(), strict=True))
    curves = TabulatedCurves.of([1], np.array([[seconds[key]] for key in network.keys]), variation=variation)
    many = dict.fromkeys(network.keys, instances)
    base: dict[str, Any] = {"cores": 4 * instances, "shares": shares or None}
    top = evaluate(network, curves, Request(**base), dict.fromkeys(network.keys, 1), many).throughput_per_s
    for load, allowed in ((0.3, 0.10), (0.6, 0.10), (0.85, 0.20)):
        rate = load * top
        request = Request(**base, arrival_per_s=rate, quantile=0.95)
        answer = evaluate(network, curves, request, dict.fromkeys(network.keys, 1), many)
        arrivals = np.cumsum(np.random.default_rng(5).exponential(1 / rate, RECORDS))
        records = Records(6, seconds, variation, many)
        times = (records.through(tree, arrivals) - arrivals)[RECORDS // 10 :]
        assert answer.latency_queued_s == pytest.approx(float(times.mean()), rel=allowed), load
        assert answer.latency_quantile_s == pytest.approx(float(np.quantile(times, 0.95)), rel=2 * allowed), load
