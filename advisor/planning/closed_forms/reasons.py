"""Why an allocation is as it is: reasons with a code for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from advisor.domain.answers import Reason
from advisor.planning.asked.demand import Ints
from advisor.planning.asked.requests import Request
from advisor.planning.asked.table_demand import AnyDemand
from advisor.planning.closed_forms.throughput import least_cores, total_cores
from advisor.planning.closed_forms.turns import work_bound

REASONS_MAX = 3  # of one code: the rest are counted in the last one's words
STEP = 1e-9  # a period shorter by this share is the next one, not this one with rounding
WORTH_SAYING = 1.1  # a bound this many times the throughput is worth a sentence


@dataclass(frozen=True, slots=True)
class Outcome:
    """A solved problem, as the reasons need it: `slowest` are the rows that bound the throughput."""

    keys: tuple[str, ...]
    demand: AnyDemand
    request: Request
    solution: tuple[Ints, Ints]
    used: int
    period_s: float
    slowest: Ints

    @property
    def cores(self) -> Ints:
        """Cores per instance."""
        return self.solution[0]

    @property
    def instances(self) -> Ints:
        """Instances."""
        return self.solution[1]

    @property
    def for_latency(self) -> bool:
        """True when latency is what was planned for."""
        return self.request.objective == "latency" or "latency_s" in (self.request.target or {})

    @property
    def spare(self) -> int:
        """Cores left free; 0 where no number was given."""
        return 0 if self.request.cores is None else self.request.cores - self.used


def reasons(outcome: Outcome) -> tuple[Reason, ...]:
    """Return the reasons, the most telling first. Cost O(n)."""
    return tuple(reason for explain in REASONS for reason in explain(outcome))


def _target(outcome: Outcome) -> Iterator[Reason]:
    for name, value in (outcome.request.target or {}).items():
        reached = 1 / outcome.period_s if name == "throughput_per_s" else outcome.demand.latency_s(outcome.cores)
        unit = "records/s" if name == "throughput_per_s" else "s"
        text = f"{outcome.used} cores reach {amount(reached)} {unit}; the target is {amount(value)} {unit}"
        yield Reason("target", None, reached, text)


def _bottleneck(outcome: Outcome) -> Iterator[Reason]:
    seconds, rate = outcome.demand.seconds(outcome.cores), 1 / outcome.period_s
    for row, more in first(outcome.slowest):
        n, cores = int(outcome.instances[row]), int(outcome.cores[row])
        where = f"{plural(cores, 'core')}" if n == 1 else f"{n} instances of {plural(cores, 'core')}"
        text = (
            f"{outcome.keys[row]} bounds the throughput at {amount(rate)} records/s:"
            f" {amount(seconds[row])} s a record on {where}{more}"
        )
        yield Reason("bottleneck", outcome.keys[row], rate, text)


def _next_core(outcome: Outcome) -> Iterator[Reason]:
    yield from _next_for_latency(outcome) if outcome.for_latency else _next_for_throughput(outcome)


def _next_for_latency(outcome: Outcome) -> Iterator[Reason]:
    gain = _next_gain(outcome)
    row = int(gain.argmax())
    if gain[row] > 0:
        latency = outcome.demand.latency_s(outcome.cores)
        text = (
            f"one more core, for {outcome.keys[row]}, would lower the latency by {amount(gain[row])} s"
            f" ({amount(100 * gain[row] / latency)} %)"
        )
        yield Reason("next_core", outcome.keys[row], float(gain[row]), text)


def _next_gain(outcome: Outcome) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    demand, cores = outcome.demand, outcome.cores
    return np.where(cores < demand.high, np.maximum(demand.gain_s(cores), 0.0), 0.0)


def _next_for_throughput(outcome: Outcome) -> Iterator[Reason]:
    demand, row = outcome.demand, int(outcome.slowest[0])
    shorter = outcome.period_s * (1 - STEP)
    if ((demand.seconds(demand.high) / demand.instances_max) > shorter).any():
        return
    following = least_cores(demand, shorter)
    more = total_cores(*following) - outcome.used
    rate = 1 / float(demand.period_s(*following).max())
    gain = 100 * (rate * outcome.period_s - 1)
    whom = (
        outcome.keys[row] if len(outcome.slowest) == 1 else f"{outcome.keys[row]} and {len(outcome.slowest) - 1} more"
    )
    what = "one more core" if more == 1 else f"{more} more cores"
    text = f"{what}, for {whom}, would raise the throughput to {amount(rate)} records/s (+{amount(gain)} %)"
    yield Reason("next_core", outcome.keys[row], rate, text)


def _maximum(outcome: Outcome) -> Iterator[Reason]:
    demand, cores = outcome.demand, outcome.cores
    bounded = (cores == demand.high) & (outcome.instances == demand.instances_max)
    if outcome.for_latency:
        # Would it have been given more? Its next core gains more than the last core that somebody got.
        last = np.where(cores > demand.low, demand.gain_s(np.maximum(cores - 1, 1)), np.inf)
        wanted = demand.gain_s(cores)
        binding = bounded & (wanted > 0) & ((wanted > last.min(initial=np.inf)) | (outcome.spare > 0))
    else:
        binding = np.zeros(len(demand), np.bool_)
        binding[outcome.slowest] = bounded[outcome.slowest] & (demand.gain_s(cores)[outcome.slowest] > 0)
    for row, more in first(np.flatnonzero(binding)):
        n = plural(int(demand.high[row]), "core")
        yield Reason("maximum", outcome.keys[row], float(demand.high[row]),
                     f"{outcome.keys[row]} is at its maximum of {n}; more would help it{more}")  # fmt: skip


def _minimum(outcome: Outcome) -> Iterator[Reason]:
    demand, cores = outcome.demand, outcome.cores
    held = (cores == demand.low) & (demand.low > 1)
    fewer = np.maximum(demand.low - 1, 1)
    if outcome.for_latency:
        binding = held & (demand.gain_s(fewer) < _next_gain(outcome).max())
    else:
        binding = held & (demand.seconds(fewer) / outcome.instances <= outcome.period_s)
    for row, more in first(np.flatnonzero(binding)):
        n = plural(int(demand.low[row]), "core")
        yield Reason("minimum", outcome.keys[row], float(demand.low[row]),
                     f"{outcome.keys[row]} holds its minimum of {n}; fewer would do{more}")  # fmt: skip


def _unvisited(outcome: Outcome) -> Iterator[Reason]:
    idle = ~outcome.demand.visited
    for row, more in first(np.flatnonzero(idle)):
        yield Reason("unvisited", outcome.keys[row], 0.0,
                     f"no record visits {outcome.keys[row]}: it has its minimum{more}")  # fmt: skip


def _spare(outcome: Outcome) -> Iterator[Reason]:
    if outcome.spare <= 0:
        return
    if outcome.request.target:
        because = "the target is reached without them"
    elif outcome.for_latency:
        because = "no component can use them"
    else:
        because = f"they cannot speed up {outcome.keys[int(outcome.slowest[0])]}, or are too few for the next step"
    text = f"{outcome.spare} of {plural(outcome.request.cores or 0, 'core')} stay free: {because}"
    yield Reason("spare", None, float(outcome.spare), text)


def _sharing_bound(outcome: Outcome) -> Iterator[Reason]:
    """Say what turns on shared cores might reach, where that is much more than cores of one's own."""
    if outcome.for_latency or outcome.request.cores is None or outcome.request.turns != "scarce":
        return
    bound = 1 / work_bound(outcome.demand, outcome.used)
    if bound * outcome.period_s > WORTH_SAYING:
        text = (
            "each component has cores of its own; taking turns on the same number of cores could reach at most"
            f' {amount(bound)} records/s: with turns "better" that is planned'
        )
        yield Reason("own_cores", None, bound, text)


def first(rows: Ints) -> Iterator[tuple[int, str]]:
    """Give the first rows, the last of them with how many follow, in words."""
    shown = rows[:REASONS_MAX].tolist()
    for order, row in enumerate(shown):
        left = len(rows) - REASONS_MAX
        yield row, f" (and {left} more alike)" if left > 0 and order == REASONS_MAX - 1 else ""


def amount(value: float) -> str:
    """Return a figure as people read it: four digits, and no exponent where it can be helped."""
    return f"{value:,.0f}" if 1e4 <= value < 1e15 else f"{value:.4g}"


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


Explain = Callable[[Outcome], Iterator[Reason]]
REASONS: tuple[Explain, ...] = (
    _target, _bottleneck, _next_core, _maximum, _minimum, _unvisited, _spare, _sharing_bound,
)  # fmt: skip
