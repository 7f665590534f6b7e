"""Allocations of networks of every operator, with constraints and curves that rise again, against all allocations.

The oracle walks a nested tree of its own, enumerates shapes one by one and packs nodes by trying every node for every
instance; it shares no code with the planner. Times are certain here, so that joins are plain maxima.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from amdahl import amdahl_curves

from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import Network, network_from_nodes
from advisor.errors import ImpossibleTarget, InvalidValue, TargetNotReached
from advisor.planning import Request, plan

TIE = 1e-9


@dataclass
class Part:
    kind: str
    children: list[Part] = field(default_factory=list)
    numbers: Any = None  # shares, depths, replicas' shares, return probability
    name: str = ""


@dataclass
class Case:
    tree: Part
    names: list[str]
    seconds: np.ndarray  # (n, P) at 1 .. P
    curves: Any
    request: dict[str, Any]
    cores: int

    def network(self) -> Network:
        nodes: list[dict[str, Any]] = []

        def add(part: Part) -> int:
            children = [add(child) for child in part.children]
            extra: dict[str, Any] = {"children": children} if children else {}
            if part.kind == "box":
                extra["name"] = part.name
            if part.kind == "split":
                extra["tag"] = "t"
            if part.kind == "placement":
                extra["place"] = 1
            nodes.append({"kind": part.kind, **extra})
            return len(nodes) - 1

        add(self.tree)
        return network_from_nodes(nodes)

    def numbers(self) -> dict[str, Any]:
        """The routing in text order, outer before inner."""
        found: dict[str, list[Any]] = {"choice": [], "replication": [], "split": [], "feedback": []}

        def walk(part: Part) -> None:
            if part.kind in found:
                found[part.kind].append(part.numbers)
            for child in part.children:
                walk(child)

        walk(self.tree)
        names = {"choice": "shares", "replication": "depths", "split": "fan_outs", "feedback": "returns"}
        return {names[kind]: values for kind, values in found.items() if values}


def draw_tree(rng: np.random.Generator, names: list[str], *, certain: bool = False) -> Part:
    """Below a join every record goes the same way (`certain`): then the last of its parts is a plain maximum."""
    if len(names) == 1:
        part = Part("box", name=names[0])
        return wrap(rng, part, certain) if rng.random() < 0.45 else part
    kind = str(rng.choice(["series", "choice", "join"], p=[0.45, 0.3, 0.25]))
    kind = "join" if certain and kind == "choice" else kind
    count = int(rng.integers(2, min(len(names), 3) + 1))
    cuts = sorted(rng.choice(np.arange(1, len(names)), count - 1, replace=False).tolist())
    children = [
        draw_tree(rng, names[a:b], certain=certain or kind == "join")
        for a, b in itertools.pairwise([0, *cuts, len(names)])
    ]
    if kind == "series" and rng.random() < 0.3:
        children.insert(int(rng.integers(1, len(children) + 1)), Part("filter"))
    part = Part(kind, children)
    if kind == "choice":
        part.numbers = rng.choice([0.0, 1.0, 1.0, 2.0, 3.0], len(children)).tolist()
        if not sum(part.numbers):
            part.numbers[0] = 1.0
    return wrap(rng, part, certain) if rng.random() < 0.25 else part


def wrap(rng: np.random.Generator, part: Part, certain: bool) -> Part:
    kind = str(rng.choice(["replication", "split", "feedback", "placement"]))
    numbers: Any = None
    if kind == "replication":
        numbers = (
            [2, [0.0, 0.0, 0.0, 1.0], 1][int(rng.integers(3))]
            if certain
            else [2.5, [0.0, 1.0, 1.0], 1][int(rng.integers(3))]
        )
    elif kind == "split":
        numbers = [3, [5.0, 1.0, 1.0], [1.0, 1.0]][int(rng.integers(3))]
    elif kind == "feedback":
        numbers = 0.0 if certain else float(rng.choice([0.0, 0.25, 0.5]))
    return Part(kind, [part], numbers)


def random_operators(rng: np.random.Generator, n: int) -> tuple[Network, dict[str, Any]]:
    """Return a network of n boxes, the operators that matter to groups drawn, and the shares and returns of its records."""
    nodes: list[dict[str, Any]] = [{"kind": "box", "name": f"c{row}"} for row in range(n)]
    roots = list(range(n))
    while len(roots) > 1:
        parts = [roots.pop(0) for _ in range(min(len(roots), int(rng.integers(2, 4))))]
        nodes.append({"kind": str(rng.choice(["series", "series", "choice", "join"])), "children": parts})
        if rng.random() < 0.2:
            nodes.append({"kind": "feedback", "children": [len(nodes) - 1]})
        roots.append(len(nodes) - 1)
    network = network_from_nodes(nodes)
    shares = [rng.dirichlet(np.ones(len(network.nodes[index].children))).tolist() for index in network.choices]
    return network, {"shares": shares, "returns": [0.3 for _ in network.feedbacks]}


def rising_seconds(rng: np.random.Generator, serial: np.ndarray, work: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the seconds of components on each count: some rise again where cores are many."""
    seconds = work[:, None] * (serial[:, None] + (1 - serial[:, None]) / counts)
    return seconds + (rng.random((len(work), 1)) < 0.3) * 0.05 * work[:, None] * counts


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    names = list("abcd"[:n])
    instances = int(rng.choice([1, 1, 3]))
    cores = int(rng.integers(n, 8 if instances > 1 else 10))
    form = rng.random()
    if form < 0.25:
        serial, parallel = rng.integers(0, 4, n).astype(float), rng.integers(1, 9, n).astype(float)
        curves: Any = amdahl_curves(serial, parallel)
        seconds = serial[:, None] + parallel[:, None] / np.arange(1, cores + 1)
    elif form < 0.6:  # whole numbers up and down: ties abound, nothing is convex
        seconds = rng.integers(1, 9, (n, cores)).astype(float)
        curves = TabulatedCurves.from_arrays(np.arange(1, cores + 1), seconds)
    else:
        p = np.arange(1, cores + 1)
        seconds = rng.lognormal(0, 1, (n, 1)) * (rng.random((n, 1)) + 1 / p) + rng.random((n, 1)) * 0.2 * p
        seconds *= rng.lognormal(0, 0.1, seconds.shape)
        curves = TabulatedCurves.from_arrays(p, seconds, peak_bytes=rng.integers(1, 5, n))
    request: dict[str, Any] = {"instances_max": instances}
    for name in ("minimum", "maximum"):
        if rng.random() < 0.25:
            request[name] = {str(rng.choice(names)): int(rng.integers(1, 4))}
    if rng.random() < 0.2:
        request["pinned"] = {str(rng.choice(names)): int(rng.integers(1, 3))}
    rule = rng.random()
    if rule < 0.1:
        request["allowed"] = {"power_of": 2}
    elif rule < 0.2:
        request["allowed"] = {str(rng.choice(names)): [1, 3, 4]}
    elif rule < 0.25:
        request["allowed"] = {str(rng.choice(names)): {"multiple_of": 2}}
    if rng.random() < 0.25:
        request["nodes"] = int(rng.integers(2, 5))
    if rng.random() < 0.2 and isinstance(curves, TabulatedCurves):
        request["memory_bytes"] = float(rng.integers(4, 16))
    objective = str(rng.choice(["throughput", "latency", "fewest_cores"]))
    request["objective"] = objective
    return Case(draw_tree(rng, names), names, seconds, curves, request, cores)


