"""Whether a better allocation pays: its gain, the chance that it is one, and the time that repays the change.

An allocation that is best by a hair under today's estimates is not worth a change: the hair is noise, and a change costs. A
better one pays when, together,

- its gain is at least `ChangePolicy.gain_min`;
- the chance that it is a gain at all, the curves being as uncertain as they are (`advisor.planning.estimates`), is high
  enough: the k-th look may be wrong with a probability of (1 - `ChangePolicy.chance`) / (k (k + 1)), shares that sum to 1 -
  `chance` however often one looks;
- the change is repaid within `ChangePolicy.horizon_s`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.errors import ImpossibleTarget, TargetNotReached, Unsupported
from advisor.planning.asked import Asked
from advisor.planning.demand import TIE
from advisor.planning.estimates import Estimate, Setting, chance_of, estimate_of, reaches
from advisor.planning.plans import plan_request
from advisor.planning.requests import CORES, COST, LATENCY, OBJECTIVES, PERIOD, RATE

GAIN_MIN = 0.1  # as Kubernetes tolerates of its autoscaler: for less a runtime is busy moving cores
CHANCE = 0.99  # that a change gains anything: of a hundred watches one may advise a change that gains nothing
HORIZON_S = 600.0  # a change that takes longer to repay itself may well be superseded by the next
LEAST_ROWS = 8  # of the network between two looks: the drift test takes 5 rows of a component at the least
GROWTH = 4  # a look comes when a quarter more rows have come since the last change: their errors then are 11 % smaller


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """When a change pays; see the module."""

    gain_min: float = GAIN_MIN
    chance: float = CHANCE
    horizon_s: float = HORIZON_S


class Verdict(NamedTuple):
    """What is to be said of one allocation against another. `gain` and `probability` are of the objective."""

    gain: float
    probability: float
    cost_s: float
    break_even_s: float
    changed: tuple[str, ...]
    worth: bool
    code: str
    text: str


def cost_of_change(given: float | Mapping[str, float], changed: Sequence[str]) -> float:
    """Return the seconds that the network stands still: of any change, or the sum over the components that change."""
    if isinstance(given, Mapping):
        return elementary.added(given.get(key, 0.0) for key in changed)
    return given if changed else 0.0


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


def risk_at(look: int, policy: ChangePolicy) -> float:
    """Return the chance of no gain that is taken at the k-th look: shares of 1 - `policy.chance` that sum to it."""
    k = max(1, look)
    return (1.0 - policy.chance) / (k * (k + 1.0))


def judge(
    objective: str,
    keys: Sequence[str],
    now: Estimate,
    then: Estimate,
    cost: float | Mapping[str, float],
    policy: ChangePolicy,
    look: int = 1,
    *,
    target: Mapping[str, float] | None = None,
    cautious_used: int | None = None,
) -> Verdict:
    """Return whether going from `now` to `then` is worth telling, at the k-th `look` since the last change of speed.

    For ``cost`` the gain is what is saved, as a share of all that flows now, what cores and waiting cost and what records
    are worth. For ``fewest_cores`` with `target`, `cautious_used` is what a plan on the curves' upper bounds would use,
    so that no cores are given up for a target that is met by luck. Cost: that of the draws that are judged.
    """
    changed = changes(keys, now, then)
    cost_s, risk, measure = cost_of_change(cost, changed), risk_at(look, policy), OBJECTIVES[objective].measure
    if measure == CORES and target:
        gain, probability, break_even = _fewer(now, then, cost_s, target, cautious_used)
    elif measure == COST:
        gain, probability, break_even = _cheaper(now, then, cost_s)
    elif measure == LATENCY:
        saved = now.latency_s - then.latency_s if math.isfinite(then.latency_s) else 0.0
        gain, probability = saved / now.latency_s if math.isfinite(saved) else 1.0, chance_of(now, then, LATENCY)
        # Records that come while all stands still wait for half of it on average; each later one gains `saved`.
        break_even = cost_s + cost_s * cost_s / (2.0 * saved) if saved > 0 else math.inf
    else:
        gain, probability = now.period_s / then.period_s - 1.0, chance_of(now, then, PERIOD)
        # rate_then (t - cost) = rate_now t
        break_even = cost_s * (1.0 + gain) / gain if gain > 0 else math.inf
    gain = gain if abs(gain) > TIE else 0.0
    would, sure = f"would gain {gain:.1%}", f"with probability {probability:.4f}"
    paid = f"the change costs {cost_s:.3g} s and is repaid after {break_even:.3g} s"
    code, text = next((code, text) for code, holds, text in (
        ("same", not changed, "the present allocation is the best one known"),
        ("small", gain < policy.gain_min,
         f"the best allocation known would gain {gain:.2%}; less than {policy.gain_min:.2%} is not worth a change"),
        ("unsure", 1.0 - probability > risk,
         f"the best allocation known {would}, {sure}: below {1.0 - risk:.4f} that may be noise"),
        ("unpaid", break_even > policy.horizon_s, f"it {would}, but {paid} only; the horizon is {policy.horizon_s:g} s"),
        ("worth", True, f"it gains {gain:.1%}, {sure}; {paid}"),
    ) if holds)  # fmt: skip
    return Verdict(gain, probability, cost_s, break_even, changed, code == "worth", code, text)


def changes(keys: Sequence[str], now: Estimate, then: Estimate) -> tuple[str, ...]:
    """Return the keys whose cores, instances or companions on them differ, in text order."""
    differ = ~now.same(then) | (now.shared_with() != then.shared_with())
    return tuple(key for key, other in zip(keys, differ.tolist(), strict=True) if other)


def _cheaper(now: Estimate, then: Estimate, cost_s: float) -> tuple[float, float, float]:
    """Return gain, probability and break-even of a lower cost.

    While all stands still, cores cost and nothing is earned: cost_now t = core_s used cost_s + cost_then (t - cost_s).
    """
    before, after = now.cost_per_s, then.cost_per_s
    if not math.isfinite(after):
        return 0.0, 0.0, math.inf
    if not math.isfinite(before):
        return 1.0, chance_of(now, then, COST), cost_s
    saved = before - after
    if saved <= 0:
        return saved / now.turnover_per_s, 0.0, math.inf
    idle = float((now.model.request.weights or {}).get("core_s", 0.0)) * then.cores_used
    return saved / now.turnover_per_s, chance_of(now, then, COST), max(cost_s * (idle - after) / saved, cost_s)


def _fewer(
    now: Estimate, then: Estimate, cost_s: float, target: Mapping[str, float], cautious_used: int | None
) -> tuple[float, float, float]:
    """Return gain, probability and break-even of reaching a target again, or of reaching it with fewer cores."""
    ((name, value),) = target.items()
    bound = 1.0 / value if name == RATE else value
    has = now.period_s if name == RATE else now.latency_s
    if has > bound * (1.0 + TIE):
        would = then.period_s if name == RATE else then.latency_s
        missed = 1.0 - reaches(now, name, bound)
        return has / max(would, bound) - 1.0, missed, 0.0
    saved = now.cores_used - then.cores_used
    if saved <= 0:
        return 0.0, 0.0, math.inf
    sure = cautious_used is not None and cautious_used < now.cores_used
    if sure and cautious_used is not None:
        saved = min(saved, now.cores_used - cautious_used)
    # All cores stand still for the cost; afterwards those saved do other work.
    return saved / now.cores_used, 1.0 if sure else 0.5, cost_s * now.cores_used / saved


@dataclass(frozen=True, slots=True)
class WatchQuestion:
    """Whether a change of `present` pays.

    `cost_s`: seconds that the network stands still for a change, or by key. `look`: how often was looked since the last change
    of speed.
    """

    present: Setting | None = None  # what the runtime has; None: nothing yet
    cost_s: float | Mapping[str, float] = 0.0
    policy: ChangePolicy = ChangePolicy()
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
    if of[0].model.request.weights:
        found |= {name: sum(getattr(one, name) for one in of) for name in ("cost_per_s", "turnover_per_s")}
    return found
