"""Random networks of all of S-Net's operators with known curves, and the noisy streams by which an advisor learns them.

What is drawn is fixed by the seed. Times are those of a plausible machine (1 to 100 ms of work a run); nothing else is
fitted to anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from execution import Box
from numpy.typing import NDArray

from advisor.domain import networks as kinds
from advisor.domain.allocations import Allocation
from advisor.domain.flows import Flow
from advisor.domain.networks import Network, Node
from advisor.engine import Advisor

Floats = NDArray[np.float64]

NOISE = 0.1  # relative standard deviation of a measurement
RUNS_LEARNED = 400  # of each box
PREDICTOR = 100.0  # mean size of an input


@dataclass(frozen=True, slots=True)
class Curve:
    """T(p) = work_s (serial + (1 - serial) / min(p, reach) + crosstalk (p - 1)) for an input of mean size.

    ``saturating`` curves have a reach or a serial part, ``contended`` ones a small crosstalk that makes them rise late,
    ``rising`` ones a large one: from a few cores on, more of them slow the box down.

    Attributes
    ----------
    variation : float
        Squared coefficient of variation of the inputs' sizes; a run takes as long as its input is large.
    """

    kind: str
    work_s: float
    serial: float
    reach: float
    crosstalk: float
    variation: float

    def seconds(self, cores: float | Floats) -> Floats:
        """Return T(p)."""
        p = np.asarray(cores, np.float64)
        return self.work_s * (self.serial + (1 - self.serial) / np.minimum(p, self.reach) + self.crosstalk * (p - 1))

    def box(self, cores: int, instances: int = 1, contention: float = 0.0) -> Box:
        """Return how a box of this curve runs: sizes and noise are log-normal, and so is their product."""
        variation = (1 + self.variation) * (1 + NOISE**2) - 1
        return Box(float(self.seconds(cores)), "lognormal", variation, cores, instances, contention)


CURVES = ("saturating", "contended", "rising")


def random_curve(rng: np.random.Generator, kind: str) -> Curve:
    """Return a curve of a kind."""
    work_s = float(rng.lognormal(math.log(0.01), 1.0))
    variation = float(rng.choice([0.0, 0.25, 1.0]))
    if kind == "saturating":
        if rng.random() < 0.5:
            return Curve(kind, work_s, rng.uniform(0.0, 0.05), float(rng.integers(2, 17)), 0.0, variation)
        return Curve(kind, work_s, rng.uniform(0.02, 0.5), math.inf, 0.0, variation)
    crosstalk = 10 ** (rng.uniform(-4, -3) if kind == "contended" else rng.uniform(-2.5, -1.3))
    return Curve(kind, work_s, rng.uniform(0.0, 0.2), math.inf, crosstalk, variation)


@dataclass(frozen=True, slots=True)
class Case:
    """A network with all that is true of it."""

    network: Network
    flow: Flow
    curves: Mapping[str, Curve]
    cores: int

    def boxes(self, cores: Mapping[str, int], instances: Mapping[str, int] | None = None) -> dict[str, Box]:
        """Return how the boxes run on so many cores each."""
        return {key: self.curves[key].box(cores[key], (instances or {}).get(key, 1)) for key in self.network.keys}

    def allocated(self, allocation: Allocation) -> dict[str, Box]:
        """Return how the boxes run under an allocation."""
        return self.boxes(allocation.cores, allocation.instances)

    def visits(self) -> dict[str, float]:
        """Return the visits of each box per record that enters, by the structure and the true flow."""
        return dict(zip(self.network.keys, _visits(self.network, self.flow), strict=True))

    def capacity_per_s(self, boxes: Mapping[str, Box]) -> float:
        """Return the rate of the slowest box: what no execution beats."""
        visits = self.visits()
        return min(box.instances / (visits[key] * box.mean_s) for key, box in boxes.items() if visits[key])


def _visits(network: Network, flow: Flow) -> list[float]:
    here = [1.0] * len(network.nodes)
    for index in range(len(network.nodes) - 1, -1, -1):
        node, factors = network.nodes[index], None
        if node.kind == kinds.CHOICE:
            factors = flow.shares[network.choices.index(index)]
        elif node.kind == kinds.REPLICATION:
            depths = flow.depths[network.replications.index(index)]
            assert not isinstance(depths, float | None)
            factors = [float(np.dot(depths, np.arange(len(depths))))]
        elif node.kind == kinds.FEEDBACK:
            returns = flow.returns[network.feedbacks.index(index)]
            assert returns is not None
            factors = [1 / (1 - returns)]
        for child, factor in zip(node.children, factors or [1.0] * len(node.children), strict=True):
            here[child] = here[index] * factor
    return [here[index] for index in network.boxes]


class _Grower:
    """A tree that is drawn from its root; its nodes come out children first."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.nodes, self.boxes = rng, list[Node](), 0

    def grow(self, boxes: int, above: str) -> int:
        """Append a part of so many boxes, return its number; no node stands right below one of its kind."""
        if boxes == 1 and (above in _AROUND or self.rng.random() < 0.7):
            self.boxes += 1
            return self._add(Node(kinds.BOX, f"b{self.boxes}"))
        options = [kind for kind in (_AROUND if boxes == 1 else _WEIGHTS) if kind != above]
        weights = np.array([_WEIGHTS[kind] for kind in options])
        kind = str(self.rng.choice(options, p=weights / weights.sum()))
        ordered = bool(self.rng.random() < 0.5)
        if kind in _AROUND:
            child = self.grow(boxes, kind)
            return self._add(self._around(kind, child, ordered=ordered))
        parts = int(self.rng.integers(2, min(boxes, 5 if kind == kinds.SERIES else 3) + 1))
        cuts = np.sort(self.rng.choice(np.arange(1, boxes), parts - 1, replace=False))
        children = [self.grow(int(size), kind) for size in np.diff([0, *cuts, boxes])]
        if kind == kinds.SERIES and self.rng.random() < 0.3:
            cheap = Node(kinds.FILTER, text="[]") if ordered else Node(kinds.SYNC, patterns=("{a}", "{b}"))
            children.insert(1, self._add(cheap))
        node = Node(kind, children=tuple(children))
        return self._add(replace(node, ordered=ordered) if kind == kinds.CHOICE else node)

    def _around(self, kind: str, child: int, *, ordered: bool) -> Node:
        more = {
            kinds.REPLICATION: {"ordered": ordered, "patterns": ("{done}",)},
            kinds.SPLIT: {"ordered": ordered, "tag": "t"},
            kinds.FEEDBACK: {"patterns": ("{again}",)},
            kinds.PLACEMENT: {"place": 1},
        }
        return Node(kind, children=(child,), **more[kind])

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


