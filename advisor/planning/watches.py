"""What a watch asks: when to look again, the best allocation of the moment, and whether changing to it pays (`stability`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.errors import ImpossibleTarget, TargetNotReached, Unsupported
from advisor.planning.estimates import estimated
from advisor.planning.exact import Plan
from advisor.planning.plans import plan_request
from advisor.planning.present import in_use_of
from advisor.planning.requests import Request
from advisor.planning.stability import WATCHING, ChangePolicy, Verdict, judge

LEAST_ROWS = 8  # of the network between two looks: the drift test takes 5 rows of a component at the least
GROWTH = 4  # a look comes when a quarter more rows have come since the last change: their errors then are 11 % smaller


@dataclass(frozen=True, slots=True)
class Schedule:
    """When to look again, in rows of the network's components: spacing grows with the rows since the last change of speed."""

    # at the last look
    rows: int = 0
    changes: int = 0
    origin: int = 0  # rows at the last change of a component's speed, or at the beginning
    looks: int = 0  # looks since then: the k of `risk / (k (k + 1))`

    def due(self, rows: int, changes: int, components: int) -> bool:
        """Return whether to look now. A change of speed is looked at at once."""
        if changes != self.changes:
            return True
        least = max(LEAST_ROWS, min(components, 64))
        return rows >= self.rows + max(least, (self.rows - self.origin) // GROWTH)

    def looked(self, rows: int, changes: int) -> Schedule:
        """Return the schedule after a look."""
        if changes != self.changes:
            return Schedule(rows, changes, rows, 1)
        return Schedule(rows, changes, self.origin, self.looks + 1)


Look = tuple[Allocation, Verdict | None, dict[str, dict[str, float]]]


def reconsider(
    request: Request,
    curves: TabulatedCurves,
    cost_s: float | Mapping[str, float] = 0.0,
    policy: ChangePolicy = WATCHING,
    look: int = 1,
) -> Look:
    """Return the best allocation of the moment, whether changing to it from `current` pays, and the figures of both.

    The verdict is None where the request names no current allocation. `cost_s`: seconds that the network stands still for a
    change, or by key. `look`: how often was looked since the last change of speed. Raises and costs as `plan`.
    """
    anew = replace(request, current=None)
    best = plan_request(anew, curves)

    def estimate(allocation: Allocation) -> Plan:
        return estimated(anew, curves, in_use_of("current", allocation.as_wire(), request.keys))

    @cache
    def sure() -> tuple[Allocation, Plan] | None:
        """What is best when every curve is at its upper bound; None where a target is then out of reach."""
        try:
            found = plan_request(anew, replace(curves, elapsed_s=curves.upper_s))
        except (ImpossibleTarget, TargetNotReached, Unsupported):
            return None
        return found, estimate(found)

    then = estimate(best)
    if request.in_use is None:
        return best, None, {"best": _figures(then)}
    now = estimated(anew, curves, request.in_use)

    def judged(of: Plan) -> Verdict:
        cautious = sure() if request.aim.fewest else None
        used = None if cautious is None else cautious[1].cores_used
        return judge(now, of, cost_s, policy, look, cautious_used=used)

    verdict = judged(then)
    surer = sure() if verdict.code == "unsure" else None
    # What is best by the bounds stays where the curves are known: a smaller gain, but a surer one.
    if surer is not None and (other := judged(surer[1])).worth:
        (best, then), verdict = surer, other
    return best, verdict, {"best": _figures(then), "present": _figures(now)}


def pays(verdict: Verdict | None) -> bool:
    """Return whether it is the first allocation, or the change pays."""
    return verdict is None or verdict.worth


def _figures(of: Plan) -> dict[str, float]:
    return {"throughput_per_s": 1.0 / of.period_s, "latency_s": of.latency_s, "cores": float(of.cores_used)}
