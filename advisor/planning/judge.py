"""What an allocation gives: throughput, latency, waits, utilization. Many allocations are judged at once.

Contention: with others busy, T_c = T_c(p) (1 + kappa_c others_c), others_c being the expected cores that other instances
use while one of c runs: the active cores sum_d X v_d T_d p_d less its own share. The throughput X and the times are one
fixed point, found by iteration; without contention nothing iterates. Components of a group run one after the other: to
each other they are no others.
"""

# Kernels are compiled as they stand and know no types.
# pyright: reportUnknownVariableType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor import kernels
from advisor.planning.demand import Demand, Shapes, heaviest_share
from advisor.planning.pieces import PATIENCE
from advisor.planning.queueing import FULL, waiting
from advisor.planning.requests import Floats, Ints, Request
from advisor.planning.streams import Felt, felt, windows_of
from advisor.planning.structure import StreamState, Structure, through
from advisor.planning.successions import Succession, successions
from advisor.planning.turn_queues import waits as turn_waits

ROUNDS_MAX = 200  # of the fixed point: each halves the distance where it does not settle at once
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


KERNELS = kernels.Source(__name__, (figures_of,), _examples, patience=PATIENCE)


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

    def of(self, row: int) -> Placed:
        """Return one of the allocations."""
        return self.taken(np.array([row]))

    def taken(self, rows: Ints) -> Placed:
        """Return some of the allocations."""
        return Placed(*(None if part is None else part[rows] for part in self))  # type: ignore[arg-type]

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
    heaviest = 1 / shapes.instances
    for row in demand.replicas:
        heaviest[row] = demand.heaviest(row, int(shapes.instances[row]))
    return Placed(shapes.cores[None], shapes.instances[None], demand.seconds(shapes.cores)[None], heaviest[None],
                  np.array([shapes.used]))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures of K allocations."""

    period_s: Floats  # (K,): seconds between records that the network can sustain, contention included
    # (K,): Of one record in the network, the variance where a quantile is asked for: without queueing, or with it where
    # records arrive at a rate; infinite where the rate is more than the network sustains
    latency_s: Floats
    latency_variance: Floats
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
    felt: Felt  # what queues feel of their streams


@dataclass(frozen=True, slots=True)
class PlanModel:
    """A network with its demand under a request, ready to judge; `contended` where some slow down with others busy."""

    structure: Structure
    demand: Demand
    request: Request
    contended: bool = field(init=False)
    windows_s: Floats = field(init=False, repr=False)
    after: Succession | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Lay the windows of time in which streams are described, the same for all allocations, and who follows whom."""
        rate, demand = self.request.arrival_per_s, self.demand
        windows, after = np.zeros(0), None
        if rate is not None:
            table = demand.level + demand.fall / demand.knots
            least, most = np.minimum(table.min(axis=1), demand.seconds(demand.high)), table.max(axis=1)
            windows, after = windows_of(rate * demand.visits, least, most), successions(self.structure)
        object.__setattr__(self, "contended", bool(demand.contention.any()))
        object.__setattr__(self, "windows_s", windows)
        object.__setattr__(self, "after", after)

    def judge(self, placed: Placed) -> Judged:
        """Judge K allocations. Cost O(K nodes)."""
        arrival, visits = self.request.arrival_per_s, self.demand.visits
        seconds, zeros = placed.seconds_s, np.zeros(placed.cores.shape)
        load = visits * placed.heaviest if self.contended or arrival is not None else zeros
        full = self._slowed(placed, load, None) if self.contended else seconds
        cycle, busy, figures = np.empty(zeros.shape), np.empty(zeros.shape), np.empty((3, len(zeros)))
        if not KERNELS.ready:
            KERNELS.count(len(zeros))
        group = NO_GROUP if placed.group is None else placed.group
        cores = placed.cores.astype(np.float64)
        KERNELS.figures_of(visits, seconds, full, placed.heaviest, cores, group, cycle, busy, figures)
        period, unloaded, active = figures[0], figures[1], figures[2]
        steady, spread = seconds**2 * self.demand.variation, zeros[:, 0]
        if self.structure.joins or self.request.quantile is not None:
            unloaded, spread = through(
                self.structure, seconds, steady, np.ones_like(placed.instances), places=_places(placed, seconds, None)
            )
        if arrival is None:
            single = _poisson(zeros)
            return Judged(period, unloaded, spread, unloaded, cycle, full, seconds, steady, zeros, busy, active, single)
        loaded = self._slowed(placed, load, arrival) if self.contended else seconds
        rho = np.minimum(arrival * load * loaded, 1.0)
        unstable: NDArray[np.bool_] = np.any(together(placed.group, arrival * load * loaded) >= FULL, axis=1)
        if placed.group is None:
            seen = StreamState({}, {})
            if self.structure.keeps_order or self.structure.loops:
                # Who waits for order leaves in batches, and who is long away comes again as somebody else: first without.
                self._queued(placed.instances, loaded, unstable, seen)
            (latency, variance), wait, stay, streams = self._queued(placed.instances, loaded, unstable, seen)
        else:
            (latency, variance), wait, stay, streams = self._queued_in_turns(placed, loaded, unstable)
        active = (arrival * visits * loaded * placed.cores).sum(axis=1)
        latency, variance = (np.where(unstable, np.inf, some) for some in (latency, variance))
        wait[unstable] = np.inf
        return Judged(
            period, latency, variance, unloaded, cycle, loaded, seconds, stay, wait, rho, active, streams
        )  # fmt: skip

    def _queued(
        self, instances: Ints, seconds_s: Floats, unstable: NDArray[np.bool_], seen: StreamState
    ) -> tuple[tuple[Floats, Floats], Floats, Floats, Felt]:
        """Return latency and its variance, waits, variances of stays, and streams; `seen` is used and renewed."""
        streams = self.streams(instances, seconds_s, seen)
        wait, spread = self.waits(instances, seconds_s, streams)
        own = seconds_s**2 * self.demand.variation
        mean, variance = wait + seconds_s, spread + own
        mean[unstable], variance[unstable] = 1.0, 0.0
        common = streams.common * np.where(unstable[:, None], 0.0, spread)
        arrival = float(self.request.arrival_per_s or 0.0)
        latency = through(self.structure, mean, variance, instances, arrival, own, common, seen)
        seen.stays_s = mean
        return latency, wait, variance, streams

    def _queued_in_turns(
        self, placed: Placed, seconds_s: Floats, unstable: NDArray[np.bool_]
    ) -> tuple[tuple[Floats, Floats], Floats, Floats, Felt]:
        """As `_queued`, for components that wait for the turns of their groups: one allocation after the other."""
        arrivals = float(self.request.arrival_per_s or 0.0), self.request.arrival_variation
        assert placed.group is not None
        assert self.after is not None
        wait, spread = np.zeros_like(seconds_s), np.zeros_like(seconds_s)
        for row in np.flatnonzero(~unstable).tolist():
            wait[row], spread[row] = turn_waits(
                placed.group[row], arrivals, self.demand.visits, seconds_s[row], self.demand.variation, self.after
            )
        mean, variance = wait + seconds_s, spread + seconds_s**2 * self.demand.variation
        latency = through(
            self.structure, mean, variance, np.ones_like(placed.instances), arrivals[0],
            places=_places(placed, seconds_s, wait),
        )  # fmt: skip
        return latency, wait, variance, _poisson(seconds_s)

    def _slowed(self, placed: Placed, load: Floats, rate: float | None) -> Floats:
        """Return the times under contention at a rate, or at the highest throughput where None is given."""
        seconds = placed.seconds_s
        slowed, alone = seconds.copy(), _alone(placed)
        for _ in range(ROUNDS_MAX):
            most = 1 / together(placed.group, load * slowed).max(axis=1)
            flow = (most if rate is None else np.minimum(rate, most))[:, None]
            each = flow * self.demand.visits * slowed * placed.cores
            # Of its own cores a running instance is sure; its siblings are others. In its turn a component has all of its
            # instances run, and nobody of its group.
            siblings = np.where(
                alone,
                each - np.minimum(flow * load * slowed, 1.0) * placed.cores,
                (placed.instances - 1) * placed.cores,
            )
            others = np.maximum(each.sum(axis=1, keepdims=True) - together(placed.group, each), 0.0) + siblings
            new = seconds * (1 + self.demand.contention * np.maximum(others, 0.0))
            if (np.abs(new - slowed) <= SETTLED * slowed).all():
                return new
            slowed = (new + slowed) / 2
        return slowed

    def streams(self, instances: Ints, seconds_s: Floats, seen: StreamState | None = None) -> Felt:
        """Return what the queues of K allocations feel of their streams."""
        if not self.shaped:
            return _poisson(seconds_s)
        return felt(
            self.structure, seconds_s, self.demand.variation, instances, float(self.request.arrival_per_s or 0.0),
            self.request.arrival_variation, seen, self.windows_s,
        )  # fmt: skip

    def waits(self, instances: Ints, seconds_s: Floats, streams: Felt) -> tuple[Floats, Floats]:
        """Return mean and variance of one visit's wait; each instance of a split component has a queue of its own."""
        structure = self.structure
        arrival = float(self.request.arrival_per_s or 0.0)
        stream, variation = streams.streams, streams.again + (1 - streams.again) * self.demand.variation
        rates = np.broadcast_to(arrival * self.demand.visits, seconds_s.shape)
        wait, spread = waiting(rates, seconds_s, variation, instances, stream)
        for row, replicas in structure.visits.replicas.items():
            for number in np.unique(instances[:, row]):
                if number == 1:
                    continue
                rows = np.flatnonzero(instances[:, row] == number)
                mean, second = np.zeros(len(rows)), np.zeros(len(rows))
                for share in heaviest_share(replicas, int(number))[1]:
                    ones = np.ones(len(rows), np.int64)
                    w, v = waiting(rates[rows, row] * share, seconds_s[rows, row], variation[rows, row],
                                   ones, 1 + share * (stream[rows, row] - 1))  # fmt: skip
                    mean, second = mean + share * w, second + share * (v + w**2)
                wait[rows, row], spread[rows, row] = (
                    mean,
                    np.maximum(second - np.where(np.isfinite(mean), mean, 0) ** 2, 0),
                )
        return wait, spread

    @property
    def shaped(self) -> bool:
        """True when streams inside the network are other than Poisson, or meet again."""
        variation = self.demand.variation[self.demand.visits > 0]
        uneven = bool((variation != 1).any()) or bool(self.structure.joins) or self.structure.keeps_order
        return self.request.arrival_per_s is not None and (uneven or self.request.arrival_variation != 1)


def together(group: Ints | None, values: Floats) -> Floats:
    """Return the sum of values over each component's group, (K, n)."""
    if group is None:
        return values
    rows, n = np.arange(len(values))[:, None], values.shape[1]
    sums: Floats = np.bincount((rows * n + group).ravel(), weights=values.ravel(), minlength=len(values) * n).astype(
        float
    )
    return sums.reshape(values.shape)[rows, group]


def _alone(placed: Placed) -> NDArray[np.bool_]:
    """Return which components share their cores with nobody, (K, n)."""
    ones = np.ones(placed.cores.shape)
    return together(placed.group, ones) == 1


def _places(placed: Placed, seconds_s: Floats, wait_s: Floats | None) -> tuple[Ints, Floats, Floats] | None:
    """Return what branches of a join that share cores do to each other: group, service and wait of each component."""
    if placed.group is None:
        return None
    return placed.group, seconds_s, np.zeros_like(seconds_s) if wait_s is None else wait_s


def _poisson(like: Floats) -> Felt:
    """Return Poisson streams for as many queues."""
    return Felt(np.ones(like.shape), np.zeros(like.shape), np.zeros(like.shape))
