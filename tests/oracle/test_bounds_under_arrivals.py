"""The bound of the latency under arrivals against every allocation of small networks, and the answers with it.

Each allocation is judged by the model itself; the bound is made near one of them and must lie below all of them: in sum,
and so must what each shape adds. Operators, order, loops, instances, arrivals and variations are drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, series
from advisor.errors import ImpossibleTarget
from advisor.planning import Request, plan
from advisor.planning.asked.visits import visits_of
from advisor.planning.queues.convex import alone_below, latency_below
from advisor.planning.queues.influence import feels_at_least
from advisor.planning.queues.streams import edges_of, feels
from advisor.planning.solving import relaxing
from advisor.planning.solving.alone import SLACK
from advisor.planning.solving.general import problem_for
from advisor.planning.solving.loaded import is_boundable, near
from advisor.planning.solving.search import Problem, combinations
from tests.support.drawn_networks import Case, draw_tree

ORDERED = ("choice", "replication", "split")


def drawn(seed: int, *, boxes: int = 4) -> tuple[Network, TabulatedCurves, dict[str, Any], int]:
    """Return a network with its curves, a request under arrivals, and its cores."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, boxes + 1))
    names = [f"b{row}" for row in range(n)]
    case = Case(draw_tree(rng, names), names, np.zeros((0, 0)), None, {}, 0)
    network = case.network()
    ordered = [node.kind in ORDERED and rng.random() < 0.5 for node in network.nodes]
    network = replace(
        network, nodes=tuple(replace(one, ordered=flag) for one, flag in zip(network.nodes, ordered, strict=True))
    )
    p = np.array([1, 2, 3, 4, 6, 8])
    seconds = rng.lognormal(0, 1, (n, 1)) * (rng.random((n, 1)) * 0.5 + 1 / p) + 0.02 * rng.random((n, 1)) * p
    curves = TabulatedCurves.of(p, seconds, variation=rng.choice([0.0, 0.1, 0.5, 1.0, 3.0], n))
    instances = int(rng.choice([1, 1, 3]))
    cores = n + int(rng.integers(1, 4 if instances > 1 else 7))
    numbers = case.numbers()
    top = plan(network, curves, Request(cores=cores, instances_max=instances, **numbers)).throughput_per_s
    asked = {
        "arrival_per_s": float(rng.choice([0.2, 0.5, 0.8, 0.95])) * top, "instances_max": instances,
        "arrival_variation": float(rng.choice([1.0, 1.0, 0.1, 4.0])), **numbers,
    }  # fmt: skip
    return network, curves, asked, cores


def problem_of(seed: int, **more: Any) -> Problem:
    network, curves, asked, cores = drawn(seed)
    request = Request(cores=cores, **{"objective": "latency", **asked, **more})
    return problem_for(network, curves, request, visits_of(network, request), cores)


def every(problem: Problem) -> np.ndarray:
    """Return all allocations on the problem's cores, (K, n)."""
    grid = np.meshgrid(*(np.arange(number) for number in problem.options.number), indexing="ij")
    found = np.stack([axis.ravel() for axis in grid], axis=1)
    return found[problem.used(found) <= problem.cores]


SOME = [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 8))]


