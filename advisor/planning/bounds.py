"""What nothing beats on some cores, by the work of a record; and what is promised beyond the counts that were seen."""

from __future__ import annotations

import math

import numpy as np

from advisor.domain import elementary
from advisor.domain.curves import Seen
from advisor.domain.vectors import Floats, Ints
from advisor.planning.demand import Demand

# Beyond the most cores seen, a promise grows by a tenth for each doubling: more cores may cost a little, and need not help.
MARGIN = math.log(1.1)


def bound_s(demand: Demand, cores: int) -> float:
    """Return a period that nothing on so many cores beats: by the work of a record, and by each component alone."""
    alone = demand.visits * demand.seconds(demand.fastest(np.full(len(demand), cores))) / demand.most
    return max(float(work_s(demand, demand.low).sum()) / cores, float(alone.max()))


def work_s(demand: Demand, narrowest: Ints) -> Floats:
    """Return core-seconds of one record, at least, on `narrowest` cores or more: p T(p) is least at ends of pieces."""
    start = np.clip(narrowest, demand.low, demand.high)
    inner = np.where(demand.knots < start[:, None], np.inf, demand.inner)
    ends = np.minimum(start * demand.seconds(start), demand.high * demand.seconds(demand.high))
    return demand.visits * np.minimum(ends, (demand.knots * inner).min(axis=1))


def promised_share(demand: Demand, cores: Ints) -> Floats:
    """Return what is promised of T_c(cores_c) as a share of what is planned with, (n,): 1 within the counts seen.

    Beyond the most cores seen, m, a promise is flat with a margin, T_c(m) (1 + MARGIN)^log2(cores / m), or w / cores +
    c cores where that is longer: what was lost between the fewest and the most cores seen may be a cost of each core.
    Where siblings ran on so many cores, their quantile takes the place of both. Below the fewest it is T_c(least) least
    / cores, the work of the run. None is below what is planned with. Cost O(n log m).
    """
    seen = demand.curves.seen
    if seen is None or demand.within_seen(cores):
        return np.ones(len(demand))
    least, most, narrow, wide = _ends(demand, seen)
    doublings = elementary.log2(np.maximum(cores / most, 1.0))
    cost = np.maximum(wide - narrow, 0.0) / np.maximum(np.square(most) - np.square(least), 1.0)
    rising = np.maximum(narrow - cost * np.square(least), 0.0) / cores + cost * cores
    beyond = np.maximum(wide / most * elementary.exp(doublings * MARGIN), rising)
    if not np.isnan(seen.growth).all():
        of_siblings = wide / most * elementary.exp(growth_at(seen.growth, doublings))
        beyond = np.where(np.isnan(of_siblings), beyond, of_siblings)
    bound = np.where(cores > seen.most, beyond, np.where(cores < seen.least, narrow / cores, 0.0))
    return np.maximum(bound / demand.seconds(cores), 1.0)


def rigid(demand: Demand) -> tuple[Ints, Floats]:
    """Return the most cores seen, (n,), and the seconds that did not fall from the fewest to these, (n,); none without.

    Of s + w / p through both ends: s = (m T(m) - l T(l)) / (m - l).
    """
    seen = demand.curves.seen
    if seen is None:
        return demand.high, np.zeros(len(demand))
    least, most, narrow, wide = _ends(demand, seen)
    return most.astype(np.int64), np.maximum(wide - narrow, 0.0) / np.maximum(most - least, 1.0)


def _ends(demand: Demand, seen: Seen) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the fewest and the most whole cores seen, and a run's core-seconds on these, (n,) each."""
    least = np.ceil(seen.least)
    most = np.maximum(np.floor(seen.most), least)
    return least, most, demand.seconds(least) * least, demand.seconds(most) * most


def growth_at(growth: Floats, doublings: Floats) -> Floats:
    """Return ln of times' growth (n,) at doublings (n,) of the cores, linear between those at 1, 2, .. (n, k); NaN beyond."""
    rows, known = np.arange(len(growth)), np.column_stack([np.zeros(len(growth)), growth, np.full(len(growth), np.nan)])
    place = np.minimum(doublings.astype(np.int64), growth.shape[1])
    share = doublings - place
    return np.where(
        share > 0.0, known[rows, place] * (1.0 - share) + known[rows, place + 1] * share, known[rows, place]
    )
