"""Whether a better allocation is worth telling: its gain, the chance that it is one, and the time that repays the change.

An allocation that is best by a hair under today's estimates is not worth a change: the hair is noise, and a change costs. A
better one is reported when, together,

- its gain is at least `ChangePolicy.gain_min`;
- the chance that it is no gain at all, the curves being as uncertain as they are (`advisor.planning.estimates`), is below the
  k-th share of `ChangePolicy.risk` at the k-th look: risk / (k (k + 1)), shares that sum to `risk` however often one looks;
- the change is repaid within `ChangePolicy.horizon_s`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.allocations import Allocation
from advisor.domain.curves import TabulatedCurves
from advisor.errors import ImpossibleTarget, TargetNotReached, Unsupported
from advisor.planning.demand import TIE, AnyCurves
from advisor.planning.estimates import Estimate, Setting, chance_of, estimate_of, reaches
from advisor.planning.plans import planned
from advisor.planning.questions import Asked
from advisor.planning.requests import CORES, COST, LATENCY, OBJECTIVES, PERIOD, RATE, Floats

GAIN_MIN = 0.1  # as Kubernetes tolerates of its autoscaler: for less a runtime is busy moving cores
RISK = 0.01  # of ever telling a change, between two real ones, that gains nothing: one watch in a hundred
HORIZON_S = 600.0  # a change that takes longer to repay itself may well be overtaken by the next
LEAST_ROWS = 8  # of the network between two looks: the drift test takes 5 rows of a component at the least
GROWTH = 4  # a look comes when a quarter more rows have come since the last change: their errors then are 11 % smaller
SAME_CORES = 0.01  # of the cores told: within it rows show that they are used
COSTS_KEPT = 8  # measured costs of change: what a change took a week ago says little


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """What a watch asks of an advice; see the module."""

    gain_min: float = GAIN_MIN
    risk: float = RISK
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


@dataclass(frozen=True, slots=True)
class CostOfChange:
    """Seconds that the network stands still for a change: given, measured, or both.

    A given cost counts as one measurement: those that follow correct it by the mean of their ratios. Without one the cost is
    the mean of the measured ones, 0 before the first.
    """

    flat_s: float = 0.0  # of any change
    # key -> further seconds where that component's allocation changes: components are changed one after another
    by_key: Mapping[str, float] = field(default_factory=dict[str, float])
    measured: tuple[tuple[float, float], ...] = ()  # (expected, took): the latest, `COSTS_KEPT` at most

    def expected_s(self, changed: Sequence[str]) -> float:
        """Return the seconds to expect of a change of these components. Cost O(changed)."""
        if not changed:
            return 0.0
        given = self.flat_s + elementary.added(self.by_key.get(key, 0.0) for key in changed)
        if not self.measured:
            return given
        if given <= 0.0:
            return elementary.added(took for _, took in self.measured) / len(self.measured)
        ratios = [took / expected for expected, took in self.measured if expected > 0.0]
        return given * (1.0 + elementary.added(ratios)) / (1 + len(ratios))

    def learned(self, changed: Sequence[str], took_s: float) -> CostOfChange:
        """Return the cost after a change of these components took so long."""
        given = self.flat_s + elementary.added(self.by_key.get(key, 0.0) for key in changed)
        return replace(self, measured=(*self.measured, (given, took_s))[-COSTS_KEPT:])


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

    def again(self, rows: int) -> Schedule:
        """Return the schedule with looks close together again, but their count going on."""
        return Schedule(self.rows, self.changes, rows, self.looks)


def risk_at(look: int, policy: ChangePolicy) -> float:
    """Return the chance of no gain that is taken at the k-th look: shares of `policy.risk` that sum to it."""
    k = max(1, look)
    return policy.risk / (k * (k + 1.0))


def judge(
    objective: str,
    keys: Sequence[str],
    now: Estimate,
    then: Estimate,
    cost: CostOfChange,
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
    cost_s = cost.expected_s(changed)
    risk = risk_at(look, policy)
    measure = OBJECTIVES[objective].measure
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
    code, text = _words(gain, probability, break_even, cost_s, changed, risk, policy)
    return Verdict(gain, probability, cost_s, break_even, changed, code == "worth", code, text)


def changes(keys: Sequence[str], now: Estimate, then: Estimate) -> tuple[str, ...]:
    """Return the keys whose cores, instances or companions on them differ, in text order."""
    differ = ~now.same(then) | (now.shared_with() != then.shared_with())
    return tuple(key for key, other in zip(keys, differ.tolist(), strict=True) if other)


def _words(
    gain: float,
    probability: float,
    break_even_s: float,
    cost_s: float,
    changed: Sequence[str],
    risk: float,
    policy: ChangePolicy,
) -> tuple[str, str]:
    if not changed:
        return "same", "the present allocation is the best one known"
    if gain < policy.gain_min:
        return (
            "small",
            f"the best allocation known would gain {gain:.2%}; less than {policy.gain_min:.2%} is not worth a change",
        )
    if 1.0 - probability > risk:
        return "unsure", (
            f"the best allocation known would gain {gain:.1%}, with probability {probability:.4f}: below"
            f" {1.0 - risk:.4f} that may be noise"
        )
    if break_even_s > policy.horizon_s:
        return "unpaid", (
            f"it would gain {gain:.1%}, but the change costs {cost_s:.3g} s and is repaid after {break_even_s:.3g} s only;"
            f" the horizon is {policy.horizon_s:g} s"
        )
    return "worth", (
        f"it gains {gain:.1%}, with probability {probability:.4f}; the change costs {cost_s:.3g} s and is repaid after"
        f" {break_even_s:.3g} s"
    )


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
    idle = float((now.model.request.weights or {}).get("core_s", 0.0)) * then.used
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
    saved = now.used - then.used
    if saved <= 0:
        return 0.0, 0.0, math.inf
    sure = cautious_used is not None and cautious_used < now.used
    if sure and cautious_used is not None:
        saved = min(saved, now.used - cautious_used)
    # All cores stand still for the cost; afterwards those saved do other work.
    return saved / now.used, 1.0 if sure else 0.5, cost_s * now.used / saved


@dataclass(frozen=True, slots=True)
class WatchQuestion:
    """What a watch asks when it looks again."""

    present: Setting | None  # what the runtime has; None where nobody has told and no row has shown it
    # what it was last advised and has not applied: an advice is not repeated, and is taken back when it has become wrong
    advised: Setting | None
    cost: CostOfChange
    policy: ChangePolicy
    look: int  # how often was looked since the last change of speed
    actual: Setting | None = None  # what rows show that it does
    previous: Setting | None = None  # what it had before a change that is still to be judged


class Look(NamedTuple):
    """What a look found: the best allocation, what all give, and what to report.

    `kind` is ``first`` (nothing stands yet), ``advice``, ``withdrawn`` or empty; `values` are the figures of
    ``best``, and of ``present``, ``advised``, ``actual`` and ``previous`` where there are such; `visits` (n,) are those of a
    record, None where networks are planned one after the other.
    """

    kind: str
    allocation: Allocation
    verdict: Verdict | None
    values: dict[str, dict[str, float]]
    visits: Floats | None


Unit = tuple[Asked, TabulatedCurves]  # what is planned at once


def reconsider(asked: Asked, curves: TabulatedCurves, question: WatchQuestion) -> Look:
    """Return the best allocation of the moment, and whether it is worth telling. Raises and costs as `plan`."""
    return reconsidered([(asked, curves)], lambda sure: planned(asked, sure_of(curves) if sure else curves), question)


def sure_of(curves: AnyCurves) -> AnyCurves:
    """Return curves at their upper bounds, where they have some."""
    return replace(curves, elapsed_s=curves.upper_s) if isinstance(curves, TabulatedCurves) else curves


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
        return found, estimate(Setting.of(found))

    def judged(of: Sequence[Estimate], against: Sequence[Estimate], policy: ChangePolicy) -> Verdict:
        found: list[Verdict] = []
        for place, (asked, _) in enumerate(units):
            request = asked.terms.request
            cautious = sure() if request.aim.fewest else None
            found.append(judge(
                request.objective, asked.terms.keys, against[place], of[place], question.cost, policy, question.look,
                target=request.target, cautious_used=None if cautious is None else cautious[1][place].used,
            ))  # fmt: skip
        decides = [one for one in found if one.worth or one.gain < -policy.gain_min]
        foremost = decides[0] if decides else max(found, key=lambda one: one.gain)
        return foremost._replace(changed=tuple(key for one in found for key in one.changed))

    then, visits = estimate(Setting.of(best)), units[0][0].terms.visits.per_record if len(units) == 1 else None
    values = {"best": _figures(then)}
    if question.actual is not None:
        values["actual"] = _figures(estimate(_as_told(question.actual, question)))
    if question.previous is not None:
        values["previous"] = _figures(estimate(question.previous))
    if question.present is None:
        return Look("first", best, None, values, visits)
    now = estimate(question.present)
    values["present"] = _figures(now)
    verdict = judged(then, now, question.policy)
    surer = sure() if verdict.code == "unsure" else None
    # What is best by the bounds stays where the curves are known: a smaller gain, but a surer one.
    if surer is not None and (other := judged(surer[1], now, question.policy)).worth:
        (best, then), verdict = surer, other
    if question.advised is None:
        return Look("advice" if verdict.worth else "", best, verdict, values, visits)
    before = estimate(question.advised)
    values["advised"] = _figures(before)
    # Of two that are both good enough the one that was told stays: the new one must be worth a change from that, too.
    if verdict.worth and judged(then, before, question.policy).worth:
        return Look("advice", best, verdict, values, visits)
    still = judged(before, now, replace(question.policy, gain_min=0.0, risk=1.0))
    gone = still.gain <= 0.0 or still.probability < 0.5
    return Look("withdrawn" if gone else "", best, verdict, values, visits)


def _as_told(actual: Setting, question: WatchQuestion) -> Setting:
    """Return what rows show with the groups of the last advice, where the cores are those: rows do not tell who takes turns."""
    for told in (question.present, question.advised):
        if told is not None and told.groups and all(
            abs(actual.cores[key] - cores) <= SAME_CORES * cores for key, cores in told.cores.items()
        ):  # fmt: skip
            return replace(actual, groups=told.groups)
    return actual


def _figures(of: Sequence[Estimate]) -> dict[str, float]:
    """Return the figures of all units: sums, and means over their records of what one record is about."""
    rates = np.array([1.0 / one.period_s for one in of])
    found = {
        "throughput_per_s": float(rates.sum()),
        "latency_s": float(elementary.weighted(rates, [one.latency_s for one in of]) / rates.sum()),
        "cores": float(sum(one.used for one in of)),
        "work_s": float(elementary.weighted(rates, [one.work_s for one in of]) / rates.sum()),
    }
    if of[0].model.request.weights:
        found |= {name: sum(getattr(one, name) for one in of) for name in ("cost_per_s", "turnover_per_s")}
    return found
