"""What an allocation gives: throughput, latency, waits, utilization. Many allocations are judged at once.

Contention: with others busy, T_c = T_c(p) (1 + kappa_c others_c), others_c being the expected cores that other instances
use while one of c runs: the active cores sum_d X v_d T_d p_d less its own share. The throughput X and the times are one
fixed point, found by iteration; without contention nothing iterates. Components of a group run one after the other: to
each other they are no others.
"""

from __future__ import annotations

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor import kernels
from advisor.domain.vectors import Floats, Ints
from advisor.planning.demand import PLAIN, Demand, Scales, Shapes
from advisor.planning.pieces import PATIENCE, TIE
from advisor.planning.queueing import FULL, queue_waits
from advisor.planning.record_runs import Run
from advisor.planning.requests import CORES, LATENCY, RATE, Request
from advisor.planning.structure import quantile_of, through

ROUNDS_MAX = 200  # of the fixed point: each halves the distance where it does not settle at once
SCALE_MAX = 8.0  # of a formula's wait: a run of few visits may find anything
SCALED_MIN = 1_000  # waits shorter than a service over this are not scaled
SETTLED = 1e-12  # relative change at which the fixed point is reached


NO_GROUP: Ints = np.zeros((0, 0), np.int64)  # where each component has its own cores


def figures_of(visits, seconds, full, heaviest, cores, group, cycle, busy, figures):
    """Fill in cycles and shares of their time for which components are busy, (K, n) each, and period, time of a record alone
    and busy cores, (3, K), of K allocations at their highest throughput.

    `seconds` and `full` are times without and with contention; `group` (0, 0) says that each has its own cores.
    """
    n = len(visits)
    sums = np.zeros(n)
    for k in range(len(seconds)):
        period, alone, active = 0.0, 0.0, 0.0
        for c in range(n):
            cycle[k, c] = visits[c] * heaviest[k, c] * full[k, c]
            alone += visits[c] * seconds[k, c]
            sums[c] = 0.0
        if len(group):
            for c in range(n):
                sums[group[k, c]] += cycle[k, c]
            for c in range(n):
                cycle[k, c] = sums[group[k, c]]
        for c in range(n):
            period = max(period, cycle[k, c])
        rate = 1.0 / period if period > 0.0 else 0.0
        for c in range(n):
            busy[k, c] = rate * (visits[c] * heaviest[k, c]) * full[k, c]
            active += rate * visits[c] * full[k, c] * cores[k, c]
        figures[0, k], figures[1, k], figures[2, k] = period, alone, active


