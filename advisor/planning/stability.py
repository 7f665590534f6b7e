"""Whether another allocation than the current one pays: its gain, the chance that it is one, what repays the change.

An allocation that is best by a hair under today's estimates is not worth a change: the hair is noise, and a change costs. One
gain (`gain_of`), and one bound on it, for `allocate(current=…)` and for watches. There a better one pays when, together,

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
from functools import partial
from typing import NamedTuple

import numpy as np

from advisor.domain import elementary
from advisor.domain.advice import CHANCE, GAIN_LEAST, HORIZON_S
from advisor.planning.by_key import is_allowed
from advisor.planning.demand import Demand
from advisor.planning.estimates import chance_of, placed_of, reaches
from advisor.planning.exact import Change, Plan
from advisor.planning.judge import Placed, execute_placed, meets
from advisor.planning.pieces import TIE
from advisor.planning.present import InUse
from advisor.planning.requests import CORES, LATENCY, PERIOD, RATE
from advisor.planning.search import nodes_of


@dataclass(frozen=True, slots=True)
class ChangePolicy:
    """When a change pays; see the module."""

    gain_min: float = GAIN_LEAST
    chance: float = CHANCE
    horizon_s: float = HORIZON_S


WATCHING = ChangePolicy()


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


def risk_at(look: int, chance: float) -> float:
    """Return the chance of no gain that is taken at the k-th look: shares of 1 - `chance` that sum to it."""
    k = max(1, look)
    return (1.0 - chance) / (k * (k + 1.0))


def judge(
    now: Plan,
    then: Plan,
    cost: float | Mapping[str, float],
    policy: ChangePolicy,
    look: int = 1,
    *,
    cautious_used: int | None = None,
) -> Verdict:
    """Return whether going from `now` to `then` is worth it, at the k-th `look` since the last change of speed.

    For ``fewest_cores`` `cautious_used` is what a plan on the curves' upper bounds would use,
    so that no cores are given up for a target that is met by luck. Cost: that of the draws that are judged.
    """
    changed = changes(now, then)
    cost_s = cost_of_change(cost, changed)
    gain, break_even, chance, sure = gain_of(now, then, cost_s, cautious_used)
    probability = chance()
    unsure = probability < 1.0 - risk_at(look, policy.chance) if sure is None else not sure
    stated = f", with probability {probability:.4f}"
    paid = f"the change costs {cost_s:.3g} s and is repaid after {break_even:.3g} s"
    code, text = next((code, text) for code, holds, text in (
        ("same", not changed, "the present allocation is the best one known"),
        ("small", gain < policy.gain_min,
         f"the best allocation known would gain {gain:.2%}; less than {policy.gain_min:.2%} is not worth a change"),
        ("unsure", unsure, f"the best allocation known would gain {gain:.1%}{stated}: that may be noise"),
        ("unpaid", break_even > policy.horizon_s,
         f"it would gain {gain:.1%}, but {paid} only; the horizon is {policy.horizon_s:g} s"),
        ("worth", True, f"it gains {gain:.1%}{stated}; {paid}"),
    ) if holds)  # fmt: skip
    return Verdict(gain, probability, cost_s, break_even, changed, code == "worth", code, text)


def gain_of(
    now: Plan, then: Plan, cost_s: float = 0.0, cautious_used: int | None = None
) -> tuple[float, float, Callable[[], float], bool | None]:
    """Return the gain of `then` as a share, the seconds that repay `cost_s`, what tells the chance of it, and if it is sure.

    None: by the chance.
    """
    measure, sure = now.demand.request.aim.measure, None
    if measure == CORES:
        gain, break_even, chance, sure = _fewer(now, then, cost_s, cautious_used)
    else:
        gain, break_even = GAINS[measure](now, then, cost_s)
        chance = partial(chance_of, now, then, measure)
    return gain if abs(gain) > TIE else 0.0, break_even, chance, sure


def changes(now: Plan, then: Plan) -> tuple[str, ...]:
    """Return the keys whose cores, instances or companions on them differ, in text order."""
    differ = ~now.same(then) | (now.shared_with() != then.shared_with())
    return tuple(key for key, other in zip(now.demand.keys, differ.tolist(), strict=True) if other)


def _shorter_period(now: Plan, then: Plan, cost_s: float) -> tuple[float, float]:
    """Return gain and break-even of a higher throughput: rate_then (t - cost) = rate_now t."""
    gain = now.period_s / then.period_s - 1.0
    return gain, cost_s * (1.0 + gain) / gain if gain > 0 else math.inf


def _lower_latency(now: Plan, then: Plan, cost_s: float) -> tuple[float, float]:
    """Return gain and break-even of a lower latency.

    Records that come while all stands still wait for half of it on average; each later one gains what is saved.
    """
    saved = now.latency_s - then.latency_s if math.isfinite(then.latency_s) else 0.0
    gain = saved / now.latency_s if math.isfinite(saved) else 1.0
    return gain, cost_s + cost_s * cost_s / (2.0 * saved) if saved > 0 else math.inf


GAINS: Mapping[str, Callable[[Plan, Plan, float], tuple[float, float]]] = {
    PERIOD: _shorter_period, LATENCY: _lower_latency,
}  # fmt: skip


def _fewer(
    now: Plan, then: Plan, cost_s: float, cautious_used: int | None
) -> tuple[float, float, Callable[[], float], bool | None]:
    """Return, as `gain_of`, what it is to reach a target again, or to reach it with fewer cores."""
    ((name, value),) = (now.demand.request.target or {}).items()
    bound = 1.0 / value if name == RATE else value
    has, would = ((one.period_s if name == RATE else one.latency_s) for one in (now, then))
    if has > bound * (1.0 + TIE):
        return has / max(would, bound) - 1.0, 0.0, lambda: 1.0 - reaches(now, name, value), None
    saved = now.cores_used - then.cores_used
    sure = cautious_used is not None and cautious_used <= then.cores_used
    # All cores stand still for the cost; afterwards those saved do other work.
    break_even = cost_s * now.cores_used / saved if saved > 0 else math.inf
    return max(saved, 0) / now.cores_used, break_even, partial(reaches, then, name, value), sure


# --- the current allocation of `allocate` -----------------------------------------------------------------------------------


def keep_current(found: Plan, current: InUse) -> Plan:
    """Return the current allocation by today's curves, or the one found where that pays or the current one is not allowed.

    Cost: that of one allocation judged.
    """
    demand, request = found.demand, found.demand.request
    placed = placed_of(demand, current)
    if placed.mark == found.placed.mark:
        return replace(found, change=Change(kept=True, gain=0.0))
    if why := _broken(demand, placed):
        return replace(found, change=Change(kept=False, why=why))
    now = replace(Plan(*execute_placed(demand, placed)), search=found.search, given=True)
    if not meets(request, now.promised.judged).all():
        return replace(found, change=Change(kept=False, why="it misses the target"))
    gain, *_ = gain_of(now.expected, found.expected)
    if gain >= GAIN_LEAST:
        return replace(found, change=Change(kept=False, gain=gain))
    return replace(now, change=Change(kept=True, gain=max(gain, 0.0)))


def _broken(demand: Demand, placed: Placed) -> str:
    """Return what of a request an allocation breaks, in words; empty where it breaks nothing."""
    cores, instances, used = placed.cores[0], placed.instances[0], int(placed.used[0])
    if used > demand.cores:
        return f"it takes {used} cores of {demand.cores}"
    outside = (cores < demand.low) | (cores > demand.high) | (instances < demand.fewest) | (instances > demand.most)
    for row, rule in demand.rules.items():
        outside[row] |= not (demand.low[row] <= cores[row] <= demand.high[row]) or not is_allowed(rule, cores[row])
    if outside.any():
        return f"{demand.keys[int(outside.argmax())]} may not have what it has"
    shared = placed.group is not None and len(np.unique(placed.group)) < len(cores)
    if shared and not demand.sharing:
        return "components may not take turns"
    return "" if nodes_of(demand, placed, 0) else "it does not fit the nodes"
