"""From counts of one network to its flow: what structure says of the parts that no count is of.

Each node has a number of records that come to it, per record that enters. Nodes that the same records come to are one
unknown: a series and its first part, a split, a placement or a join and what is inside. An unknown is known where a box in it
has a count of its own. The others follow, one after the other, from lines of which all but one unknown are known:

- exact lines: a choice has what its branches have together; the keys of a box whose name recurs have its runs together;
- then assumed lines, in text order: what leaves a part of a series comes to the next one, so that no record is made or lost.

What no line tells stays unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise

from advisor.domain import elementary
from advisor.domain.flows import Flow
from advisor.domain.networks import JOIN, PLACEMENT, SERIES, SPLIT, Network
from advisor.models.flow import FlowCounts

DEPTH_MOST = 1_023.0  # the greatest mean depth that a request takes
RETURN_MOST = 1.0 - 1e-9  # a probability below 1

Line = tuple[Mapping[int, float], float]  # unknown -> factor, and what the sum is


class FlowStructure:
    """What a network's structure says of its flow, made once: unknowns and lines. Cost O(nodes)."""

    def __init__(self, network: Network) -> None:
        self.network = network
        keys = dict(zip(network.boxes, network.keys, strict=True))
        self.unknown = self._unknowns()
        self.choices = [
            (self.unknown[c], [self.unknown[b] for b in network.nodes[c].children]) for c in network.choices
        ]
        self.pairs = self._pairs()
        self.unknown_of_key = {key: self.unknown[node] for node, key in keys.items()}
        self.splits = self._keys_of_splits(keys)

    def _unknowns(self) -> list[int]:
        """Return for each node its unknown, named by a node of it."""
        network = self.network
        found = list(range(len(network.nodes)))
        for index in range(len(found) - 1, -1, -1):  # parents stand after their children
            node = network.nodes[index]
            same: Sequence[int] = ()
            if node.kind == SERIES:
                same = self._running(node.children)[:1]
            elif node.kind in (SPLIT, PLACEMENT, JOIN):
                same = node.children
            for child in same:
                found[child] = found[index]
        return found

    def _running(self, children: Sequence[int]) -> Sequence[int]:
        """Return the parts of a series without boxes that run once."""
        return [child for child in children if not self.network.nodes[child].once]

    def _pairs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for node in self.network.nodes:
            if node.kind == SERIES:
                parts = [self.unknown[child] for child in self._running(node.children)]
                found += list(pairwise(parts))
        return found

    def _keys_of_splits(self, keys: Mapping[int, str]) -> list[list[str]]:
        """Return for each split the keys whose innermost split it is."""
        network = self.network
        inner: list[int] = [-1] * len(network.nodes)
        for index in range(len(network.nodes) - 1, -1, -1):
            node = network.nodes[index]
            for child in node.children:
                inner[child] = index if node.kind == SPLIT else inner[index]
        return [[key for node, key in keys.items() if inner[node] == split] for split in network.splits]


def flow_of(structure: FlowStructure, counts: FlowCounts) -> Flow:
    """Return what counts and structure say of the flow of a network. Cost O(nodes)."""
    network, nothing = structure.network, (None,)
    if not counts.n["entered"]:
        return Flow(
            nothing * len(network.choices), nothing * len(network.replications), nothing * len(network.splits),
            nothing * len(network.feedbacks), notes=("no record was seen to enter",),
        )  # fmt: skip
    notes: list[str] = []
    own, shared = _observed(network, counts, notes)
    values = _values(structure, own, shared)
    once = {network.keys[row] for row in network.once}
    visits = {
        key: value
        for key, unknown in structure.unknown_of_key.items()
        if key not in once and (value := own.get(key, values.get(unknown, -1.0))) >= 0.0
    }
    shares = _shares(structure, values)
    again = [_passes(structure, values, node) for node in (*network.replications, *network.feedbacks)]
    stars = len(network.replications)
    depths = tuple(each and min(each, DEPTH_MOST) for each in again[:stars])
    returns = tuple(each and min(max(1.0 - 1.0 / each, 0.0), RETURN_MOST) for each in again[stars:])
    fan_outs = tuple(map(counts.fan_out, structure.splits))
    for text, parts in (
        ("shares of choice", shares),
        ("depths of replication", depths),
        ("fan-out of split", fan_outs),
    ):
        unknown = [str(i) for i, part in enumerate(parts) if part is None]
        if unknown:
            notes.append(f"{text} {', '.join(unknown[:8])}: not in the rows")
    return Flow(shares, depths, fan_outs, returns, visits, counts.n["records"], tuple(notes))


