"""What a grouping does: throughput, latency through the structure with waiting, contention, utilization.

While a component takes its turn it has its group for itself, so that only other groups are busy beside it. Branches of a join
whose components share cores cannot overlap: such branches count one after the other, the others at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from advisor.domain.networks import JOIN, SERIES, Network, Node
from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.shape_demand import ShapeDemand
from advisor.planning.asked.visits import Visits
from advisor.planning.closed_forms.turns import Grouping, cycles, grouping
from advisor.planning.in_turns.asking import Asked
from advisor.planning.in_turns.queues import waits
from advisor.planning.queues.structure import Structure, through

ROUNDS_MAX = 200  # of the fixed point: each halves the distance where it does not settle at once
SETTLED = 1e-12  # relative change at which it is reached


@dataclass(frozen=True, slots=True)
class Figures:
    """What a grouping does.

    Attributes
    ----------
    turns_s, cycles_s : float64 arrays (n,), (k,)
        As in `Grouping`, contention at the highest throughput included.
    period_s : float
        Seconds between records that the network can sustain.
    unloaded_s : float
        Of a record alone in the network.
    latency_s, latency_variance : float
        The same, or with waiting where records arrive at a rate; infinite where they arrive faster than they leave.
    waits_s : float64 array (n,)
        Of a visit; 0 without arrivals.
    utilization : float64 array (n,)
        Share of its group's time that each component takes, at the arrival rate or else at the highest throughput.
    active : float
        Expected busy cores then.
    """

    turns_s: Floats
    cycles_s: Floats
    period_s: float
    unloaded_s: float
    latency_s: float
    latency_variance: float
    waits_s: Floats
    utilization: Floats
    active: float

    def slowest(self, found: Grouping) -> Ints:
        """Return the components of the groups whose cycle is the period."""
        return np.flatnonzero((self.cycles_s >= self.period_s * (1 - TIE))[found.group])


@dataclass(frozen=True, slots=True)
class Load:
    """What records ask of groups: one visit's time at each component, (n,) each, as it is without others.

    `heaviest` is the share of a component's records that its busiest instance serves; `follows` is of `successions`, and needed
    where records arrive at a rate only; with `spread_asked` the variance of the latency is wanted, too.
    """

    structure: Structure
    seconds: Floats
    heaviest: Floats
    variation: Floats
    contention: Floats
    arrival_per_s: float | None
    follows: Floats
    spread_asked: bool = False

    @property
    def visits(self) -> Floats:
        """Per record, (n,)."""
        return self.structure.visits.per_record


@dataclass(frozen=True, slots=True)
class Places:
    """Where components take their turns: group, cores and instances of each, (n,); cores may be means of what was seen."""

    group: Ints
    cores: Floats | Ints
    instances: Ints

    @property
    def groups(self) -> int:
        """How many."""
        return int(self.group.max()) + 1


def figures_of(asked: Asked, found: Grouping) -> Figures:
    """Return what a grouping does. Cost O(nodes), with joins and arrivals more."""
    return judged(_load(asked, found), Places(found.group, found.cores, found.instances))


def judged(load: Load, places: Places) -> Figures:
    """Return what components at their places do. Cost O(nodes), with joins and arrivals more."""
    visits, arrival = load.visits, load.arrival_per_s
    turn = visits * load.heaviest * load.seconds * _slowing(load, places, None)
    cycle = cycles(places.group, turn, places.groups)
    period = float(cycle.max())
    waited = np.zeros(len(turn))
    unloaded, spread = _through(load, places, load.seconds, load.seconds**2 * load.variation, 0.0)
    latency, variance = unloaded, spread
    if arrival is not None:
        busy = load.seconds * _slowing(load, places, arrival)
        waited, wide = waits(places.group, arrival, visits, busy, load.variation, load.follows)
        latency = variance = np.inf
        if np.isfinite(waited).all():
            latency, variance = _through(load, places, waited + busy, wide + busy**2 * load.variation, arrival)
        work, rate = visits * busy, arrival
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            work, rate = np.where(visits > 0, turn / load.heaviest, 0.0), 1 / period
    share = np.minimum(rate * work * load.heaviest, 1.0)
    active = float((rate * work * places.cores).sum())
    return Figures(turn, cycle, period, unloaded, latency, variance, waited, share, active)


def _load(asked: Asked, found: Grouping) -> Load:
    """Return the times of a grouping's shapes."""
    visits, curves = asked.visits.per_record, asked.curves
    with np.errstate(divide="ignore", invalid="ignore"):
        heaviest = np.where(found.stay_s > 0, found.turns_s / found.stay_s, 1.0)
        seconds = np.where(visits > 0, found.stay_s / visits, 0.0)
    none, wide = np.zeros(len(visits)), asked.request.quantile is not None
    if curves is None:
        return Load(asked.structure, seconds, heaviest, none, none, asked.request.arrival_per_s, asked.follows, wide)
    seconds = curves.seconds_s[np.arange(len(visits)), np.searchsorted(curves.counts, found.cores)]
    return Load(
        asked.structure, seconds, heaviest, curves.variation, curves.contention, asked.request.arrival_per_s,
        asked.follows, wide,
    )  # fmt: skip


