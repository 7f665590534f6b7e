"""Which components share which cores.

The best grouping of few components is found by dynamic programming over all subsets (`partitions`). Beyond, groups are
balanced greedily for several numbers of groups, given their cores as `throughput` gives cores to components, turns are
fitted into ever shorter periods, and the groups improved by moves and exchanges; `period_bound` says how far from the
best they can be at most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from advisor.planning.asked.demand import TIE
from advisor.planning.asked.shape_demand import ShapeDemand
from advisor.planning.asked.table_demand import Shareable
from advisor.planning.closed_forms.packing import packed
from advisor.planning.closed_forms.partitions import Partitions, few_enough
from advisor.planning.closed_forms.turns import Grouping, grouping, period_bound

PROVED = 1e-9  # a grouping whose period is this near its bound counts as the best


def best_grouping(demand: Shareable, cores: int) -> Grouping:
    """Return the grouping on at most `cores` cores with the shortest period; then fewest cores, then lowest latency.

    Parameters
    ----------
    demand : Demand
    cores : int
        At least the largest of ``demand.low``.

    Notes
    -----
    Cost O(3**n log(2**n P)) for few components, else O(n log(n) log(P)**2).
    """
    if few_enough(len(demand), cores):
        subsets = Partitions(demand, cores)
        return subsets.fewest(subsets.best_period())
    return _judged(demand, cores, packed(demand, cores))


def _judged(demand: Shareable, cores: int, found: Grouping) -> Grouping:
    proved = found.period_s <= period_bound(demand, cores) * (1 + PROVED)
    return replace(found, exact=proved)


def fewest_grouping(demand: Shareable, cores: int, period_s: float) -> tuple[Grouping, bool]:
    """Return a grouping that sustains the period on the fewest cores, at most `cores`, and whether it does.

    When none is found that sustains it, the best one on `cores` cores is returned with False; its `exact` says whether
    that proves the period impossible.
    """
    if few_enough(len(demand), cores):
        subsets = Partitions(demand, cores)
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
    return replace(most, exact=enough <= lower_bound), True


def one_group(demand: Shareable, cores: int) -> Grouping:
    """Return the grouping with the lowest latency: all take turns on one group, of every core that gains something.

    A demand of shapes is one `by_stay`.
    """
    if isinstance(demand, ShapeDemand):
        single, useful = demand, demand.useful(cores)
    else:
        single, useful = replace(demand, instances_max=np.ones_like(demand.low)), int(demand.useful().max())
    size = min(cores, max(useful, int(demand.low.max())))
    return grouping(single, np.zeros(len(demand), np.int64), np.array([size]), exact=True)


def fewest_one_group(demand: Shareable, cores: int, latency_s: float) -> tuple[Grouping, bool]:
    """Return the smallest single group, at most `cores`, with at most this latency, and whether there is one.

    No grouping on as many cores has a lower latency than a single group where nothing is joined. Cost O(n log P).
    """
    enough, too_few = one_group(demand, cores), int(demand.low.max()) - 1
    limit = latency_s * (1 + TIE)
    if enough.latency_s > limit:
        return enough, False
    while int(enough.sizes[0]) - too_few > 1:
        middle = (int(enough.sizes[0]) + too_few) // 2
        found = one_group(demand, middle)
        if found.latency_s <= limit:
            enough = found
        else:
            too_few = middle
    return enough, True
