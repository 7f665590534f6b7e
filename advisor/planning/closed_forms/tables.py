"""The tables of a plan by closed forms: marginal cores, the knee, runners-up, utilization."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from advisor.domain.answers import Knee, Marginal, RunnerUp
from advisor.planning.asked.demand import TIE, Ints
from advisor.planning.asked.table_demand import AnyDemand
from advisor.planning.closed_forms.reasons import Outcome
from advisor.planning.closed_forms.throughput import least_cores, total_cores

KNEE_SHARE = 0.99
RUNNERS_UP = 3
MARGINAL_MAX = 2_000  # components up to which the marginal table is told

Fewest = Callable[[AnyDemand, float], Ints | None]


def utilizations(outcome: Outcome) -> Mapping[str, float]:
    """Return the share of time that each component works at the highest throughput: in turns, of its group's cycle."""
    busy = outcome.demand.period_s(outcome.cores, outcome.instances) / outcome.period_s
    return dict(zip(outcome.keys, np.minimum(busy, 1.0).tolist(), strict=True))


def marginals(outcome: Outcome) -> tuple[Marginal, ...]:
    """Return what one core more or less for an instance of each component does; own cores only. Cost O(n)."""
    if len(outcome.keys) > MARGINAL_MAX:
        return ()
    demand, cores, instances = outcome.demand, outcome.cores, outcome.instances
    seconds = demand.seconds(cores)
    periods = seconds / instances
    order = np.argsort(periods)
    others = np.full(len(periods), periods[order[-1]])
    others[order[-1]] = periods[order[-2]] if len(order) > 1 else 0.0
    latency = float(seconds.sum())
    more, fewer = np.minimum(cores + 1, demand.high), np.maximum(cores - 1, demand.low)
    columns: list[list[float | None]] = []
    for changed, possible in ((more, cores < demand.high), (fewer, cores > demand.low)):
        new = demand.seconds(changed)
        rates = 1 / np.maximum(np.maximum(others, new / instances), TINY)
        for values in (rates, latency - seconds + new):
            told = values.tolist()
            columns.append([value if fits else None for value, fits in zip(told, possible.tolist(), strict=True)])
    total = (cores * instances).tolist()
    return tuple(Marginal(*row) for row in zip(outcome.keys, total, *columns, strict=True))


TINY = 1e-300  # a period of nothing at all


def knee(outcome: Outcome, fewest_for_latency: Fewest) -> Knee | None:
    """Return the fewest cores that reach KNEE_SHARE of the answer; own cores, throughput and latency only. O(n log)."""
    if outcome.request.target:
        return None
    demand = outcome.demand
    if outcome.for_latency:
        found = fewest_for_latency(demand, demand.latency_s(outcome.cores) / KNEE_SHARE)
        if found is None:
            return None
        cores, instances = found, np.ones_like(found)
    else:
        cores, instances = least_cores(demand, outcome.period_s / KNEE_SHARE)
    period = float(demand.period_s(cores, instances).max())
    return Knee(total_cores(cores, instances), KNEE_SHARE, 1 / period, demand.latency_s(cores))


def runners_up(outcome: Outcome) -> tuple[RunnerUp, ...]:
    """Return allocations next to the answer, best first: a core from one component to another, or a core less."""
    if len(outcome.keys) > MARGINAL_MAX or not outcome.demand.single:
        return ()
    demand, cores = outcome.demand, outcome.cores
    seconds = demand.seconds(cores)
    gain = np.where(cores < demand.high, seconds - demand.seconds(np.minimum(cores + 1, demand.high)), -np.inf)
    loss = np.where(cores > demand.low, demand.seconds(np.maximum(cores - 1, demand.low)) - seconds, np.inf)
    after = loss if outcome.for_latency else np.where(np.isfinite(loss), seconds + loss, np.inf)
    givers = [int(row) for row in np.argsort(after, kind="stable")[: RUNNERS_UP + 1] if np.isfinite(loss[row])]
    takers = [int(row) for row in np.argsort(-(gain if outcome.for_latency else seconds), kind="stable")[:RUNNERS_UP]
              if np.isfinite(gain[row])]  # fmt: skip
    found: list[tuple[float, int, Ints]] = []
    for giver in givers:
        for taker in [-1, *takers]:
            if taker != giver:
                other = cores.copy()
                other[giver] -= 1
                if taker >= 0:
                    other[taker] += 1
                value = demand.latency_s(other) if outcome.for_latency else float(demand.seconds(other).max())
                found.append((value, int(other.sum()), other))
    found.sort(key=lambda one: one[:2])
    return tuple(_runner(outcome, other) for _, _, other in found[:RUNNERS_UP])


def _runner(outcome: Outcome, cores: Ints) -> RunnerUp:
    demand, keys = outcome.demand, outcome.keys
    return RunnerUp(
        dict(zip(keys, cores.tolist(), strict=True)), dict.fromkeys(keys, 1), int(cores.sum()),
        1 / float(demand.seconds(cores).max()), demand.latency_s(cores), None,
    )  # fmt: skip


def gap_of(value: float, bound: float, *, of_throughput: bool) -> float:
    """Return how far from a bound a period or latency is: of a throughput the share lost, of a latency paid too much."""
    if bound <= 0 or value <= bound * (1 + TIE):
        return 0.0
    return 1 - bound / value if of_throughput else value / bound - 1
