"""What a watch asks: when to look again, the best allocation of the moment, and whether changing to it pays (`stability`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.errors import ImpossibleTarget, TargetNotReached, Unsupported
from advisor.planning.asked import Asked, Setting
from advisor.planning.estimates import Estimate, estimate_of
from advisor.planning.plans import plan_request
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


@dataclass(frozen=True, slots=True)
class WatchQuestion:
    """Whether a change of `present` pays.

    `cost_s`: seconds that the network stands still for a change, or by key. `look`: how often was looked since the last change
    of speed.
    """

    present: Setting | None = None  # what the runtime has; None: nothing yet
    cost_s: float | Mapping[str, float] = 0.0
    policy: ChangePolicy = WATCHING
    look: int = 1


class Look(NamedTuple):
    """The best allocation, and whether changing to it pays.

    `verdict` is None where there is no present allocation; `values` are the figures of ``best`` and ``present``.
    """

    allocation: Allocation
    verdict: Verdict | None
    values: dict[str, dict[str, float]]

    @property
    def pays(self) -> bool:
        """True when it is the first allocation, or the change pays."""
        return self.verdict is None or self.verdict.worth


def reconsider(asked: Asked, curves: TabulatedCurves, question: WatchQuestion) -> Look:
    """Return the best allocation of the moment, and whether it is worth telling. Raises and costs as `plan`."""
    request, best = asked.request, plan_request(asked, curves)

    def estimate(allocation: Allocation) -> Estimate:
        return estimate_of(asked, curves, Setting.setting_of(allocation))

    @cache
    def sure() -> tuple[Allocation, Estimate] | None:
        """What is best when every curve is at its upper bound; None where a target is then out of reach."""
        try:
            found = plan_request(asked, replace(curves, elapsed_s=curves.upper_s))
        except (ImpossibleTarget, TargetNotReached, Unsupported):
            return None
        return found, estimate(found)

    then = estimate(best)
    if question.present is None:
        return Look(best, None, {"best": _figures(then)})
    now = estimate_of(asked, curves, question.present)

    def judged(of: Estimate) -> Verdict:
        cautious = sure() if request.aim.fewest else None
        return judge(
            request.objective, asked.keys, now, of, question.cost_s, question.policy, question.look, target=request.target,
            cautious_used=None if cautious is None else cautious[1].cores_used,
        )  # fmt: skip

    verdict = judged(then)
    surer = sure() if verdict.code == "unsure" else None
    # What is best by the bounds stays where the curves are known: a smaller gain, but a surer one.
    if surer is not None and (other := judged(surer[1])).worth:
        (best, then), verdict = surer, other
    return Look(best, verdict, {"best": _figures(then), "present": _figures(now)})


def _figures(of: Estimate) -> dict[str, float]:
    figures = {"throughput_per_s": 1.0 / of.period_s, "latency_s": of.latency_s, "cores": float(of.cores_used)}
    names = ("cost_per_s", "turnover_per_s") if of.demand.request.weights else ()
    return figures | {name: getattr(of, name) for name in names}
