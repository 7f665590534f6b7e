"""From counts of one network to its flow: what structure says, and a small non-negative estimation for the rest.

Each node has a number of records that come to it, per record that enters. Nodes that the same records come to are one
unknown: a series and its first part, a split, a placement or a join and what is inside. An unknown is known where a box in it
has a count of its own. The others follow from

- exact lines: a choice has what its branches have together; the keys of a box whose name recurs have its runs together;
- assumed lines, which weigh less: what leaves a part of a series comes to the next one, so that no record is made or lost.

They fall into groups that share lines, each solved by non-negative least squares; what the lines leave open stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from advisor.domain import elementary
from advisor.domain.flows import Flow
from advisor.domain.networks import (
    BOX,
    CHOICE,
    JOIN,
    PLACEMENT,
    SERIES,
    SPLIT,
    Network,
)
from advisor.models.flow import COUNTERS_MAX, FlowCounts
from advisor.models.nonnegative import solve_where_known

EXACT_WEIGHT = 1e4  # of an exact line against an assumed one: shares are then exact to 1e-8
UNKNOWNS_MAX = 128  # of a group that is solved together, in a few milliseconds; a larger one stays unknown
# ARRIVALS_MOST: arrivals of an entering record beyond which its passes are those of several: no distribution of one
ARRIVALS_MOST = 1.02
RECORDS_LEAST = 1  # records with passes that a distribution needs
# of which the mean may be off by so much from that of runs before it is held to be of records whose rows are missing
RECORDS_SURE, MEAN_OFF = 64, 0.3

Line = tuple[dict[int, float], float, float]  # unknown -> factor, what the sum is, weight


def places_of(network: Network) -> list[list[str]]:
    """Return the keys whose runs are the passes of each replication, then of each feedback; empty where none are. Cost O(n).

    Every pass runs exactly one of them: of a series, one of its parts does; of a choice, every branch must have one.
    """
    keys = _keys_of_nodes(network)
    alone = {key for key, name in zip(network.keys, network.components, strict=True) if key == name}
    cuts = _cuts(network, keys, alone)
    bodies = [network.nodes[index].children[0] for index in (*network.replications, *network.feedbacks)]
    return [list(cuts[body] or ()) for body in bodies]


def _keys_of_nodes(network: Network) -> dict[int, str]:
    return dict(zip(network.boxes, network.keys, strict=True))


def _cuts(network: Network, keys: Mapping[int, str], alone: set[str]) -> list[tuple[str, ...] | None]:
    """Return for each node keys of which each of its records runs exactly one, or None."""
    cuts: list[tuple[str, ...] | None] = []
    for index, node in enumerate(network.nodes):
        inside = [cuts[child] for child in node.children]
        cut: tuple[str, ...] | None = None
        if node.kind == BOX and not node.once:
            cut = (keys[index],)
        elif node.kind == CHOICE and all(part is not None for part in inside):
            cut = tuple(key for part in inside for key in part or ())
        elif node.kind in (SERIES, JOIN, SPLIT, PLACEMENT):
            some = [part for part in inside if part is not None]
            # A name that recurs is counted for all its uses: parts without one come first.
            cut = min(some, key=lambda part: not alone.issuperset(part), default=None)
        cuts.append(cut)
    return cuts


class FlowStructure:
    """What a network's structure says of its flow, made once: unknowns, lines, places. Cost O(nodes)."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.places = places_of(network)
        self._keys = _keys_of_nodes(network)
        self.unknown = self._unknowns()
        self.choices = [(node, [self.unknown[c] for c in network.nodes[node].children]) for node in network.choices]
        self.pairs = self._pairs()
        self.unknown_of_key = {key: self.unknown[node] for node, key in self._keys.items()}
        self.splits = self._keys_of_splits()

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

    def _keys_of_splits(self) -> list[list[str]]:
        """Return for each split the keys whose innermost split it is."""
        network = self.network
        inner: list[int] = [-1] * len(network.nodes)
        for index in range(len(network.nodes) - 1, -1, -1):
            node = network.nodes[index]
            for child in node.children:
                inner[child] = index if node.kind == SPLIT else inner[index]
        number = {node: i for i, node in enumerate(network.splits)}
        found: list[list[str]] = [[] for _ in network.splits]
        for node, key in self._keys.items():
            if inner[node] >= 0:
                found[number[inner[node]]].append(key)
        return found