def _slowing(load: Load, places: Places, rate: float | None) -> Floats:
    """Return the factor by which others slow each component, (n,), at a rate or at the highest throughput.

    1 + kappa_c (sum of the active cores of all other groups + those of its siblings), a fixed point with the rate.
    """
    factor = np.ones(len(load.seconds))
    if not load.contention.any():
        return factor
    siblings = (places.instances - 1) * places.cores
    for _ in range(ROUNDS_MAX):
        slowed = load.visits * load.seconds * factor
        most = 1 / float(cycles(places.group, load.heaviest * slowed, places.groups).max())
        flow = most if rate is None else min(rate, most)
        active = cycles(places.group, flow * slowed * places.cores, places.groups)
        others = np.maximum(active.sum() - active[places.group], 0.0) + siblings
        new = 1 + load.contention * others
        if (np.abs(new - factor) <= SETTLED * factor).all():
            return new
        factor = (new + factor) / 2
    return factor


def _through(load: Load, places: Places, mean: Floats, variance: Floats, arrival: float) -> tuple[float, float]:
    """Return mean and variance of a record's time in the network; no variance where nobody asks for it and it costs much."""
    structure = load.structure
    if not load.spread_asked and structure.adds_up and not (arrival > 0 and structure.keeps_order):
        return float((load.visits * mean).sum()), 0.0
    if structure.joins:
        structure = in_turn(structure, places.group)
    ones = np.ones((1, len(mean)), np.int64)
    whole, spread = through(structure, mean[None], variance[None], ones, arrival)
    return float(whole[0]), float(spread[0])


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
    parts_of: dict[str, Any] = {}
    for name in ("shares", "depths", "fan_outs", "returns"):
        given: Mapping[int, Any] = getattr(routing, name)
        parts_of[name] = {moved[index]: value for index, value in given.items() if index not in structure.joins}
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


def lone_bound(asked: Asked, cores: int) -> Figures:
    """Return figures whose latency no grouping on so many cores undercuts: all at once on all cores, nobody in the way."""
    demand = asked.demand
    sizes = np.full(len(demand), cores, np.int64)
    if isinstance(demand, ShapeDemand):  # the shape of the shortest turn may have a longer stay on more cores
        sizes = demand.stay_s[:, :cores].argmin(axis=1) + 1
    alone = grouping(demand, np.arange(len(demand)), sizes, exact=False)
    load = _load(asked, alone)
    places = Places(alone.group, alone.cores, alone.instances)
    latency, variance = _through(load, places, load.seconds, load.seconds**2 * load.variation, 0.0)
    none = np.zeros(len(demand))
    return Figures(none, none, 0.0, latency, latency, variance, none, none, 0.0)
