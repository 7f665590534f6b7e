"""Solutions, and those of closed forms: throughput by thresholds, alone and in turns, and sums of times, with their proofs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, comb
from typing import NamedTuple

import numpy as np

from advisor.planning.bounds import promised_share, work_s
from advisor.planning.demand import Demand, Shapes
from advisor.planning.estimates import Estimate, errors_of
from advisor.planning.judge import Judged, Placed, judge_placed, own_placed
from advisor.planning.options import Places, places_of
from advisor.planning.partitions import KERNELS
from advisor.planning.pieces import TIE
from advisor.planning.requests import LATE, RATE, Ints
from advisor.planning.search import OWN_MAX, Search
from advisor.planning.sharing import Groupings, best_grouping, in_turns

CELLS_MAX = 960_000  # components times cores up to which many components are packed on tables of all sizes


class Change(NamedTuple):
    """What became of the current allocation; `gain` is that of the best one known."""

    kept: bool
    gain: float = 0.0
    why: str = ""  # what it breaks


@dataclass(frozen=True)
class Plan:
    """What was found for a demand, as its answer needs it."""

    demand: Demand
    # one row each
    placed: Placed
    judged: Judged
    gap: float | None  # 0 where it is proved best, else None
    own_value: float | None  # what cores of one's own reach, in the measure of the objective
    search: Search | None  # what was judged on the way; None where closed forms answer
    change: Change | None = None  # where an allocation was in use
    given: bool = False  # nothing was looked for: it is what a caller has

    @property
    def shared(self) -> bool:
        """Whether components take turns."""
        placed = self.placed
        return placed.group is not None and int(placed.group.max()) + 1 < placed.group.shape[1]

    @property
    def cores_used(self) -> int:
        """Cores taken."""
        return int(self.placed.used[0])

    @property
    def spare(self) -> int:
        """Cores left free; 0 where no number was given."""
        given = self.demand.request.cores
        return 0 if given is None else given - self.cores_used

    @cached_property
    def estimate(self) -> Estimate:
        """The answer at expected times and with what is not known of them."""
        return self.estimate_of(self.placed)

    def estimate_of(self, placed: Placed) -> Estimate:
        """Return an allocation at expected times and with what is not known of them."""
        errors = errors_of(self.demand.curves, self.demand.request.level, placed.cores[0])
        return Estimate(self.demand, self.expected(placed), *errors)

    def expected(self, placed: Placed) -> Placed:
        """Return an allocation with the seconds that are expected."""
        return placed._replace(seconds_s=placed.seconds_s * self.demand.expected_share(placed.cores[0]))

    def promised(self, placed: Placed) -> Placed:
        """Return allocations, (K, n), with the seconds that are promised of them."""
        demand = self.demand
        if demand.within_seen(placed.cores):
            return placed
        share = np.array([promised_share(demand, cores) for cores in placed.cores])
        return placed._replace(seconds_s=placed.seconds_s * share)

    @cached_property
    def promised_figures(self) -> Judged:
        """The answer's figures at the seconds that it promises."""
        if self.demand.within_seen(self.placed.cores):
            return self.judged
        return judge_placed(self.demand, self.promised(self.placed))

    @cached_property
    def within_seen(self) -> bool:
        """Whether the answer promises what it is planned with."""
        return bool((promised_share(self.demand, self.placed.cores[0]) == 1.0).all())

    @cached_property
    def slowest(self) -> Ints:
        """The components that bound the throughput, or are in a group that does."""
        return np.flatnonzero(self.judged.cycle_s[0] >= self.judged.period_s[0] * (1 - 1e-9))


# --- throughput: exact thresholds ---------------------------------------------------------------------------------------


def by_thresholds(demand: Demand) -> Plan | None:
    """Return the shortest period, or the fewest cores for one, of what nothing couples; None where none reaches it."""
    request, cores = demand.request, demand.cores
    fewest = bool(request.target)
    target = 1 / request.target[RATE] if request.target else 0.0
    period, shapes, used, shared = best_period(demand, cores, target, *demand.few)
    proved, most = True, used - 1 if fewest and shapes is not None else cores
    if demand.sharing and len(demand.few[0]):
        proved = min(most, demand.widest) <= len(demand.few[0])
    elif demand.sharing:
        shared, proved = _packed(demand, target if fewest else period * (1 - TIE), most)
    gap, own = 0.0 if proved else None, None
    if shapes is not None:
        learned = not fewest and used < cores and demand.curves.uncertain
        placed = own_placed(demand, demand.padded(shapes, period, cores) if learned else shapes)
        own = Plan(demand, placed, judge_placed(demand, placed), gap, float(used) if fewest else period, None)
    if shared is None:
        found = own
    else:
        placed = in_turns(demand, *shared)
        found = Plan(demand, placed, judge_placed(demand, placed), gap, own and own.own_value, None)
        if own is not None and demand.curves.uncertain and not fewest:
            # Times that allow for errors found the turns. Own cores of which more is expected and promised are better.
            promises, expected = own.promised_figures.period_s <= found.promised_figures.period_s, own.estimate.period_s
            better = promises.all() and expected <= found.estimate.period_s
            found = own if better else replace(found, own_value=expected)
    return found