def flow_of(structure: FlowStructure, counts: FlowCounts) -> Flow:
    """Return what counts and structure say of the flow of a network. Cost O(nodes), and O(u**3) a group of u unknowns."""
    network, entering = structure.network, counts.entering
    nothing: tuple[None, ...] = (None,)
    if not entering:
        return Flow(
            nothing * len(network.choices), nothing * len(network.replications), nothing * len(network.splits),
            nothing * len(network.feedbacks), errors=nothing * len(network.choices),
            notes=("no record was seen to enter",),
        )  # fmt: skip
    notes: list[str] = []
    own, shared = _observed(structure, counts, notes)
    values = _values(structure, own, shared, notes)
    visits = {
        key: own.get(key, values.get(unknown, -1.0))
        for key, unknown in structure.unknown_of_key.items()
        if key not in {network.keys[row] for row in network.once}
    }
    visits = {key: value for key, value in visits.items() if value >= 0.0}
    shares, errors = _shares(structure, values, counts)
    passed, total = counts.passed()
    passes = [_passes_of(place, i, counts, passed) for i, place in enumerate(structure.places)]
    stars = len(network.replications)
    arrivals = [values.get(structure.unknown[node]) for node in (*network.replications, *network.feedbacks)]
    depths = tuple(
        _depths(place, known, arrived, visits, total)
        for place, known, arrived in zip(structure.places[:stars], passes[:stars], arrivals[:stars], strict=True)
    )
    returns = tuple(
        _returned(place, known, arrived, visits)
        for place, known, arrived in zip(structure.places[stars:], passes[stars:], arrivals[stars:], strict=True)
    )
    fan_outs = tuple(counts.fan_out(keys) for keys in structure.splits)
    for text, parts in (
        ("shares of choice", shares),
        ("depths of replication", depths),
        ("fan-out of split", fan_outs),
    ):
        unknown = [str(i) for i, part in enumerate(parts) if part is None]
        if unknown:
            notes.append(f"{text} {', '.join(unknown[:8])}: not in the rows")
    records = round(counts.n["records"])
    return Flow(shares, depths, fan_outs, returns, visits, records, errors, tuple(notes))


def _observed(
    structure: FlowStructure, counts: FlowCounts, notes: list[str]
) -> tuple[dict[str, float], list[tuple[list[str], float]]]:
    """Return the visits of keys with a count of their own, and (keys, visits together) of the others."""
    network, entering, runs = structure.network, counts.entering, counts.visited()
    own: dict[str, float] = {}
    together: dict[str, list[str]] = {}
    for row, (key, name) in enumerate(zip(network.keys, network.components, strict=True)):
        if row in network.once:
            continue
        if key in runs or key == name:
            if key in runs or not counts.n["keyless"]:
                own[key] = runs.get(key, 0.0) / entering
        else:
            together.setdefault(name, []).append(key)
    shared = [(keys, runs.get(name, 0.0) / entering) for name, keys in together.items()]
    if shared:
        names = ", ".join(list(together)[:4])
        notes.append(f"uses of {names} share a name: distinguished by structure only, unless rows name them name#k")
    return own, shared


def _values(
    structure: FlowStructure, own: Mapping[str, float], shared: Sequence[tuple[list[str], float]], notes: list[str]
) -> dict[int, float]:
    """Return the records that come to each unknown, as far as they are known."""
    of: dict[int, list[float]] = {}
    for key, value in own.items():
        of.setdefault(structure.unknown_of_key[key], []).append(value)
    values = {unknown: elementary.added(reported) / len(reported) for unknown, reported in of.items()}
    values.setdefault(structure.unknown[-1], 1.0)
    lines: list[Line] = []
    for node, branches in structure.choices:
        factors: dict[int, float] = {structure.unknown[node]: -1.0}
        for branch in branches:
            factors[branch] = factors.get(branch, 0.0) + 1.0
        lines.append((factors, 0.0, EXACT_WEIGHT))
    for keys, visits in shared:
        factors = {}
        for key in keys:
            factors[structure.unknown_of_key[key]] = factors.get(structure.unknown_of_key[key], 0.0) + 1.0
        lines.append((factors, visits, EXACT_WEIGHT))
    lines += [({left: -1.0, right: 1.0}, 0.0, 1.0) for left, right in structure.pairs if left != right]
    _follow(lines, values)
    open_lines = [_without(line, values) for line in lines]
    solved: dict[int, float] = {}
    for group in _groups([line for line in open_lines if line[0]]):
        unknowns = sorted({unknown for factors, _, _ in group for unknown in factors})
        if len(unknowns) > UNKNOWNS_MAX:
            notes.append(f"{len(unknowns)} parts depend on each other, more than {UNKNOWNS_MAX}: not solved")
            continue
        column = {unknown: i for i, unknown in enumerate(unknowns)}
        matrix, right = np.zeros((len(group), len(unknowns))), np.zeros(len(group))
        for row, (factors, value, weight) in enumerate(group):
            right[row] = weight * value
            for unknown, factor in factors.items():
                matrix[row, column[unknown]] = weight * factor
        found, known = solve_where_known(matrix, right)
        solved |= {u: value for u, value, sure in zip(unknowns, found.tolist(), known.tolist(), strict=True) if sure}
    return values | solved


