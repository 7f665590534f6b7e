"""Fewer cores than components: which components share which cores.

Up to EXACT_COMPONENTS components the best grouping is found by dynamic programming over all subsets. Beyond, groups are
balanced greedily for several numbers of groups, given their cores as `throughput` gives cores to components, turns are
fitted into ever shorter periods, and the groups improved by moves and exchanges; `period_bound` says how far from the
best they can be at most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.errors import Unsupported
from advisor.planning.asked.demand import TIE, Floats, Ints
from advisor.planning.asked.requests import Request
from advisor.planning.asked.table_demand import AnyDemand
from advisor.planning.closed_forms.packing import packed
from advisor.planning.closed_forms.turns import Grouping, grouping, period_bound, turns

EXACT_COMPONENTS = 10  # 3**10 pairs of subsets, about 0.1 s; each more costs three times that
PROVED = 1e-9  # a grouping whose period is this near its bound counts as the best


def check_shared(request: Request) -> None:
    """Raise Unsupported for what turns on shared cores are not planned with.

    Groups take turns on whole sets of cores: rules on single counts, places on nodes, queues of arriving records and
    objectives beyond the first three need cores of one's own.
    """
    needs = {
        "allowed": request.allowed, "pinned": request.pinned, "nodes": request.nodes, "memory_bytes": request.memory_bytes,
        "arrival_per_s": request.arrival_per_s, "quantile": request.quantile, "weights": request.weights,
        "objective": "pareto" if request.objective == "pareto" else None,
    }  # fmt: skip
    for field, value in needs.items():
        if value is not None:
            raise Unsupported(
                f"{field} is planned only where each component has cores of its own; there are fewer cores than components",
                field=field, value=value, bound=request.cores, hint="give at least as many cores as components",
            )  # fmt: skip


def best_grouping(demand: AnyDemand, cores: int) -> Grouping:
    """Return the grouping on at most `cores` cores with the shortest period; then fewest cores, then lowest latency.

    Parameters
    ----------
    demand : Demand
    cores : int
        At least the largest of ``demand.low``, less than the number of components.

    Notes
    -----
    Cost O(3**n P**2) up to EXACT_COMPONENTS components, else O(n log(n) log(P)**2).
    """
    if len(demand) <= EXACT_COMPONENTS:
        subsets = _Subsets(demand, cores)
        return subsets.fewest(subsets.best_period())
    return _judged(demand, cores, packed(demand, cores))


def _judged(demand: AnyDemand, cores: int, found: Grouping) -> Grouping:
    proved = found.period_s <= period_bound(demand, cores) * (1 + PROVED)
    return Grouping(found.group, found.sizes, found.cores, found.instances, found.cycles_s, proved)


def fewest_grouping(demand: AnyDemand, cores: int, period_s: float) -> tuple[Grouping, bool]:
    """Return a grouping that sustains the period on the fewest cores, at most `cores`, and whether it does.

    When none is found that sustains it, the best one on `cores` cores is returned with False; its `exact` says whether
    that proves the period impossible.
    """
    if len(demand) <= EXACT_COMPONENTS:
        subsets = _Subsets(demand, cores)
        best = subsets.best_period()
        return (subsets.fewest(period_s), True) if best <= period_s * (1 + TIE) else (subsets.fewest(best), False)
    most = _judged(demand, cores, packed(demand, cores))
    if most.period_s > period_s * (1 + TIE):
        return most, False
    # More cores do not hurt the best grouping, and rarely the one found: bisection ends at a number that sustains it.
    work = float(demand.work_s().sum())
    enough, too_few = int(most.sizes.sum()), max(int(np.ceil(work / period_s * (1 - TIE))), int(demand.low.max())) - 1
    lower_bound = too_few + 1
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        found = packed(demand, middle)
        if found.period_s <= period_s * (1 + TIE):
            most, enough = found, min(middle, int(found.sizes.sum()))
        else:
            too_few = middle
    return Grouping(most.group, most.sizes, most.cores, most.instances, most.cycles_s, enough <= lower_bound), True


def one_group(demand: AnyDemand, cores: int) -> Grouping:
    """Return the grouping with the lowest latency: all take turns on one group, of every core that gains something."""
    single = replace(demand, instances_max=np.ones_like(demand.low))
    useful = int(demand.useful().max())
    size = min(cores, max(useful, int(demand.low.max())))
    return grouping(single, np.zeros(len(demand), np.int64), np.array([size]), exact=True)


def fewest_one_group(demand: AnyDemand, cores: int, latency_s: float) -> tuple[Grouping, bool]:
    """Return the smallest single group, at most `cores`, with at most this latency, and whether there is one.

    No grouping on as many cores has a lower latency than a single group. Cost O(n log P).
    """
    enough, too_few = one_group(demand, cores), int(demand.low.max()) - 1
    limit = latency_s * (1 + TIE)
    if enough.period_s > limit:
        return enough, False
    while int(enough.sizes[0]) - too_few > 1:
        middle = (int(enough.sizes[0]) + too_few) // 2
        found = one_group(demand, middle)
        if found.period_s <= limit:
            enough = found
        else:
            too_few = middle
    return enough, True


class _Subsets:
    """Every subset of the components, as a bit mask, with its cycle on 1 .. P cores."""

    def __init__(self, demand: AnyDemand, cores: int) -> None:
        self.demand, self.cores = demand, cores
        n = len(demand)
        on_sizes = [turns(demand, np.full(n, size, np.int64)) for size in range(1, cores + 1)]
        self.cycle_s = _sums(np.stack([seconds for seconds, _, _ in on_sizes], axis=1))
        self.latency_s = _sums(np.stack([demand.seconds(used) for _, used, _ in on_sizes], axis=1))
        self.parts = [_submasks(mask & (mask - 1)) for mask in range(1 << n)]

    def best_period(self) -> float:
        """Return the shortest period of any partition on at most P cores.

        best[S, k] = min over groups G of S with the first component of S, and sizes m <= k, of max(cycle[G, m],
        best[S - G, k - m]).
        """
        best = np.full((len(self.parts), self.cores + 1), np.inf)
        best[0] = 0.0
        for mask in range(1, len(self.parts)):
            others = self.parts[mask]
            rest = (mask & (mask - 1)) ^ others
            cycle, beside = self.cycle_s[mask ^ rest], best[rest]
            for size in range(1, self.cores + 1):
                split = np.maximum(cycle[:, size - 1 : size], beside[:, : self.cores + 1 - size]).min(axis=0)
                np.minimum(best[mask, size:], split, out=best[mask, size:])
        return float(best[-1, self.cores])

    def fewest(self, period_s: float) -> Grouping:
        """Return the partition that sustains the period on the fewest cores, then with the lowest latency."""
        fits = self.cycle_s <= period_s * (1 + TIE)
        size = np.where(fits.any(axis=1), fits.argmax(axis=1) + 1, len(self.parts))
        latency = np.take_along_axis(self.latency_s, np.minimum(size - 1, self.cores - 1)[:, None], axis=1)[:, 0]
        fewest, least = np.zeros(len(self.parts), np.int64), np.zeros(len(self.parts))
        chosen = np.zeros(len(self.parts), np.int64)
        for mask in range(1, len(self.parts)):
            rest = (mask & (mask - 1)) ^ self.parts[mask]
            cores, seconds = size[mask ^ rest] + fewest[rest], latency[mask ^ rest] + least[rest]
            seconds = np.where(cores == cores.min(), seconds, np.inf)
            pick = int(np.argmax(seconds <= seconds.min() * (1 + TIE)))
            fewest[mask], least[mask], chosen[mask] = cores[pick], seconds[pick], mask ^ rest[pick]
        return self._grouping(chosen, size)

    def _grouping(self, chosen: Ints, size: Ints) -> Grouping:
        n = len(self.demand)
        group, mask = np.zeros(n, np.int64), (1 << n) - 1
        sizes: list[int] = []
        while mask:
            part = int(chosen[mask])
            group[[row for row in range(n) if part >> row & 1]] = len(sizes)
            sizes.append(int(size[part]))
            mask ^= part
        return grouping(self.demand, group, np.array(sizes), exact=True)


def _sums(values: Floats) -> Floats:
    """Return the sums over all subsets of rows: (n, m) -> (2**n, m)."""
    table = np.zeros((1 << len(values), values.shape[1]))
    for row, value in enumerate(values):
        table[1 << row : 2 << row] = table[: 1 << row] + value
    return table


def _submasks(mask: int) -> Ints:
    """Return all subsets of a bit mask, the empty one first."""
    found = np.zeros(1, np.int64)
    while mask:
        found = np.concatenate([found, found | (mask & -mask)])
        mask &= mask - 1
    return found