NOTHING: Ints = np.zeros(0, np.int64)


def best_period(
    demand: Demand, cores: int, target_s: float = 0.0, sizes: Ints = NOTHING, numbers: Ints = NOTHING
) -> tuple[float, Shapes | None, int, tuple[Places, Groupings] | None]:
    """Return the shortest period with dedicated cores, or a target, with shapes and cores used; and groups that do better.

    `sizes` of groups and `numbers` of instances are those that are looked at; none: no groups. Infinity and None where
    nothing is found.
    """
    n, found = len(demand.visits), np.empty(2)
    (taken, other), (group, widths) = np.empty((2, 2, n), np.int64), np.empty((2, n), np.int64)
    times, shapes = np.empty((2, n, len(sizes))), np.empty((2, n, len(sizes)), np.int64)
    KERNELS.best_period(
        (demand.level, demand.fall, demand.knots), demand.limits, demand.visits, cores, target_s, taken, other, np.empty(n),
        (sizes, numbers), times, shapes, group, widths, found,
    )  # fmt: skip
    period, grouped = found.tolist()
    shared = None
    if grouped < np.inf:
        groups = Groupings(group[None], widths[None, : int(group.max()) + 1])
        shared = Places(sizes, times[0], times[1], shapes[0], shapes[1]), groups
    if period == np.inf:
        return period, None, 0, shared
    return period, Shapes(taken[0], taken[1]), int((taken[0] * taken[1]).sum()), shared


