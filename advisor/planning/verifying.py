"""Plans for a latency under arrivals: a search by formula finds candidates, executed records rank the best of them.

The formula is then scaled to what a run has found, and the search repeated: near the best plan it agrees with the runs, so that
a target of latency is neither missed nor met with more cores than it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from advisor.planning.demand import PLAIN, Demand, Scales
from advisor.planning.exact import Plan
from advisor.planning.judge import Judged, Placed, execute_placed, judge_placed, latency_of, run_records, score
from advisor.planning.record_runs import VISITS, records_of
from advisor.planning.requests import LATE
from advisor.planning.search import WORST, AllocationKey

ROUNDS_MAX = 3  # searches, each by the formula scaled to the run of the plan found before
RUNS_MAX = 10  # plans executed in all: of a network of ten boxes some 50 ms
LOOK_RECORDS, LOOK_NOISE = 800, 0.1  # of a short run with the same random numbers: differences beyond are no noise
NEAR_MAX = 2  # times that allocations near the best are looked at
FEW = 2  # plans executed in one round
LOOKED, LOOK_WORK = 8, 60  # plans executed for a first look at least, and these times components where that is more

Searching = Callable[[Scales, Scales], tuple[Plan, list[Placed]] | None]
Near = Callable[[Demand, Placed], list[Placed]]


def verified(demand: Demand, search: Searching, near: Near) -> Plan | None:
    """Return the best allocation by its run; None where the search finds none, or no run reaches the target.

    `search` returns what it finds by formulas scaled for cores of one's own and in turns, and allocations from the best on;
    `near` allocations near one, by the formula scaled to its run.
    """
    request = demand.request
    repeats = LATE in (request.target or {})
    many = FEW if repeats or request.for_latency else 1
    ranking, scales = Ranking(demand), {False: PLAIN, True: PLAIN}
    base: Plan | None = None
    for _ in range(ROUNDS_MAX if repeats else 1):
        found = search(scales[False], scales[True])
        fresh = ranking.offer(found[1], many) if found is not None else {}
        base, scales = found[0] if found is not None else base, scales | fresh
        if not fresh:
            break
    for _ in range(NEAR_MAX if request.aim.by_latency else 0):
        best = ranking.best
        if best is None or best[1].group is not None or not ranking.offer(near(*best[:2]), 1) or ranking.best is best:
            break
    if base is None or ranking.best is None:
        return None
    scaled, placed, judged = ranking.best
    return replace(base, demand=scaled, placed=placed, judged=judged)


class Ranking:
    """Allocations that were executed, and the best of them."""

    def __init__(self, demand: Demand) -> None:
        visits = demand.visits
        self.best: tuple[Demand, Placed, Judged] | None = None
        self._demand, self._key, self._seen = demand, WORST, set[bytes]()
        self._left = max(1, int(RUNS_MAX * VISITS / max(records_of(visits) * float(visits.sum()), VISITS)))

    def offer(self, some: list[Placed], many: int) -> dict[bool, Scales]:
        """Execute the best of some allocations that are new; return the scales found first, own or in turns."""
        fresh: dict[bool, Scales] = {}
        for placed in self._looked_at([one for one in some if one.mark not in self._seen])[: min(many, self._left)]:
            self._seen.add(placed.mark)
            self._left -= 1
            near, _, judged = execute_placed(self._demand, placed)
            key = _key(self._demand, placed, judged)
            if key.before(self._key):
                self.best, self._key = (near, placed, judged), key
            fresh.setdefault(placed.group is not None, near.scales)
        return fresh

    def _looked_at(self, some: list[Placed]) -> list[Placed]:
        """Return the best of some allocations by a short run: those that it cannot tell apart, the best first."""
        demand, keys = self._demand, list[tuple[AllocationKey, int]]()
        looked = some[: max(LOOKED, LOOK_WORK // len(demand))]
        if len(looked) < 2:
            return looked
        part = max(records_of(demand.visits) // LOOK_RECORDS, 1)
        for place, placed in enumerate(looked):
            found = judge_placed(demand, placed)
            run = run_records(demand, placed, found, part)
            if run is not None:
                quantile = None if run.quantile_s is None else np.array([run.quantile_s])
                found = replace(found, latency_s=np.array([run.latency_s]), quantile_s=quantile)
            keys.append((_key(demand, placed, found), place))
        keys.sort()
        best = keys[0][0].score
        return [looked[place] for key, place in keys if not key.score > best + LOOK_NOISE * abs(best)]


def _key(demand: Demand, placed: Placed, judged: Judged) -> AllocationKey:
    late = latency_of(judged) if demand.request.for_latency else judged.unloaded_s
    value = score(demand.request, judged, placed.used)
    return AllocationKey(float(value[0]), float(placed.used[0]), float(late[0]))