@pytest.mark.parametrize("block", SOME)
def test_no_allocation_is_below_the_bound(block: int) -> None:
    tight: list[float] = []
    for seed in range(20 * block, 20 * block + 20):
        problem = problem_of(seed)
        if combinations(problem.options, problem.cores) > 20_000:
            continue
        assert is_boundable(problem)
        chosen = every(problem)
        latency = problem.model.judge(problem.options, chosen).latency_s
        fits = np.flatnonzero(np.isfinite(latency))
        order = fits[np.argsort(latency[fits])]
        rows = np.arange(chosen.shape[1])
        # Judged alone or among others, an allocation is the same.
        one = int(order[0]) if len(order) else 0
        assert problem.model.judge(problem.options, chosen[[one]]).latency_s[0] == pytest.approx(latency[one], rel=1e-6)
        for reference in {0, len(order) // 2, len(order) - 1} if len(order) else ():
            here = near(problem, chosen[order[reference]])
            below = here.base + here.shares()[rows, chosen[fits]].sum(axis=1)
            assert (below <= latency[fits] * (1 + SLACK)).all(), (seed, reference)
            tight.append(float(below[fits == order[reference]][0] / latency[order[reference]]))
    assert np.quantile(tight, 0.75) > 0.95  # nothing is lost where nothing loops, joins in joins or keeps order
    assert min(tight) > -10


@pytest.mark.parametrize("block", SOME[:4])
@pytest.mark.parametrize("objective", ["latency", "fewest_cores", "cost"])
def test_bound_best_and_found(block: int, objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without enumeration: bound <= the best of all <= what is found, which is nearly always the best."""
    found = missed = 0
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        network, curves, asked, cores = drawn(seed)
        request: dict[str, Any] = {"cores": cores, "objective": objective, **asked}
        try:
            best = plan(network, curves, Request(**{**request, "objective": "latency"}))
            assert best.latency_queued_s is not None
            if objective == "fewest_cores":
                request["target"] = {"latency_s": best.latency_queued_s * (1.0 if seed % 2 else 1.3)}
            if objective == "cost":
                request["weights"] = {"core_s": 1.0, "latency_s": 10.0, "record": 1.0}
            exact = plan(network, curves, Request(**request))
        except ImpossibleTarget:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(relaxing, "ENUMERATED_MAX", -1)
            answer = plan(network, curves, Request(**request))
        value, least = (figure(one, objective) for one in (answer, exact))
        assert answer.gap is not None
        assert value - answer.gap * abs(value) <= least + 1e-6 * abs(least), seed
        assert value >= least - 1e-9 * abs(least)
        found, missed = found + 1, missed + (value > least + 1e-6 * abs(least))
    assert found > 10
    assert missed <= found / 10


def figure(answer: Any, objective: str) -> float:
    if objective == "fewest_cores":
        return float(sum(answer.cores[key] * answer.instances[key] for key in answer.cores))
    return float(answer.cost_per_s if objective == "cost" else answer.latency_queued_s)


def reference(seed: int) -> tuple[Problem, np.ndarray]:
    """Return a problem and some of its allocations that keep up with the arrivals, the best first."""
    problem = problem_of(seed)
    rng = np.random.default_rng(seed)
    chosen = np.stack([rng.integers(0, problem.options.number) for _ in range(60)])
    latency = problem.model.judge(problem.options, chosen).latency_s
    return problem, chosen[np.argsort(latency)][: int(np.isfinite(latency).sum())]


def test_visits_that_count_together_are_no_more_than_the_most() -> None:
    counted = 0
    for seed in range(300, 360):
        problem, chosen = reference(seed)
        if not len(chosen) or not problem.model.structure.loops:
            continue
        most = near(problem, chosen[0]).influence.again[np.arange(chosen.shape[1]), chosen]
        again = problem.model.judge(problem.options, chosen).felt.again
        assert (again <= most + 1e-12).all(), seed
        counted += int((again > 0.01).sum())
    assert counted > 100


def test_a_queue_feels_at_least_what_is_said_of_any_that_count_together() -> None:
    rng = np.random.default_rng(4)
    windows = np.concatenate([1.5 ** np.arange(-10, 12.0), [np.inf]])
    edges = edges_of(windows)
    for _ in range(300):
        rho, variation, rate, most = (
            rng.uniform(0.02, 0.98),
            float(rng.choice([0.0, 0.4, 1.0, 3.0])),
            2.0,
            rng.uniform(0, 0.7),
        )
        into = np.maximum(rng.normal(0, 0.4, (1, len(windows))), -1.0)
        column = np.array([[rho]])
        exact = feels_at_least(column, variation, into, rate, np.zeros((1, 1)), *edges)[0]
        assert exact == pytest.approx(feels(column, np.array(variation), into, np.array(rate), *edges)[0], rel=1e-9)
        least = feels_at_least(column, variation, into, rate, np.array([[most]]), *edges)[0]
        for again in np.linspace(0, most, 7):
            several = np.array([[again + (1 - again) * variation]])
            felt = feels(column, several, into, np.array([[rate * (1 - again)]]), *edges)[0]
            assert least <= felt + 1e-9


def test_the_latency_from_below_is_convex_and_grows() -> None:
    for seed in range(400, 440):
        problem, chosen = reference(seed)
        if not len(chosen):
            continue
        model, rng = problem.model, np.random.default_rng(seed)
        judged = model.judge(problem.options, chosen[:1])
        mean = (judged.seconds_s + judged.wait_s) * rng.lognormal(0, 0.5, (40, chosen.shape[1]))
        deviation = mean * rng.uniform(0, 1, (3, *mean.shape))
        rate, none = float(model.request.arrival_per_s or 0.0), np.zeros(mean.shape[1])

        def below(some: np.ndarray, wide: np.ndarray) -> np.ndarray:
            return latency_below(model.structure, some, wide, none, rate)  # noqa: B023

        ends = below(mean, deviation)
        middle = below((mean[:20] + mean[20:]) / 2, (deviation[:, :20] + deviation[:, 20:]) / 2)
        assert (middle <= (ends[:20] + ends[20:]) / 2 * (1 + SLACK)).all(), seed
        assert (below(mean * 1.1, deviation) >= ends * (1 - SLACK)).all(), seed
        assert (below(mean, deviation * 0.8) <= ends * (1 + SLACK)).all(), seed


@pytest.mark.parametrize("variation", [0.2, 0.5, 2.0])
def test_fifty_components_under_arrivals_are_within_a_hundredth(variation: float) -> None:
    rng = np.random.default_rng(3)
    p = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128])
    network = series(*(f"c{row}" for row in range(50)))
    seconds = rng.lognormal(0, 1, (50, 1)) * (rng.random((50, 1)) * 0.3 + 1 / p) + rng.random((50, 1)) * 0.02 * p
    curves = TabulatedCurves.of(p, seconds, variation=variation)
    rate = 0.5 * plan(network, curves, Request(cores=200)).throughput_per_s
    latency = plan(network, curves, Request(cores=200, objective="latency", arrival_per_s=rate))
    assert latency.gap is not None
    assert latency.gap <= 0.005
    target = {"latency_s": 1.2 * float(latency.latency_queued_s or 0.0)}
    fewest = plan(network, curves, Request(cores=200, objective="fewest_cores", target=target, arrival_per_s=rate))
    assert fewest.gap is not None
    assert fewest.gap <= 0.02


def test_the_latency_of_a_record_alone_is_above_its_tangents() -> None:
    """Also for joins in joins, choices in joins and times that vary more than exponential ones."""
    joined = 0
    for seed in range(500, 560):
        problem = problem_of(seed, arrival_per_s=None)
        model, options = problem.model, problem.options
        rng = np.random.default_rng(seed)
        chosen = np.stack([rng.integers(0, options.number) for _ in range(100)])
        judged = model.judge(options, chosen)
        for reference in (int(judged.latency_s.argmin()), 0):
            here = judged.alone_s[reference]
            base, slopes, moves, at = alone_below(model.structure, here, model.curves.variation)
            below = base + judged.alone_s @ slopes - np.abs(judged.alone_s - at) @ moves
            assert (below <= judged.latency_s * (1 + SLACK)).all(), seed
            if not moves.any() and (model.curves.variation <= 1).all() and not model.structure.loops:
                nodes = model.structure.network.nodes
                if not any(node.kind == "choice" for node in nodes):
                    assert below[reference] == pytest.approx(judged.latency_s[reference], rel=2e-3)
        joined += bool(model.structure.joins) and model.spreads
    assert joined > 10