_AROUND = (kinds.REPLICATION, kinds.SPLIT, kinds.FEEDBACK, kinds.PLACEMENT)
_WEIGHTS = {kinds.SERIES: 6, kinds.CHOICE: 3, kinds.JOIN: 2, kinds.REPLICATION: 1, kinds.SPLIT: 1, kinds.FEEDBACK: 1,
            kinds.PLACEMENT: 0.3}  # fmt: skip


def random_case(seed: int, *, cores: int | None = None, curves: tuple[str, ...] = CURVES) -> Case:
    """Return a network of 4 to 10 boxes, by default on 3 to 8 times as many cores, with its flow and curves."""
    rng = np.random.default_rng([seed, 4])
    grower = _Grower(rng)
    grower.grow(int(rng.integers(4, 11)), "")
    network = Network(tuple(grower.nodes))
    flow = Flow(
        shares=tuple(rng.dirichlet(np.full(len(network.nodes[i].children), 3.0)).tolist() for i in network.choices),
        depths=tuple(rng.dirichlet([0.5, 3.0, 2.0, 1.0]).tolist() for _ in network.replications),
        fan_outs=tuple(np.sort(rng.dirichlet(np.full(8, 3.0)))[::-1].tolist() for _ in network.splits),
        returns=tuple(float(rng.uniform(0.05, 0.5)) for _ in network.feedbacks),
    )
    drawn = {key: random_curve(rng, str(rng.choice(curves))) for key in network.keys}
    return Case(network, flow, drawn, cores or len(network.keys) * int(rng.integers(3, 9)))


def counts_up_to(cores: int) -> list[int]:
    """Return core counts to measure on: 1, 2, 3, 4, 6, 8, 12, … up to all cores."""
    return sorted({count for k in range(12) for count in (2**k, 3 * 2**k) if count <= cores} | {cores})


def teach(advisor: Advisor, case: Case, seed: int, *, runs: int = RUNS_LEARNED, cores_max: int | None = None) -> None:
    """Stream noisy runs of all boxes, in random order, on counts up to `cores_max`: each run is one row."""
    rng = np.random.default_rng([seed, 5])
    counts = np.array(counts_up_to(cores_max or case.cores))
    keys = list(case.network.keys)
    order = rng.permutation(np.repeat(np.arange(len(keys)), runs))
    cores = rng.choice(counts, len(order)).astype(np.float64)
    variation = np.array([case.curves[key].variation for key in keys])[order]
    size = _unit_lognormal(rng, variation)
    seconds = np.empty(len(order))
    for row, key in enumerate(keys):
        seconds[order == row] = case.curves[key].seconds(cores[order == row])
    elapsed = seconds * size * _unit_lognormal(rng, np.full(len(order), NOISE**2))
    advisor.observe_columns(components=keys, index=order, predictor=PREDICTOR * size, cores=cores, elapsed_s=elapsed)


def _unit_lognormal(rng: np.random.Generator, variation: Floats) -> Floats:
    log_variance = np.log1p(variation)
    return np.exp(rng.normal(-log_variance / 2, np.sqrt(log_variance)))


def sketch(network: Network) -> str:
    """Return the network in S-Net's operators, for tables."""
    said: list[str] = []
    for node in network.nodes:
        parts = [said[child] for child in node.children]
        twice = node.ordered
        said.append({
            kinds.BOX: node.name, kinds.SYNC: "[||]", kinds.FILTER: "[]",
            kinds.SERIES: f"({' .. '.join(parts)})", kinds.CHOICE: f"({(' || ' if twice else ' | ').join(parts)})",
            kinds.JOIN: f"({' & '.join(parts)})", kinds.REPLICATION: f"{''.join(parts)}{'**' if twice else '*'}",
            kinds.SPLIT: f"{''.join(parts)}{'!!' if twice else '!'}", kinds.FEEDBACK: f"{''.join(parts)}\\",
            kinds.PLACEMENT: f"{''.join(parts)}@",
        }[node.kind])  # fmt: skip
    return said[-1]
