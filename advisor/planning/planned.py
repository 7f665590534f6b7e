"""A plan: what was found for a demand, with its figures as they are planned, promised and expected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from advisor.domain.vectors import Bools, Floats, Ints
from advisor.planning.bounds import promised_share
from advisor.planning.demand import Demand
from advisor.planning.judge import Judged, Placed, cost_of, judge_placed, latency_of
from advisor.planning.search import Search


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

    @property
    def cost_per_s(self) -> float:
        """Cost per second, by the request's weights."""
        return float(cost_of(self.demand.request, self.judged, self.placed.used)[0])

    @property
    def turnover_per_s(self) -> float:
        """All that flows per second, costs and worth: what a saving is a share of, even where the cost is 0."""
        rate = self.demand.request.arrival_per_s or 1 / self.period_s
        return max(self.cost_per_s + 2.0 * float((self.demand.request.weights or {}).get("record", 0.0)) * rate, 1e-300)

    @cached_property
    def expected(self) -> Plan:
        """The same at the times that are expected."""
        return judged_plan(self.demand, self._at(self.demand.expected_share(self.placed.cores[0])))

    @cached_property
    def promised(self) -> Plan:
        """The same at the times that are promised."""
        share = promised_share(self.demand, self.placed.cores[0])
        return self if (share == 1.0).all() else judged_plan(self.demand, self._at(share))

    def _at(self, share: Floats) -> Placed:
        return self.placed._replace(seconds_s=self.placed.seconds_s * share)

    @property
    def within_seen(self) -> bool:
        """Whether the answer promises what it is planned with."""
        return self.promised is self

    @cached_property
    def slowest(self) -> Ints:
        """The components that bound the throughput, or are in a group that does."""
        return np.flatnonzero(self.judged.cycle_s[0] >= self.judged.period_s[0] * (1 - 1e-9))

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