def _packed(demand: Demand, period_s: float, most: int) -> tuple[tuple[Places, Groupings] | None, bool]:
    """Return tables and the grouping of many components of a period below that given, or of the fewest cores for it, on at
    most so many cores; and whether nothing is better than what was found.
    """
    n = len(demand)
    least = ceil(float(work_s(demand, demand.low).sum()) / period_s * (1 - TIE))
    if most < max(int(demand.low.max()), least):
        return None, True
    table = places_of(demand, min(most, max(64, CELLS_MAX // n), demand.widest))
    found = best_grouping(table, most, period_s, least if demand.request.aim.fewest else 0)
    return None if found is None else (table, found), False


def _solution(demand: Demand, placed: Placed, gap: float | None, own_value: float | None) -> Plan:
    return Plan(demand, placed, judge_placed(demand, placed), gap, own_value, None)


# --- the latency of a lone record: sums -----------------------------------------------------------------------------------


def by_sums(demand: Demand, searched: Callable[[Demand], Plan | None]) -> Plan | None:
    """Return the lowest latency of what only adds up, or the fewest cores for one; None where none reaches it.

    Taking turns on one group of all cores no record is slower than anywhere else: that is proved best. With cores of one's
    own it is one price for all cores.
    """
    cores, n = demand.cores, len(demand)
    target = (demand.request.target or {}).get(LATE, 0.0)
    if demand.sharing:
        return _one_group(demand, target)
    free = cores - demand.least
    if not demand.plain or (free < OWN_MAX and n < OWN_MAX // 100 and comb(free + n, n) <= OWN_MAX):
        return searched(demand)
    taken = lowest_sum(demand, cores, target)
    found = _solution(demand, own_placed(demand, Shapes(taken, np.ones_like(taken))), None, None)
    latency = float(found.judged.latency_s[0])
    return found if not target or (latency <= target * (1 + TIE) and found.cores_used <= cores) else None


def _one_group(demand: Demand, target_s: float) -> Plan | None:
    """Return one group of every core that gains something, or of the fewest for a latency; None where it is not reached.

    Where there are as many cores for each as it is fastest on, each has its own.
    """
    n = len(demand)
    places = None if demand.plain else places_of(demand, demand.widest, by_stay=True)

    def shapes(size: int) -> Shapes:
        if places is None:
            return Shapes(demand.fastest(np.full(n, size)), np.ones(n, np.int64))
        return Shapes(*places.at(np.full(n, size))[2:])

    def latency(size: int) -> float:
        stays = demand.visits * demand.seconds(shapes(size).cores) if places is None else places.at(np.full(n, size))[1]
        return float(stays.sum())

    widest = shapes(demand.widest)
    low, high = int(demand.low.max()) - 1, int((widest.cores * widest.instances).max())
    limit = (target_s or latency(high)) * (1 + TIE)
    if latency(high) > limit:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if latency(middle) <= limit else (middle, high)
    taken = shapes(high)
    placed = own_placed(demand, taken)
    if n == 1 or (not target_s and taken.cores_used <= demand.cores):
        return _solution(demand, placed, 0.0, None)
    group, own = np.zeros((1, n), np.int64), None
    if demand.plain and not target_s and demand.least <= demand.cores:
        own = float((demand.visits * demand.seconds(lowest_sum(demand, demand.cores))).sum())
    return _solution(demand, placed._replace(used=np.array([high]), group=group, widths=group + high), 0.0, own)


# ----------------------------------------------------------------------------------------------------------------------------
# The lowest sum of times with cores of one's own: one price on cores (Lagrange), for which each takes what gains it most.


TINY = 1e-300  # a price of nothing at all
PRICES_MAX, PRICE_NEAR = 60, 1e-10  # halvings of the bracket of the price, and how near its ends come


def lowest_sum(demand: Demand, cores: int, sum_s: float = 0.0) -> Ints:
    """Return cores p_c, sum p_c <= cores, with a sum of v_c T_c(p_c) near the lowest (Lagrange).

    Single instances. With `sum_s` no more cores are taken than such a sum needs. At a price L each component takes the p
    that minimises v T(p) + L p: sqrt(v fall / L) of a piece, or an end. What is left of the cores goes, in text order, to
    those that take more at a price a little lower: exact where curves are convex. Cost O(n m) a price.
    """

    def sum_of(taken: Ints) -> float:
        return float((demand.visits * demand.seconds(taken)).sum())

    def enough(taken: Ints) -> bool:
        return sum_s > 0 and sum_of(taken) <= sum_s * (1 + TIE)

    few, many = demand.low, demand.fastest(demand.high)
    if int(many.sum()) <= cores and not enough(many):
        return many
    gains = demand.visits[:, None] * np.maximum(demand.fall, 0.0)
    least = float(gains[gains > 0].min(initial=1.0)) / float(many.max()) ** 2 / 2
    most = 2 * float(gains.max(initial=1.0))
    for _ in range(PRICES_MAX):
        price = max((least * most) ** 0.5, TINY)
        taken = _taken(demand, price)
        if int(taken.sum()) > cores or enough(taken):
            many, least = taken, price
        else:
            few, most = taken, price
        if most <= least * (1 + PRICE_NEAR):
            break
    found = few.copy()
    for row in np.flatnonzero(many > few).tolist():
        needed = sum_of(found) - sum_s * (1 + TIE) if sum_s > 0 else np.inf
        if needed <= 0:
            break
        counts: Ints = np.arange(int(few[row]), min(int(many[row]), int(few[row]) + cores - int(found.sum())) + 1)
        seconds = demand.rows(np.full(len(counts), row)).seconds(counts)
        now, *times = (demand.visits[row] * seconds).tolist()
        reached = [place for place, after in enumerate(times) if now - after >= needed]
        if reached:
            found[row] = counts[reached[0] + 1]
        elif times and times[-1] < now:
            found[row] = counts[-1]
    return found


def _taken(demand: Demand, price: float) -> Ints:
    """Return the whole cores taken at a price: those of the least seconds and prices."""
    start = np.maximum(demand.knots, demand.low[:, None].astype(np.float64))
    end = np.minimum(np.append(demand.knots[1:], np.inf), demand.high[:, None])
    valid, visits = end >= start, demand.visits[:, None]
    last = np.maximum(end, start)
    real = np.clip(np.sqrt(np.maximum(visits * demand.fall, 0.0) / price), start, last)
    some = np.stack([np.floor(real), np.minimum(np.floor(real) + 1, last)])
    value = np.where(valid, visits * (demand.level + demand.fall / some) + price * some, np.inf)
    each = value.min(axis=0)
    rows, place = np.arange(len(demand)), each.argmin(axis=1)
    side = value[:, rows, place].argmin(axis=0)
    return some[side, rows, place].astype(np.int64)