def _observed(
    network: Network, counts: FlowCounts, notes: list[str]
) -> tuple[dict[str, float], list[tuple[list[str], float]]]:
    """Return the visits of keys with a count of their own, and (keys, visits together) of the others."""
    entering, runs = counts.n["entered"], counts.runs
    own: dict[str, float] = {}
    together: dict[str, list[str]] = {}
    for row, (key, name) in enumerate(zip(network.keys, network.components, strict=True)):
        if row in network.once:
            continue
        if key in runs or key == name:
            if key in runs or not counts.n["keyless"]:
                own[key] = runs.get(key, 0) / entering
        else:
            together.setdefault(name, []).append(key)
    shared = [(keys, runs.get(name, 0) / entering) for name, keys in together.items()]
    if shared:
        names = ", ".join(list(together)[:4])
        notes.append(f"uses of {names} share a name: distinguished by structure only, unless rows name them name#k")
    return own, shared


def _values(
    structure: FlowStructure, own: Mapping[str, float], shared: Sequence[tuple[list[str], float]]
) -> dict[int, float]:
    """Return the records that come to each unknown, as far as they are known."""
    of: dict[int, list[float]] = {}
    for key, value in own.items():
        of.setdefault(structure.unknown_of_key[key], []).append(value)
    values = {unknown: elementary.added(reported) / len(reported) for unknown, reported in of.items()}
    values.setdefault(structure.unknown[-1], 1.0)
    lines: list[Line] = [({node: -1.0, **dict.fromkeys(branches, 1.0)}, 0.0) for node, branches in structure.choices]
    for keys, visits in shared:
        lines.append((Counter(structure.unknown_of_key[key] for key in keys), visits))
    lines += [({left: -1.0, right: 1.0}, 0.0) for left, right in structure.pairs if left != right]
    return _followed(lines, values)


def _followed(lines: Sequence[Line], values: dict[int, float]) -> dict[int, float]:
    """Add to `values` what a line tells of which all other unknowns are known, first lines first. Cost O(n log n)."""
    having: dict[int, list[int]] = {}
    open_: list[set[int]] = []
    for number, (factors, _) in enumerate(lines):
        open_.append({unknown for unknown in factors if unknown not in values})
        for unknown in open_[number]:
            having.setdefault(unknown, []).append(number)
    ready = [number for number, unknowns in enumerate(open_) if len(unknowns) == 1]  # ascending, so a heap
    while ready:
        number = heappop(ready)
        if not open_[number]:
            continue  # another line reported it
        (unknown,), (factors, total) = open_[number], lines[number]
        rest = elementary.added(factor * values[other] for other, factor in factors.items() if other != unknown)
        values[unknown] = max((total - rest) / factors[unknown], 0.0)
        for other in having[unknown]:
            open_[other].discard(unknown)
            if len(open_[other]) == 1:
                heappush(ready, other)
    return values


def _passes(structure: FlowStructure, values: Mapping[int, float], node: int) -> float | None:
    """Return how often a record that comes to a replication or feedback passes what it repeats; None where that is open."""
    inside, coming = (values.get(structure.unknown[at]) for at in (structure.network.nodes[node].children[0], node))
    return inside / coming if inside is not None and coming else None


def _shares(structure: FlowStructure, values: Mapping[int, float]) -> tuple[list[float] | None, ...]:
    """Return the shares of each choice."""
    shares: list[list[float] | None] = []
    for _, branches in structure.choices:
        reported = [values.get(branch, -1.0) for branch in branches]
        total = sum(reported)
        known = min(reported) >= 0.0 and total > 0.0
        shares.append([value / total for value in reported] if known else None)
    return tuple(shares)