def entries(part: Part, here: float, found: dict[str, float]) -> None:
    if part.kind == "box":
        found[part.name] = here
    for order, child in enumerate(part.children):
        if part.kind == "choice":
            times = part.numbers[order] / sum(part.numbers)
        elif part.kind == "replication":
            given = part.numbers
            shares = given if isinstance(given, list) else None
            times = sum(k * s for k, s in enumerate(shares)) / sum(shares) if shares else given
        elif part.kind == "feedback":
            times = 1 / (1 - part.numbers)
        else:
            times = 1.0
        entries(child, here * times, found)


def latency(part: Part, seconds: dict[str, float]) -> float:
    if part.kind == "box":
        return seconds[part.name]
    below = [latency(child, seconds) for child in part.children]
    if part.kind == "choice":
        return sum(b * s for b, s in zip(below, part.numbers, strict=True)) / sum(part.numbers)
    if part.kind == "join":
        return max(below)
    if part.kind == "replication":
        given = part.numbers
        return below[0] * (sum(k * s for k, s in enumerate(given)) / sum(given) if isinstance(given, list) else given)
    if part.kind == "feedback":
        return below[0] / (1 - part.numbers)
    return sum(below)


def replicas(part: Part, around: list[float], found: dict[str, list[float]]) -> None:
    if part.kind == "box":
        found[part.name] = around
    if part.kind == "split":
        given = part.numbers if isinstance(part.numbers, list) else [1.0] * part.numbers
        shares = [one / sum(given) for one in given]
        around = [a * b for a in around for b in shares]
    for child in part.children:
        replicas(child, around, found)