def _follow(lines: Sequence[Line], values: dict[int, float]) -> None:
    """Add to `values` what an exact line tells whose other unknowns are known, line after line. Cost O(lines)."""
    exact = [line for line in lines if line[2] == EXACT_WEIGHT]
    having: dict[int, list[int]] = {}
    left: list[int] = []
    for number, (factors, _, _) in enumerate(exact):
        missing = [unknown for unknown in factors if unknown not in values]
        left.append(len(missing))
        for unknown in missing:
            having.setdefault(unknown, []).append(number)
    ready = [number for number, n in enumerate(left) if n == 1]
    while ready:
        factors, value, _ = _without(exact[ready.pop()], values)
        if not factors:
            continue  # another line reported it
        ((unknown, factor),) = factors.items()
        values[unknown] = max(value / factor, 0.0)
        for number in having[unknown]:
            left[number] -= 1
            if left[number] == 1:
                ready.append(number)


def _without(line: Line, values: Mapping[int, float]) -> Line:
    """Return a line with what is known put into it."""
    factors, value, weight = line
    rest = value - elementary.added(
        factor * values[unknown] for unknown, factor in factors.items() if unknown in values
    )
    return {unknown: factor for unknown, factor in factors.items() if unknown not in values and factor}, rest, weight


def _groups(lines: Sequence[Line]) -> list[list[Line]]:
    """Return the lines in groups without common unknowns."""
    leader: dict[int, int] = {}

    def find(unknown: int) -> int:
        while leader.setdefault(unknown, unknown) != unknown:
            leader[unknown] = unknown = leader[leader[unknown]]
        return unknown

    for factors, _, _ in lines:
        first, *others = factors
        for other in others:
            leader[find(other)] = find(first)
    groups: dict[int, list[Line]] = {}
    for line in lines:
        groups.setdefault(find(next(iter(line[0]))), []).append(line)
    return list(groups.values())


def _shares(
    structure: FlowStructure, values: Mapping[int, float], counts: FlowCounts
) -> tuple[tuple[list[float] | None, ...], tuple[list[float] | None, ...]]:
    """Return the shares of each choice, and their standard errors, those of counts of independent records."""
    shares: list[list[float] | None] = []
    errors: list[list[float] | None] = []
    for _, branches in structure.choices:
        reported = [values.get(branch, -1.0) for branch in branches]
        total = sum(reported)
        if min(reported) < 0.0 or total <= 0.0:
            shares.append(None)
            errors.append(None)
            continue
        of = [value / total for value in reported]
        n = max(counts.evidence * total, 1.0)
        # A branch that was never taken is not known to be never taken: one record more than there was is supposed there.
        likely = [(share * n + 1.0) / (n + len(of)) for share in of]
        shares.append(of)
        errors.append([float(np.sqrt(share * (1.0 - share) / n)) for share in likely])
    return tuple(shares), tuple(errors)


def _passes_of(
    place: Sequence[str], number: int, counts: FlowCounts, passed: Mapping[int, Mapping[int, int]]
) -> Mapping[int, int] | None:
    """Return passes, from 1 -> records of a place; None where they are not counted."""
    if not place:
        return None
    if counts.places is not None:
        same = number < len(counts.places) and counts.places[number] == list(place)
        return passed.get(number, {}) if same else None
    if len(place) > 1 or counts.key_of.get(place[0], len(counts.keys)) >= COUNTERS_MAX:
        return None
    return passed.get(counts.key_of[place[0]], {})


def _depths(
    place: Sequence[str],
    passes: Mapping[int, int] | None,
    arrivals: float | None,
    visits: Mapping[str, float],
    total: int,
) -> list[float] | None:
    """Return the distribution of passes of the records that arrive; None where runs tell another mean: rows are missing."""
    if passes is None or total < RECORDS_LEAST:
        return None
    some = sum(passes.values())
    arrived = max(some, total if arrivals is None else total * min(arrivals, 1.0))
    if (arrivals or 0.0) > ARRIVALS_MOST or not arrived:
        return None
    if arrivals and total >= RECORDS_SURE and all(key in visits for key in place):
        by_runs = elementary.added(visits[key] for key in place) / arrivals
        if abs(sum(depth * n for depth, n in passes.items()) / arrived - by_runs) > MEAN_OFF * by_runs:
            return None
    found = [0.0] * (1 + max(passes, default=0))
    for depth, records in passes.items():
        found[depth] = records / arrived
    found[0] = max(0.0, (arrived - some) / arrived)
    return found


def _returned(
    place: Sequence[str],
    passes: Mapping[int, int] | None,
    arrivals: float | None,
    visits: Mapping[str, float],
) -> float | None:
    """Return the probability of returning, 1 - arrivals / passes."""
    if arrivals is not None and place and all(key in visits for key in place):
        inside, through = arrivals, elementary.added(visits[key] for key in place)
    elif passes and (arrivals or 0.0) <= ARRIVALS_MOST:
        inside, through = float(sum(passes.values())), float(sum(depth * n for depth, n in passes.items()))
    else:
        return None
    return None if through <= 0.0 else min(max(0.0, 1.0 - inside / through), RETURN_MOST)


RETURN_MOST = 1.0 - 1e-9  # a probability below 1