def _examples() -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the types with which each kernel is called."""
    table, whole = np.ones((1, 1)), np.zeros((1, 1), np.int64)
    yield "figures_of", (np.ones(1), table, table, table, table, whole, table, table, table)
    yield "queue_waits", (np.ones(1), table, np.ones(1), whole, 1.0, whole, table, table)


KERNELS = kernels.Source(__name__, (figures_of, queue_waits), _examples, patience=PATIENCE)


class Placed(NamedTuple):
    """K allocations: what each component runs on, (K, n) each, and the cores that all take, (K,).

    `group` says who takes turns on the same cores, (K, n), by numbers from 0, and `widths` on how many; None where each has
    its own.
    """

    cores: Ints
    instances: Ints
    seconds_s: Floats
    heaviest: Floats
    used: Ints
    group: Ints | None = None
    widths: Ints | None = None

    def row_of(self, row: int) -> Placed:
        """Return one of the allocations."""
        return self.taken(np.array([row]))

    def taken(self, rows: Ints) -> Placed:
        """Return some of the allocations."""
        return Placed(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]

    @property
    def mark(self) -> bytes:
        """What tells it from others on the same components."""
        parts = self.cores, self.instances, self.group, self.widths
        return b"".join(part.tobytes() for part in parts if part is not None)

    def groups(self, keys: tuple[str, ...], row: int = 0) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """Return the cores of each group and who is in it; empty where each has its own."""
        if self.group is None or self.widths is None:
            return ()
        members: dict[int, tuple[int, list[str]]] = {}
        for key, number, size in zip(keys, self.group[row].tolist(), self.widths[row].tolist(), strict=True):
            members.setdefault(number, (size, []))[1].append(key)
        return tuple((size, tuple(some)) for size, some in members.values())


def own_placed(demand: Demand, shapes: Shapes) -> Placed:
    """Return an allocation with cores of one's own."""
    cores, instances = shapes
    return Placed(cores[None], instances[None], demand.seconds(cores)[None], demand.busiest(instances)[None],
                  (cores * instances).sum(keepdims=True))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures of K allocations."""

    period_s: Floats  # (K,): seconds between records that the network can sustain, contention included
    # (K,): of one record in the network, and the quantile where one is asked for: without queueing, or with it where records
    # arrive at a rate; infinite where the rate is more than the network sustains
    latency_s: Floats
    quantile_s: Floats | None
    unloaded_s: Floats  # (K,): mean latency of a record alone
    cycle_s: Floats  # (K, n): seconds between records that each component, or its group, can sustain
    # (K, n): one visit's service, contention included, at the arrival rate or else at the highest throughput
    seconds_s: Floats
    # (K, n): One visit's service without contention, and the variance of a stay: service, and wait where records queue
    alone_s: Floats
    stay_variance: Floats
    wait_s: Floats  # (K, n): mean wait of one visit; 0 without arrivals
    # (K, n): of the busiest instance of each component, at the arrival rate or else at the highest throughput; in a group, of
    # the group's time
    utilization: Floats
    active: Floats  # (K,): expected busy cores under that load


def judge_placed(demand: Demand, placed: Placed) -> Judged:
    """Judge K allocations. Cost O(K nodes)."""
    arrival, visits = demand.request.arrival_per_s, demand.visits
    seconds, zeros = placed.seconds_s, np.zeros(placed.cores.shape)
    load = visits * placed.heaviest if demand.contended or arrival is not None else zeros
    full = _slowed(demand, placed, load, None) if demand.contended else seconds
    cycle, busy, figures = np.empty(zeros.shape), np.empty(zeros.shape), np.empty((3, len(zeros)))
    group = NO_GROUP if placed.group is None else placed.group
    cores = placed.cores.astype(np.float64)
    KERNELS.figures_of(visits, seconds, full, placed.heaviest, cores, group, cycle, busy, figures)
    period, unloaded, active = figures[0], figures[1], figures[2]
    steady, spread = seconds**2 * demand.variation, zeros[:, 0]
    level, queued = demand.request.quantile, arrival is not None
    if demand.structure.joins or level is not None:
        unloaded, spread = through(demand.structure, seconds, steady, _turns(placed, seconds), nearly=queued)
    if arrival is None:
        quantile = None if level is None else quantile_of(unloaded, spread, level)
        return Judged(period, unloaded, quantile, unloaded, cycle, full, seconds, steady, zeros, busy, active)
    loaded = _slowed(demand, placed, load, arrival) if demand.contended else seconds
    rho = np.minimum(arrival * load * loaded, 1.0)
    unstable: NDArray[np.bool_] = np.any(together(placed.group, arrival * load * loaded) >= FULL, axis=1)
    wait, own = waits_of(demand, placed, loaded)
    mean, stay = wait + loaded, own + loaded**2 * demand.variation
    mean[unstable], stay[unstable] = 1.0, 0.0
    latency, variance = through(demand.structure, mean, stay, _turns(placed, loaded), nearly=True)
    scales, quantile = demand.scales, None
    active = (arrival * visits * loaded * placed.cores).sum(axis=1)
    if level is not None:
        quantile = np.where(unstable, np.inf, quantile_of(latency, variance, level) * scales.quantile)
    latency = np.where(unstable, np.inf, latency * scales.mean)
    wait[unstable] = np.inf
    return Judged(period, latency, quantile, unloaded, cycle, loaded, seconds, stay, wait, rho, active)


def _slowed(demand: Demand, placed: Placed, load: Floats, rate: float | None) -> Floats:
    """Return the times under contention at a rate, or at the highest throughput where None is given."""
    seconds = placed.seconds_s
    slowed, alone = seconds.copy(), together(placed.group, np.ones(seconds.shape)) == 1
    for _ in range(ROUNDS_MAX):
        most = 1 / together(placed.group, load * slowed).max(axis=1)
        flow = (most if rate is None else np.minimum(rate, most))[:, None]
        each = flow * demand.visits * slowed * placed.cores
        # Of its own cores a running instance is sure; its siblings are others. In its turn a component has all of its
        # instances run, and nobody of its group.
        own = np.minimum(flow * load * slowed, 1.0) * placed.cores
        siblings = np.where(alone, each - own, (placed.instances - 1) * placed.cores)
        others = np.maximum(each.sum(axis=1, keepdims=True) - together(placed.group, each), 0.0) + siblings
        new = seconds * (1 + demand.contention * np.maximum(others, 0.0))
        if (np.abs(new - slowed) <= SETTLED * slowed).all():
            return new
        slowed = (new + slowed) / 2
    return slowed


def waits_of(demand: Demand, placed: Placed, seconds_s: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of one visit's wait by the formula, scaled to what a run found.

    All streams are taken for those that enter. Instances have one queue; below a split each has its own: runs have it so.
    """
    wait, spread, request, scale = (
        np.empty(seconds_s.shape),
        np.empty(seconds_s.shape),
        demand.request,
        demand.scales.waits,
    )
    rates = float(request.arrival_per_s or 0.0) * demand.visits
    group = NO_GROUP if placed.group is None else placed.group
    seconds_s = np.ascontiguousarray(seconds_s)
    servers = np.ascontiguousarray(placed.instances)
    KERNELS.queue_waits(rates, seconds_s, demand.variation, servers, request.gap_variation, group, wait, spread)
    return (wait, spread) if scale is None else (wait * scale, spread * scale**2)


