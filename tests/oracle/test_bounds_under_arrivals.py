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
from advisor.domain.networks import Network
from advisor.errors import ImpossibleTarget
from advisor.planning import Request, plan
from advisor.planning.asked.visits import visits_of
from advisor.planning.solving import relaxing
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


@pytest.mark.parametrize("block", range(8))
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
        for reference in {0, len(order) // 2, len(order) - 1} if len(order) else ():
            here = near(problem, chosen[order[reference]])
            below = here.base + here.shares()[rows, chosen[fits]].sum(axis=1)
            assert (below <= latency[fits] * (1 + relaxing.SLACK)).all(), (seed, reference)
            tight.append(float(below[fits == order[reference]][0] / latency[order[reference]]))
    assert np.quantile(tight, 0.75) > 0.95  # nothing is lost where nothing loops, joins in joins or keeps order
    assert min(tight) > -10


@pytest.mark.parametrize("block", range(4))
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