def heaviest(shares: list[float], instances: int) -> float:
    """Longest first: the rule that the planner documents for replicas on instances."""
    loads = [0.0] * instances
    for share in sorted(shares, reverse=True):
        loads[loads.index(min(loads))] += share
    return max(loads)


def fits(items: list[tuple[int, float]], sizes: list[int], memory: float) -> bool:
    """Whether instances (cores, bytes) fit the nodes, every way tried."""
    if not items:
        return True
    free = [list(pair) for pair in zip(sizes, itertools.repeat(memory))]

    def search(index: int) -> bool:
        if index == len(items):
            return True
        p, size = items[index]
        for node in free:
            if node[0] >= p and node[1] >= size - 1e-9:
                node[0] -= p
                node[1] -= size
                if search(index + 1):
                    return True
                node[0] += p
                node[1] += size
        return False

    return search(0)


def allocations(case: Case, left_out: list[list[tuple[int, int]]]) -> Iterator[list[tuple[int, int]]]:
    """Yield all legal allocations; add to `left_out` those that fit the nodes in sum, but not one by one."""
    request, cores = case.request, case.cores
    shapes: list[list[tuple[int, int]]] = []
    for name in case.names:
        counts = range(
            request.get("minimum", {}).get(name, 1), min(cores, request.get("maximum", {}).get(name, cores)) + 1
        )
        rule = request.get("allowed", {})
        rule = rule if "power_of" in rule else rule.get(name)
        if rule == {"power_of": 2}:
            counts = [p for p in counts if p in (1, 2, 4, 8)]
        elif isinstance(rule, list):
            counts = [p for p in counts if p in rule]
        elif isinstance(rule, dict):
            counts = [p for p in counts if p % rule["multiple_of"] == 0]
        if name in request.get("pinned", {}):
            counts = [p for p in counts if p == request["pinned"][name]]
        counts = [p for p in counts if p <= request.get("nodes", cores)]
        shapes.append([(p, n) for p in counts for n in range(1, request["instances_max"] + 1) if n * p <= cores])
    size = request.get("nodes", cores)
    sizes = [size] * (cores // size) + ([cores % size] if cores % size else [])
    peaks = case.curves.peak_bytes if isinstance(case.curves, TabulatedCurves) else np.zeros(len(case.names))
    memory = request.get("memory_bytes", float("inf"))
    for some in itertools.product(*shapes):
        if sum(p * n for p, n in some) > cores:
            continue
        items = [(p, float(peaks[row])) for row, (p, n) in enumerate(some) for _ in range(n)]
        if ("nodes" in request or "memory_bytes" in request) and not fits(items, sizes, memory):
            total, largest = sum(size for _, size in items), max(size for _, size in items)
            if len(sizes) > 1 and largest <= memory + 1e-9 and total <= memory * len(sizes) + 1e-9:
                left_out.append(list(some))
            continue
        yield list(some)


def check(seed: int) -> None:
    case = draw(seed)
    network, visits, around = case.network(), dict[str, float](), dict[str, list[float]]()
    entries(case.tree, 1.0, visits)
    replicas(case.tree, [1.0], around)
    judged: list[tuple[float, float, int]] = []
    left_out: list[list[tuple[int, int]]] = []
    for some in allocations(case, left_out):
        times = {
            name: float(case.seconds[row, p - 1])
            for row, (name, (p, _)) in enumerate(zip(case.names, some, strict=True))
        }
        load = [
            visits[name] * times[name] * (heaviest(around[name], n) if len(around[name]) > 1 else 1 / n)
            for name, (_, n) in zip(case.names, some, strict=True)
        ]
        judged.append((max(load), latency(case.tree, times), sum(p * n for p, n in some)))
    # That instances do not fit several nodes is not proved (`docs/lifted.md`).
    refusals = (ImpossibleTarget, TargetNotReached) if left_out else (ImpossibleTarget,)
    none = TargetNotReached if case.request.get("nodes", case.cores) < case.cores else ImpossibleTarget
    objective = case.request.pop("objective")
    request: dict[str, Any] = {**case.request, **case.numbers(), "objective": objective, "turns": "never"}
    if not judged or not any(visits.values()):
        if objective == "fewest_cores":
            request["target"] = {"throughput_per_s": 1.0}
        with pytest.raises((InvalidValue, ImpossibleTarget, none)):
            plan(network, case.curves, Request(cores=case.cores, **request))
        return
    column = 1 if objective == "latency" or seed % 2 else 0
    if objective != "fewest_cores":
        column = int(objective == "latency")
    figures = sorted(one[column] for one in judged)
    limit = figures[0]
    if objective == "fewest_cores":
        limit = figures[len(figures) // 3] * (1.0 if seed % 3 else 1.01)
        name = "latency_s" if column else "throughput_per_s"
        request["target"] = {name: limit if column else 1 / limit}
        impossible = {name: figures[0] * 0.99 if column else 1 / (figures[0] * 0.99)}
        with pytest.raises(refusals) as raised:
            plan(network, case.curves, Request(cores=case.cores, **{**request, "target": impossible}))
        # The bound is no worse than the best there is, and what was asked is beyond it.
        sign = 1 if column else -1
        assert raised.value.field in (case.names if isinstance(raised.value, ImpossibleTarget) else ["target"])
        best = figures[0] if column else 1 / figures[0]
        assert sign * impossible[name] < sign * raised.value.bound <= sign * best * (1 + sign * TIE)
    answer = plan(network, case.curves, Request(cores=case.cores, **request))
    enough = [one for one in judged if one[column] <= limit * (1 + TIE)]
    used = sum(answer.cores[name] * answer.instances[name] for name in case.names)
    assert used == min(one[2] for one in enough), (seed, case.request)
    assert answer.spare == case.cores - used
    # The figures told are those of the allocation told, and that allocation is one of the legal ones.
    period, least = 1 / answer.throughput_per_s, answer.latency_s
    assert any(
        abs(one[0] - period) <= TIE * period and abs(one[1] - least) <= TIE * least and one[2] == used for one in judged
    )
    if column == 0:
        assert period <= limit * (1 + TIE), (seed, case.request)
        # Ties: fewest cores, then lower latency.
        ties = [one for one in enough if one[2] == used]
        if objective == "throughput":
            assert least <= min(one[1] for one in ties) * (1 + TIE), (seed, case.request)
    else:
        assert least <= limit * (1 + TIE), (seed, case.request)
    if answer.gap is not None:
        assert answer.gap == pytest.approx(0.0, abs=1e-6)