def execute_placed(demand: Demand, placed: Placed) -> tuple[Demand, Placed, Judged]:
    """Return the figures of one allocation, its latency and waits under arrivals from records that are executed.

    Before it stands the demand scaled to these figures, for allocations near it. Nothing is executed, and they are those of
    `judge_placed`, without arrivals, where records arrive faster than they leave, and of networks too large to be executed.
    """
    plain = demand.scaled(PLAIN)
    judged = judge_placed(plain, placed)
    if not demand.queued:
        return demand, placed, judged
    if demand.structure.joins:
        seconds, spread = placed.seconds_s, placed.seconds_s**2 * demand.variation
        alone, _ = through(demand.structure, seconds, spread, _turns(placed, seconds))
        judged = replace(judged, unloaded_s=alone)
    found = run_records(demand, placed, judged)
    if found is None:
        return plain, placed, judged
    latency = max(found.latency_s, float(judged.unloaded_s[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = np.clip(found.wait_s / judged.wait_s[0], 1 / SCALE_MAX, SCALE_MAX)
    known = judged.wait_s[0] > judged.seconds_s[0] / SCALED_MIN
    near = plain.scaled(Scales(np.where(known, waits, 1.0)))
    formula = judge_placed(near, placed)
    scales = near.scales._replace(mean=latency / float(formula.latency_s[0]))
    quantile = judged.quantile_s
    if found.quantile_s is not None and formula.quantile_s is not None:
        scales = scales._replace(quantile=found.quantile_s / float(formula.quantile_s[0]))
        quantile = np.array([found.quantile_s])
    found_s = replace(judged, latency_s=np.array([latency]), quantile_s=quantile, wait_s=found.wait_s[None])
    return near.scaled(scales), placed, found_s


def run_records(demand: Demand, placed: Placed, judged: Judged, part: int = 1) -> Run | None:
    """Return what records, or one of `part` of them, meet under an allocation; None where none is executed."""
    runs, group = demand.runs, None if placed.group is None else placed.group[0]
    if runs is None or not np.isfinite(judged.latency_s[0]):
        return None
    return runs.run_records(judged.seconds_s[0], placed.instances[0], group, demand.request.quantile, part)


def together(group: Ints | None, values: Floats) -> Floats:
    """Return the sum of values over each component's group, (K, n)."""
    if group is None:
        return values
    rows, n = np.arange(len(values))[:, None], values.shape[1]
    sums: Floats = np.bincount((rows * n + group).ravel(), values.ravel(), len(values) * n).astype(float)
    return sums.reshape(values.shape)[rows, group]


def _turns(placed: Placed, seconds_s: Floats) -> tuple[Ints, Floats] | None:
    """Return groups and services where components take turns."""
    return None if placed.group is None else (placed.group, seconds_s)


# ----------------------------------------------------------------------------------------------------------------------------
# What is minimised: one figure an allocation, by objective.


def figure_of(measure: str, judged: Judged, used: Ints) -> Floats:
    """Return the period, the latency that the request is about, or the cores, (K,)."""
    if measure == CORES:
        return used.astype(np.float64)
    return latency_of(judged) if measure == LATENCY else judged.period_s


def score(request: Request, judged: Judged, used: Ints) -> Floats:
    """Return what the objective minimises, (K,); infinite where a target is not met."""
    found = figure_of(request.aim.measure, judged, used)
    return np.where(meets(request, judged), found, np.inf) if request.target else found


def driven(request: Request, judged: Judged) -> Floats:
    """Return what a search lowers on its way, (K,): latency or period; far off, by the period, while that is infinite."""
    found = latency_of(judged) if request.for_latency else judged.period_s
    if request.aim.by_latency and request.target:
        found = np.where(meets(request, judged), found, np.inf)
    return np.where(np.isfinite(found), found, FAR * (1 + judged.period_s))


FAR = 1e100  # before any score, and before what a search lowers until it is finite


def latency_of(judged: Judged) -> Floats:
    """Return the latency that the request is about, (K,): the mean or its quantile."""
    return judged.latency_s if judged.quantile_s is None else judged.quantile_s


def meets(request: Request, judged: Judged) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which allocations reach the target, (K,)."""
    met = np.ones(len(judged.period_s), np.bool_)
    for name, value in (request.target or {}).items():
        if name == RATE:
            met &= judged.period_s * value <= 1 + TIE
        else:
            met &= latency_of(judged) <= value * (1 + TIE)
    return met
