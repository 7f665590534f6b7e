"""What a watch asks: when to look again, the best allocation of the moment, and whether changing to it pays (`stability`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
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


Unit = tuple[Asked, TabulatedCurves]  # what is planned at once


def reconsider(asked: Asked, curves: TabulatedCurves, question: WatchQuestion) -> Look:
    """Return the best allocation of the moment, and whether it is worth telling. Raises and costs as `plan`."""
    return reconsidered(
        [(asked, curves)], lambda sure: plan_request(asked, sure_of(curves) if sure else curves), question
    )


def sure_of(curves: TabulatedCurves) -> TabulatedCurves:
    """Return curves at their upper bounds."""
    return replace(curves, elapsed_s=curves.upper_s)


def reconsidered(units: Sequence[Unit], plan: Callable[[bool], Allocation], question: WatchQuestion) -> Look:
    """As `reconsider`, of what is planned one after the other, the first first; `plan` has a flag that it must be sure.

    What goes first decides: a change is worth telling for the first unit that gains enough by it, if none before it loses.
    """
    best = plan(False)

    def estimate(setting: Setting) -> list[Estimate]:
        return [estimate_of(*unit, setting) for unit in units]

    @cache
    def sure() -> tuple[Allocation, list[Estimate]] | None:
        """What is best when every curve is at its upper bound; None where a target is then out of reach."""
        try:
            found = plan(True)
        except (ImpossibleTarget, TargetNotReached, Unsupported):
            return None
        return found, estimate(Setting.setting_of(found))

    def judged(of: Sequence[Estimate], against: Sequence[Estimate]) -> Verdict:
        found: list[Verdict] = []
        for place, (asked, _) in enumerate(units):
            request = asked.request
            cautious = sure() if request.aim.fewest else None
            found.append(judge(
                request.objective, asked.keys, against[place], of[place], question.cost_s, question.policy, question.look,
                target=request.target, cautious_used=None if cautious is None else cautious[1][place].cores_used,
            ))  # fmt: skip
        decides = [one for one in found if one.worth or one.gain < -question.policy.gain_min]
        foremost = decides[0] if decides else max(found, key=lambda one: one.gain)
        return foremost._replace(changed=tuple(key for one in found for key in one.changed))

    then = estimate(Setting.setting_of(best))
    if question.present is None:
        return Look(best, None, {"best": _figures(then)})
    now = estimate(question.present)
    verdict = judged(then, now)
    surer = sure() if verdict.code == "unsure" else None
    # What is best by the bounds stays where the curves are known: a smaller gain, but a surer one.
    if surer is not None and (other := judged(surer[1], now)).worth:
        (best, then), verdict = surer, other
    return Look(best, verdict, {"best": _figures(then), "present": _figures(now)})


def _figures(of: Sequence[Estimate]) -> dict[str, float]:
    """Return the figures of all units: sums, and means over their records of what one record is about."""
    rates = np.array([1.0 / one.period_s for one in of])
    found = {
        "throughput_per_s": float(rates.sum()),
        "latency_s": float(elementary.weighted(rates, [one.latency_s for one in of]) / rates.sum()),
        "cores": float(sum(one.cores_used for one in of)),
    }
    if of[0].demand.request.weights:
        found |= {name: sum(getattr(one, name) for one in of) for name in ("cost_per_s", "turnover_per_s")}
    return found
