"""Plans, and those of closed forms: throughput by thresholds, alone and in turns, and sums of times, with their proofs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, comb
from typing import NamedTuple

import numpy as np

from advisor.domain.vectors import Bools, Floats, Ints
from advisor.planning.bounds import promised_share, work_s
from advisor.planning.demand import Demand, Shapes
from advisor.planning.judge import Judged, Placed, judge_placed, latency_of, own_placed
from advisor.planning.moves import steps_from
from advisor.planning.options import Places, options_of, places_of
from advisor.planning.partitions import KERNELS
from advisor.planning.pieces import TIE
from advisor.planning.requests import RATE
from advisor.planning.search import OWN_MAX, Search
from advisor.planning.sharing import Groupings, best_grouping, in_turns

CELLS_MAX = 960_000  # components times cores up to which many components are packed on tables of all sizes


class Change(NamedTuple):
    """What became of the current allocation; `gain` is that of the best one known."""

    kept: bool
    gain: float = 0.0
    why: str = ""  # what it breaks


@dataclass(frozen=True, eq=False)
class Plan:
    """An allocation for a demand, as its answer needs it."""

    demand: Demand
    # one row each
    placed: Placed
    judged: Judged
    gap: float | None = None  # 0 where it is proved best, else None
    own_value: float | None = None  # what cores of one's own reach, in the measure of the objective
    search: Search | None = None  # what was judged on the way; None where closed forms answer
    change: Change | None = None  # where an allocation was in use
    given: bool = False  # nothing was looked for: it is what a caller has
    # relative standard errors of each component's level and shape, (n,) each; None: those of the curves
    errors: tuple[Floats, Floats] | None = None

    @property
    def shared(self) -> bool:
        """Whether components take turns."""
        group = self.placed.group
        return group is not None and int(group.max()) + 1 < group.shape[1]

    @property
    def cores_used(self) -> int:
        """Cores taken."""
        return int(self.placed.used[0])

    @property
    def spare(self) -> int:
        """Cores left free; 0 where no number was given."""
        given = self.demand.request.cores
        return 0 if given is None else given - self.cores_used

    @property
    def period_s(self) -> float:
        """Seconds between records that it sustains."""
        return float(self.judged.period_s[0])

    @property
    def latency_s(self) -> float:
        """Latency that the request is about: joined, queued, or its quantile."""
        return float(latency_of(self.judged)[0])

    @cached_property
    def expected(self) -> Plan:
        """The same at the times that are expected."""
        cores, demand = self.placed.cores[0], self.demand
        return judged_plan(demand, self._at(demand.expected.seconds(cores) / demand.seconds(cores)))

    @cached_property
    def promised(self) -> Plan:
        """The same at the times that are promised."""
        cores = self.placed.cores[0]
        if self.demand.within_seen(cores) or ((share := promised_share(self.demand, cores)) == 1.0).all():
            return self
        return judged_plan(self.demand, self._at(share))

    def _at(self, share: Floats) -> Placed:
        return self.placed._replace(seconds_s=self.placed.seconds_s * share)

    @property
    def within_seen(self) -> bool:
        """Whether the answer promises what it is planned with."""
        return self.promised is self

    @cached_property
    def slowest(self) -> Ints:
        """The components that bound the throughput that is promised, or are in a group that does."""
        judged = self.promised.judged
        return np.flatnonzero(judged.cycle_s[0] >= judged.period_s[0] * (1 - 1e-9))

    def same(self, other: Plan) -> Bools:
        """Return which components have the same cores and instances in both, (n,)."""
        one, two = self.placed, other.placed
        return (one.cores[0] == two.cores[0]) & (one.instances[0] == two.instances[0])

    def shared_with(self) -> Ints:
        """Return each component's first companion on its cores, (n,), which names its group whatever its number."""
        if self.placed.group is None:
            return np.arange(len(self.demand))
        _, first, group = np.unique(self.placed.group[0], return_index=True, return_inverse=True)
        return first[group]


def judged_plan(
    demand: Demand,
    placed: Placed,
    gap: float | None = None,
    own_value: float | None = None,
    search: Search | None = None,
) -> Plan:
    """Return a plan of one allocation."""
    return Plan(demand, placed, judge_placed(demand, placed), gap, own_value, search)


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
        own = judged_plan(demand, placed, gap, float(used) if fewest else period)
    if shared is None:
        found = own
    else:
        found = judged_plan(demand, in_turns(demand, *shared), gap, own and own.own_value)
        if own is not None and demand.curves.uncertain and not fewest:
            # Times that allow for errors found the turns. Own cores of which more is expected and promised are better.
            better = own.promised.period_s <= found.promised.period_s
            better = better and own.expected.period_s <= found.expected.period_s
            found = own if better else replace(found, own_value=own.expected.period_s)
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
    taken, (group, widths) = np.empty((2, n), np.int64), np.empty((2, n), np.int64)
    times, shapes = np.empty((2, n, len(sizes))), np.empty((2, n, len(sizes)), np.int64)
    KERNELS.best_period(
        (demand.level, demand.fall, demand.knots), demand.limits, demand.visits, cores, target_s, taken, np.empty(n),
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


# --- the latency of a lone record: sums -----------------------------------------------------------------------------------


def has_few_allocations(demand: Demand) -> bool:
    """Return whether all allocations with cores of one's own are judged; and where more than fewest and most limits shapes."""
    n, free = len(demand), demand.cores - demand.least
    return not demand.plain or (free < OWN_MAX and n < OWN_MAX // 100 and comb(free + n, n) <= OWN_MAX)


def one_group(demand: Demand, target_s: float) -> Plan | None:
    """Return one group of every core that gains something, or of the fewest for a latency; None where it is not reached.

    No record is slower than anywhere else: that is proved best. With as many cores for each as it is fastest on, each
    has its own.
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
        return judged_plan(demand, placed, 0.0)
    group, own = np.zeros((1, n), np.int64), None
    if demand.plain and not target_s and demand.least <= demand.cores:
        lowest = lowest_sum(demand)
        own = lowest and lowest.latency_s
    return judged_plan(demand, placed._replace(used=np.array([high]), group=group, widths=group + high), 0.0, own)


def lowest_sum(demand: Demand, target_s: float = 0.0) -> Plan | None:
    """Return cores of one's own by the largest gain a core, up to all of them or to a latency; None where that is not reached.

    Exact where curves are convex.
    """
    options, least = options_of(demand), np.zeros(len(demand), np.int64)
    visits = demand.visits[:, None]
    values = np.where(visits > 0, visits * np.where(visits > 0, options.seconds_s, 0.0), 0.0)
    steps, falls = steps_from(options, values, least, demand.cores, by_sum=True)
    if target_s:
        reached = float(values[:, 0].sum()) - np.concatenate([[0.0], np.cumsum(falls)]) <= target_s * (1 + TIE)
        if not reached.any():
            return None
        steps = steps[: int(reached.argmax())]
    least[steps[:, 0]] = steps[:, 1]  # of several steps of one component the last stays
    return judged_plan(demand, options.pick(least[None]))
