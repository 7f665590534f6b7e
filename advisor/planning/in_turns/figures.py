"""What a grouping does: throughput, latency through the structure, contention, utilization.

While a component takes its turn it has its group for itself, so that only other groups are busy beside it. Branches of a join
whose components share cores cannot overlap: such branches count one after the other, the others at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from advisor.domain.networks import JOIN, SERIES, Network, Node
from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.visits import Visits
from advisor.planning.closed_forms.turns import Grouping, cycles
from advisor.planning.in_turns.asking import Asked
from advisor.planning.queues.structure import Structure, structure_of, through

ROUNDS_MAX = 200  # of the fixed point: each halves the distance where it does not settle at once
SETTLED = 1e-12  # relative change at which it is reached


@dataclass(frozen=True, slots=True)
class Figures:
    """What a grouping does.

    Attributes
    ----------
    turns_s, cycles_s : float64 arrays (n,), (k,)
        As in `Grouping`, contention included.
    period_s, latency_s, latency_variance : float
        Of a record alone in the network.
    utilization : float64 array (n,)
        Share of its group's time that each component takes at the highest throughput.
    active : float
        Expected busy cores then.
    """

    turns_s: Floats
    cycles_s: Floats
    period_s: float
    latency_s: float
    latency_variance: float
    utilization: Floats
    active: float

    def slowest(self, found: Grouping) -> Ints:
        """Return the components of the groups whose cycle is the period."""
        return np.flatnonzero((self.cycles_s >= self.period_s * (1 - TIE))[found.group])


def figures_of(asked: Asked, found: Grouping) -> Figures:
    """Return what a grouping does. Cost O(nodes + n^2 of joins)."""
    visits = asked.visits.per_record
    seconds = _seconds(asked, found)
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(found.stay_s > 0, found.turns_s / found.stay_s, 1.0)
    slowed = seconds * slowing(asked, found, seconds, heaviest)
    turn = visits * heaviest * slowed
    cycle = cycles(found.group, turn, len(found.sizes))
    period = float(cycle.max())
    structure = structure_of(asked.network, asked.visits)
    variation = np.zeros(len(seconds)) if asked.curves is None else asked.curves.variation
    latency, variance = lone(structure, found, seconds, seconds**2 * variation)
    active = float((visits * slowed * found.cores).sum() / period)
    return Figures(turn, cycle, period, latency, variance, np.minimum(turn / period, 1.0), active)


def _seconds(asked: Asked, found: Grouping) -> Floats:
    """Return one visit's time on the cores given, alone, (n,)."""
    if asked.curves is not None:
        place = np.searchsorted(asked.curves.counts, found.cores)
        return asked.curves.seconds_s[np.arange(len(place)), place]
    visits = asked.visits.per_record
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(visits > 0, found.stay_s / visits, 0.0)


def slowing(asked: Asked, found: Grouping, seconds: Floats, heaviest: Floats) -> Floats:
    """Return the factor by which others slow each component at the highest throughput, (n,).

    1 + kappa_c (sum of the active cores of all other groups + those of its siblings), a fixed point with the throughput.
    """
    if asked.curves is None or not asked.curves.contention.any():
        return np.ones(len(seconds))
    kappa, visits = asked.curves.contention, asked.visits.per_record
    groups, factor = len(found.sizes), np.ones(len(seconds))
    siblings = (found.instances - 1) * found.cores
    for _ in range(ROUNDS_MAX):
        slowed = seconds * factor
        rate = 1 / float(cycles(found.group, visits * heaviest * slowed, groups).max())
        active = cycles(found.group, rate * visits * slowed * found.cores, groups)
        others = np.maximum(active.sum() - active[found.group], 0.0) + siblings
        new = 1 + kappa * others
        if (np.abs(new - factor) <= SETTLED * factor).all():
            return new
        factor = (new + factor) / 2
    return factor


def lone(structure: Structure, found: Grouping, seconds: Floats, variance: Floats) -> tuple[float, float]:
    """Return mean and variance of the time of a record alone in the network."""
    if structure.joins:
        structure = in_turn(structure, found.group)
    mean, spread = through(structure, seconds[None], variance[None], np.ones((1, len(seconds)), np.int64))
    return float(mean[0]), float(spread[0])


def in_turn(structure: Structure, group: Ints) -> Structure:
    """Return the structure with those branches of each join in series that share cores, directly or through others."""
    old = structure.network.nodes
    nodes: list[Node] = []
    moved: list[int] = []
    entries: list[float] = []
    joins: set[int] = set()
    used: list[set[int]] = []

    def add(node: Node, index: int) -> int:
        nodes.append(node)
        entries.append(float(structure.visits.entries[index]))
        return len(nodes) - 1

    for index, node in enumerate(old):
        mine = {int(group[structure.rows[index]])} if index in structure.rows else set[int]()
        used.append(mine.union(*(used[child] for child in node.children)))
        children = [moved[child] for child in node.children]
        if index not in structure.joins:
            moved.append(add(replace(node, children=tuple(children)), index))
            continue
        taken = _taken(structure, index)
        clusters = _clusters([{*used[node.children[branch]]} for branch in taken])
        told = [[children[taken[branch]] for branch in cluster] for cluster in clusters]
        # A tree has no stray parts: what no record passes takes no time in a series.
        told[-1] += [child for branch, child in enumerate(children) if branch not in taken]
        parts = [part[0] if len(part) == 1 else add(Node(SERIES, children=tuple(part)), index) for part in told]
        if len(parts) == 1:
            moved.append(parts[0])
        else:
            moved.append(add(Node(JOIN, children=tuple(parts), ordered=node.ordered), index))
            joins.add(moved[-1])
    routing = structure.visits.routing
    parts_of = {
        name: {moved[index]: value for index, value in getattr(routing, name).items() if index not in structure.joins}
        for name in ("shares", "depths", "fan_outs", "returns")
    }
    visits = Visits(
        structure.visits.per_record, np.array(entries), replace(routing, **parts_of), structure.visits.replicas
    )
    rows = {moved[index]: row for index, row in structure.rows.items()}
    return Structure(Network(tuple(nodes)), visits, structure.ratios, frozenset(joins), rows)


def _taken(structure: Structure, index: int) -> list[int]:
    """Return the branches of a join that records pass."""
    node = structure.network.nodes[index]
    if node.kind == JOIN:
        return list(range(len(node.children)))
    return [branch for branch, share in enumerate(structure.shares(index)) if share > 0]


def _clusters(used: Sequence[set[int]]) -> list[list[int]]:
    """Return branches in clusters: those of one have no group in common with those of another."""
    found: list[tuple[set[int], list[int]]] = []
    for branch, groups in enumerate(used):
        mine, members = set(groups), [branch]
        for other in [one for one in found if one[0] & mine]:
            found.remove(other)
            mine |= other[0]
            members = other[1] + members
        found.append((mine, members))
    return [members for _, members in found]
