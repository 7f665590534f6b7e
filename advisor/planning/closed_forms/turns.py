"""Components that take turns on the cores of a group: how long a turn is.

A group of m cores serves its components one after the other; while one runs it has all m cores, as n instances of p
cores with n p <= m. The group's cycle is the sum of the turns per record, and the slowest cycle is the period of the
network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.shape_demand import ShapeDemand
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.closed_forms.throughput import fewest_within

# All numbers of instances up to here are tried in a turn, beside the most that fit: up to here the turn is optimal.
# Many instances of few cores win with Amdahl curves, so beyond it the most that fit lose little.
INSTANCES_TRIED = 16
BOUND_STEPS = 30  # of the bisection for the bound: it is then sharp to a part in 10**8


@dataclass(frozen=True, slots=True)
class Grouping:
    """Who shares which cores.

    Attributes
    ----------
    group : int64 array (n,)
        The group of each component; groups are numbered by their first component in text order.
    sizes : int64 array (k,)
        Cores of each group.
    cores, instances : int64 arrays (n,)
        What each component runs on in its turn.
    turns_s, stay_s : float64 arrays (n,)
        Seconds that a record takes of the group's time in each component, and that it spends there.
    cycles_s : float64 array (k,)
        Seconds of all turns of a group for one record.
    exact : bool
        True when no grouping is better, proved by exhaustion or by reaching the bound.
    """

    group: Ints
    sizes: Ints
    cores: Ints
    instances: Ints
    turns_s: Floats
    stay_s: Floats
    cycles_s: Floats
    exact: bool

    @property
    def period_s(self) -> float:
        """Seconds between two records: the slowest cycle."""
        return float(self.cycles_s.max())

    @property
    def latency_s(self) -> float:
        """Seconds of a record in the network, without queueing."""
        return float(self.stay_s.sum())

    @property
    def apart(self) -> bool:
        """True when nobody shares."""
        return len(self.sizes) == len(self.group)

    def slowest_members(self) -> Ints:
        """Return the components of the groups whose cycle is the period."""
        return np.flatnonzero((self.cycles_s >= self.period_s * (1 - TIE))[self.group])


class Turns(NamedTuple):
    """The shortest turns on given cores: seconds of the group's time, a record's stay, and the shapes, (n,) each."""

    seconds: Floats
    stay_s: Floats
    cores: Ints
    instances: Ints


def turns(demand: Shareable, sizes: Ints) -> Turns:
    """Return the shortest turns on `sizes_c` cores.

    Infinite where the group is smaller than the component's minimum. Cost O(n), with instances O(n INSTANCES_TRIED).
    """
    if isinstance(demand, ShapeDemand):
        return Turns(*demand.at(sizes))
    cores = demand.fastest(sizes)
    instances = np.ones_like(cores)
    seconds = np.where(sizes >= demand.low, demand.seconds(cores), np.inf)
    if demand.single:
        return Turns(seconds, seconds, cores, instances)
    most = np.clip(sizes // demand.low, 1, demand.instances_max)
    for count in [*range(2, min(int(most.max()), INSTANCES_TRIED) + 1), most]:
        some = np.broadcast_to(np.asarray(count), cores.shape)
        most_cores = np.minimum(sizes // some, demand.high)
        fits = (most_cores >= demand.low) & (some <= demand.instances_max)
        some_cores = demand.fastest(most_cores)
        some_seconds = demand.seconds(np.maximum(some_cores, 1)) / some
        better = fits & (some_seconds < seconds * (1 - TIE))
        seconds = np.where(better, some_seconds, seconds)
        cores, instances = np.where(better, some_cores, cores), np.where(better, some, instances)
    return Turns(seconds, demand.seconds(cores), cores, instances)


def grouping(demand: Shareable, group: Ints, sizes: Ints, *, exact: bool) -> Grouping:
    """Return the grouping with its groups renumbered in text order, empty ones left out. Cost O(n log n)."""
    numbers, first, compact = np.unique(group, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    ordered, ordered_sizes = rank[compact].astype(np.int64), sizes[numbers[order]].astype(np.int64)
    some = turns(demand, ordered_sizes[ordered])
    cycle = cycles(ordered, some.seconds, len(order))
    return Grouping(ordered, ordered_sizes, some.cores, some.instances, some.seconds, some.stay_s, cycle, exact)


def cycles(group: Ints, seconds: Floats, groups: int) -> Floats:
    """Return the sum of the turns of each group."""
    return np.bincount(group, weights=seconds, minlength=groups).astype(np.float64, copy=False)


def work_bound(demand: Shareable, cores: int) -> float:
    """Return a period that no grouping on `cores` cores beats.

    Work of one record is at least sum_c D_c(1) core-seconds, since p D_c(p) >= D_c(1), and no turn is shorter than the
    component alone on all cores. Cost O(n).
    """
    work = float(demand.work_s().sum()) / cores
    return max(work, float(demand.alone_s(cores).max()))


def period_bound(demand: Shareable, cores: int) -> float:
    """Return a longer period that no grouping on `cores` cores beats.

    A turn within the period needs p_c cores at least, and then works p_c D_c(p_c) core-seconds: more than D_c(1) where
    a component is too long for one core. The bound is where this work just fits. Cost O(n) a step, BOUND_STEPS steps.
    """

    def too_short(period_s: float) -> bool:
        narrowest = fewest_within(demand, demand.instances_max * np.float64(period_s))
        return float(demand.work_s(narrowest).sum()) > period_s * cores * (1 + TIE)

    shortest = work_bound(demand, cores)
    if not too_short(shortest):
        return shortest
    longest = float(demand.work_s(demand.low).sum())  # all in turn, each at its narrowest
    for _ in range(BOUND_STEPS):
        middle = (shortest * longest) ** 0.5
        shortest, longest = (middle, longest) if too_short(middle) else (shortest, middle)
    return shortest
