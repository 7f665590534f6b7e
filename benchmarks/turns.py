"""Components that take turns on shared cores, by SimPy against what plans promise, and against cores of one's own.

    python benchmarks/turns.py [--networks 50] [--records 20000] [--value-only]

Value: random pipelines of curves that saturate, on n .. 4 n cores; throughput with `turns` better over that with cores of one's
own, both by the plan, whose throughputs the simulator confirms below. Prediction: random networks (series, choices, joins,
loops), fewer cores than components or few more; each group is one server that takes visits first come, first served.
Throughput by 64 records that are always inside; mean latency by Poisson arrivals at 30, 60 and 85 % of it. Times vary as
gamma distributions. Every figure is from this run; half widths are those of batch means.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.domain.networks import CHOICE, FEEDBACK, JOIN, SERIES, Network, network_from_nodes
from advisor.errors import CallerError
from advisor.network import parse
from advisor.planning import Request, plan

COUNTS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
INSIDE = 64  # records that are always inside where the throughput is measured
LOADS = (0.3, 0.6, 0.85)
WARM = 0.1  # of the records, not counted
BATCHES = 20  # of a mean's half width


def curves(rng: np.random.Generator, n: int, variation: float) -> TabulatedCurves:
    serial = rng.random((n, 1)) * 0.3
    return TabulatedCurves.from_arrays(
        COUNTS, rng.lognormal(0, 1, (n, 1)) * (serial + (1 - serial) / COUNTS), variation=variation
    )


def drawn(rng: np.random.Generator, n: int) -> tuple[Network, dict[str, Any]]:
    """A random network of n boxes and its routing."""
    nodes: list[dict[str, Any]] = [{"kind": "box", "name": f"c{row}"} for row in range(n)]
    roots, routing = list(range(n)), {"shares": [], "returns": []}
    while len(roots) > 1:
        kind = str(rng.choice([SERIES, SERIES, CHOICE, JOIN]))
        parts = [roots.pop(0) for _ in range(min(len(roots), int(rng.integers(2, 4))))]
        nodes.append({"kind": kind, "children": parts})
        if rng.random() < 0.15:
            nodes.append({"kind": FEEDBACK, "children": [len(nodes) - 1]})
        roots.append(len(nodes) - 1)
    network = network_from_nodes(nodes)
    for index in network.choices:
        routing["shares"].append(rng.dirichlet(np.full(len(network.nodes[index].children), 3.0)).tolist())
    routing["returns"] = [float(rng.uniform(0.1, 0.4)) for _ in network.feedbacks]
    return network, {key: value for key, value in routing.items() if value}


class Simulated:
    """A network whose boxes take turns as an allocation says."""

    def __init__(
        self,
        network: Network,
        table: TabulatedCurves,
        found: Allocation,
        routing: dict[str, Any],
        variation: float,
        seed: int,
    ) -> None:
        self.env = simpy.Environment()
        self.network, self.routing, self.rng = network, routing, np.random.default_rng(seed)
        groups = found.groups or [(n, (key,)) for key, n in found.cores.items()]
        self.server = {key: simpy.Resource(self.env) for _, keys in groups for key in keys[:1]}
        for _, keys in groups:
            self.server |= dict.fromkeys(keys, self.server[keys[0]])
        self.seconds = {
            key: float(table.at(np.array([found.cores[key]]))[row, 0]) for row, key in enumerate(network.keys)
        }
        self.key = {index: network.keys[row] for row, index in enumerate(network.boxes)}
        self.variation = variation
        self.share = dict(zip(network.choices, routing.get("shares", ()), strict=True))
        self.back = dict(zip(network.feedbacks, routing.get("returns", ()), strict=True))
        self.stays: list[float] = []
        self.left: list[float] = []

    def visit(self, index: int) -> Generator[Any, Any, None]:
        node = self.network.nodes[index]
        if index in self.key:
            key = self.key[index]
            with self.server[key].request() as turn:
                yield turn
                shape = 1 / self.variation
                yield self.env.timeout(self.seconds[key] * self.rng.gamma(shape, 1 / shape))
        elif node.kind == CHOICE:
            yield from self.visit(node.children[int(self.rng.choice(len(node.children), p=self.share[index]))])
        elif node.kind == JOIN:
            yield simpy.AllOf(self.env, [self.env.process(self.visit(child)) for child in node.children])
        else:
            while True:
                for child in node.children:
                    yield from self.visit(child)
                if node.kind != FEEDBACK or self.rng.random() >= self.back[index]:
                    return

    def record(self) -> Generator[Any, Any, None]:
        came = self.env.now
        yield from self.visit(len(self.network.nodes) - 1)
        self.stays.append(self.env.now - came)
        self.left.append(self.env.now)

    def arrivals(self, rate: float, records: int) -> tuple[float, float]:
        """Return the mean latency of records that arrive at a rate, and its half width."""

        def source() -> Generator[Any, Any, None]:
            for _ in range(records):
                yield self.env.timeout(self.rng.exponential(1 / rate))
                self.env.process(self.record())

        self.env.process(source())
        self.env.run()
        kept = np.array(self.stays[int(WARM * records) :])
        means = [float(batch.mean()) for batch in np.array_split(kept, BATCHES)]
        return float(kept.mean()), 1.96 * statistics.stdev(means) / BATCHES**0.5

    def throughput(self, records: int) -> float:
        """Return the records a second of INSIDE that are always inside."""

        def always() -> Generator[Any, Any, None]:
            while len(self.left) < records:
                yield from self.record()

        for _ in range(INSIDE):
            self.env.process(always())
        self.env.run()
        warm = int(WARM * records)
        return (records - warm) / (self.left[records - 1] - self.left[warm])


def value(networks: int) -> None:
    print(
        "throughput with turns where they are better, over cores of one's own (median, best; how often better by 1 %)"
    )
    rng = np.random.default_rng(5)
    cases = [(int(rng.integers(4, 11)), seed) for seed in range(networks)]
    for factor in (1.0, 1.5, 2.0, 3.0, 4.0):
        ratios = []
        for n, seed in cases:
            table, network = (
                curves(np.random.default_rng(seed), n, 0.0),
                parse(" .. ".join(f"c{row}" for row in range(n))),
            )
            own, either = (
                plan(network, table, Request(cores=round(factor * n), turns=turns)) for turns in ("scarce", "better")
            )
            ratios.append(either.throughput_per_s / own.throughput_per_s)
        better = sum(ratio > 1.01 for ratio in ratios)
        text = f"{statistics.median(ratios):5.2f} x  {max(ratios):5.2f} x  {better} of {networks}"
        print(f"  {factor:3.1f} cores a component: {text}")
    drops = []
    for n, seed in cases:
        table, network = curves(np.random.default_rng(seed), n, 0.0), parse(" .. ".join(f"c{row}" for row in range(n)))
        few, own = (plan(network, table, Request(cores=cores)) for cores in (n - 1, n))
        drops.append(own.throughput_per_s / few.throughput_per_s)
    print(f"  one core each on n cores over turns on n - 1: {statistics.median(drops):.2f} x, least {min(drops):.2f} x")


def prediction(networks: int, records: int) -> None:
    errors: dict[str, list[float]] = {}
    widths: list[float] = []
    for seed in range(networks):
        rng = np.random.default_rng(1000 + seed)
        n, variation = int(rng.integers(3, 9)), float(rng.choice([0.1, 0.5, 1.0]))
        network, routing = drawn(rng, n)
        table, cores = curves(rng, n, variation), int(rng.integers(1, n + 2))
        best = plan(network, table, Request(cores=cores, turns="better", **routing))
        if not best.groups:
            continue
        got = Simulated(network, table, best, routing, variation, seed).throughput(records)
        joined = any(node.kind == JOIN for node in network.nodes)
        errors.setdefault("throughput", []).append(best.throughput_per_s / got - 1)
        for load in LOADS:
            rate = load * best.throughput_per_s
            try:
                request = Request(cores=cores, arrival_per_s=rate, turns="better", **routing)
                found = plan(network, table, request)
            except CallerError as error:
                print(f"  seed {seed}: {error}")
                continue
            if not found.groups or found.latency_queued_s is None:
                continue
            mean, width = Simulated(network, table, found, routing, variation, seed).arrivals(rate, records)
            widths.append(width / mean)
            for name in ("latency", *(() if joined else ("without joins, latency",))):
                errors.setdefault(f"{name} at {100 * load:.0f} %", []).append(found.latency_queued_s / mean - 1)
    print(f"prediction over {networks} networks; half widths {100 * statistics.median(widths):.1f} % at the median")
    for name, some in errors.items():
        bound = 0.05 if name == "throughput" else 0.2 if "85" in name else 0.1
        within = sum(abs(error) <= bound for error in some)
        sizes = sorted(abs(error) for error in some)
        text = f"error {100 * statistics.median(sizes):.1f} % at the median, {100 * min(some):+.1f} to {100 * max(some):+.1f} %"
        print(f"  {name:<31} within {100 * bound:.0f} %: {within} of {len(some)}; {text}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--networks", type=int, default=50)
    arguments.add_argument("--records", type=int, default=20_000)
    arguments.add_argument("--value-only", action="store_true")
    given = arguments.parse_args()
    value(given.networks)
    if not given.value_only:
        prediction(given.networks, given.records)


if __name__ == "__main__":
    main()
