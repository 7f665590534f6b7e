"""What an allocation gives: throughput, latency, waits, utilization. Many allocations are judged at once.

Contention: with others busy, T_c = T_c(p) (1 + kappa_c others_c), others_c being the expected cores that other instances
use while one of c runs: the active cores sum_d X v_d T_d p_d less its own share. The throughput X and the times are one
fixed point, found by iteration; without contention nothing iterates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from advisor.planning.asked.demand import Floats, Ints
from advisor.planning.asked.options import Curves, Options, heaviest_share
from advisor.planning.asked.requests import Request
from advisor.planning.queues.queueing import FULL, waiting
from advisor.planning.queues.streams import Felt, felt, windows_of
from advisor.planning.queues.structure import Seen, Structure, through

ROUNDS_MAX = 200  # of the fixed point: each halves the distance where it does not settle at once
SETTLED = 1e-12  # relative change at which the fixed point is reached


@dataclass(frozen=True, slots=True)
class Judged:
    """Figures of K allocations.

    Attributes
    ----------
    period_s : (K,)
        Seconds between records that the network can sustain, contention included.
    latency_s, latency_variance : (K,)
        Of one record in the network: without queueing, or with it where records arrive at a rate; infinite where the
        rate is more than the network sustains.
    unloaded_s : (K,)
        Mean latency of a record alone.
    seconds_s : (K, n)
        One visit's service, contention included, at the arrival rate or else at the highest throughput.
    alone_s, stay_variance : (K, n)
        One visit's service without contention, and the variance of a stay: service, and wait where records queue.
    wait_s : (K, n)
        Mean wait of one visit; 0 without arrivals.
    utilization : (K, n)
        Of the busiest instance of each component, at the arrival rate or else at the highest throughput.
    active : (K,)
        Expected busy cores under that load.
    felt : Felt
        What queues feel of their streams.
    """

    period_s: Floats
    latency_s: Floats
    latency_variance: Floats
    unloaded_s: Floats
    seconds_s: Floats
    alone_s: Floats
    stay_variance: Floats
    wait_s: Floats
    utilization: Floats
    active: Floats
    felt: Felt


@dataclass(frozen=True, slots=True)
class Model:
    """A network with its curves under a request, ready to judge allocations."""

    structure: Structure
    curves: Curves
    request: Request
    windows_s: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Lay the windows of time in which streams are described: the same ones for all allocations."""
        rates = float(self.request.arrival_per_s or 0.0) * self.visits
        seconds = self.curves.seconds_s
        windows = windows_of(rates, seconds.min(axis=1), seconds.max(axis=1))
        object.__setattr__(self, "windows_s", windows)

    @property
    def visits(self) -> Floats:
        """Visits per record, (n,)."""
        return self.structure.visits.per_record

    @property
    def contended(self) -> bool:
        """True when a component slows down with others busy."""
        return bool(self.curves.contention.any())

    @property
    def spreads(self) -> bool:
        """True when times vary from run to run."""
        return bool(self.curves.variation.any())

    def judge(self, options: Options, chosen: Ints) -> Judged:
        """Judge K allocations, one shape a component each, (K, n). Cost O(K nodes)."""
        return self.judge_shapes(*options.pick(chosen))

    def judge_shapes(self, cores: Ints, instances: Ints, seconds_s: Floats, heaviest: Floats) -> Judged:
        """Judge K allocations given by their shapes, (K, n) each."""
        arrival = self.request.arrival_per_s
        load = self.visits * heaviest
        full = self._slowed(cores, seconds_s, load, None)
        period = (load * full).max(axis=1)
        unloaded, spread = through(
            self.structure, seconds_s, seconds_s**2 * self.curves.variation, np.ones_like(instances)
        )
        if arrival is None:
            rate = 1 / period
            active = (rate[:, None] * self.visits * full * cores).sum(axis=1)
            zero = np.zeros_like(seconds_s)
            steady = seconds_s**2 * self.curves.variation
            return Judged(
                period, unloaded, spread, unloaded, full, seconds_s, steady, zero, rate[:, None] * load * full, active,
                _poisson(seconds_s),
            )  # fmt: skip
        loaded = self._slowed(cores, seconds_s, load, arrival) if self.contended else seconds_s
        rho = np.minimum(arrival * load * loaded, 1.0)
        unstable: NDArray[np.bool_] = np.any(rho >= FULL, axis=1)
        seen = Seen({}, {})
        if self.structure.keeps_order or self.structure.loops:
            # Who waits for order leaves in batches, and who is long away comes again as somebody else: first without.
            self._queued(instances, loaded, unstable, seen)
        (latency, latency_variance), wait, variance, streams = self._queued(instances, loaded, unstable, seen)
        active = (arrival * self.visits * loaded * cores).sum(axis=1)
        latency, latency_variance = (np.where(unstable, np.inf, some) for some in (latency, latency_variance))
        wait[unstable] = np.inf
        return Judged(
            period, latency, latency_variance, unloaded, loaded, seconds_s, variance, wait, rho, active, streams
        )

    def _queued(
        self, instances: Ints, seconds_s: Floats, unstable: NDArray[np.bool_], seen: Seen
    ) -> tuple[tuple[Floats, Floats], Floats, Floats, Felt]:
        """Return latency and its variance, waits, variances of stays, and streams; `seen` is used and renewed."""
        streams = self.streams(instances, seconds_s, seen)
        wait, spread = self.waits(instances, seconds_s, streams)
        own = seconds_s**2 * self.curves.variation
        mean, variance = wait + seconds_s, spread + own
        mean[unstable], variance[unstable] = 1.0, 0.0
        common = streams.common * np.where(unstable[:, None], 0.0, spread)
        arrival = float(self.request.arrival_per_s or 0.0)
        latency = through(self.structure, mean, variance, instances, arrival, own, common, seen)
        seen.stays_s = mean
        return latency, wait, variance, streams

    def _slowed(self, cores: Ints, seconds_s: Floats, load: Floats, rate: float | None) -> Floats:
        """Return the times under contention at a rate, or at the highest throughput where None is given."""
        if not self.contended:
            return seconds_s
        kappa, visits = self.curves.contention, self.visits
        slowed = seconds_s.copy()
        for _ in range(ROUNDS_MAX):
            most = 1 / (load * slowed).max(axis=1)
            flow = most if rate is None else np.minimum(rate, most)
            each = flow[:, None] * visits * slowed * cores
            # Of its own cores a running instance is sure; its siblings are others.
            own = np.minimum(flow[:, None] * load * slowed, 1.0) * cores
            others = np.maximum(each.sum(axis=1, keepdims=True) - own, 0.0)
            new = seconds_s * (1 + kappa * others)
            if (np.abs(new - slowed) <= SETTLED * slowed).all():
                return new
            slowed = (new + slowed) / 2
        return slowed

    def streams(self, instances: Ints, seconds_s: Floats, seen: Seen | None = None) -> Felt:
        """Return what the queues of K allocations feel of their streams."""
        if not self.shaped:
            return _poisson(seconds_s)
        return felt(
            self.structure, seconds_s, self.curves.variation, instances, float(self.request.arrival_per_s or 0.0),
            self.request.arrival_variation, seen, self.windows_s,
        )  # fmt: skip

    def waits(self, instances: Ints, seconds_s: Floats, streams: Felt) -> tuple[Floats, Floats]:
        """Return mean and variance of one visit's wait; each instance of a split component has a queue of its own."""
        structure = self.structure
        arrival = float(self.request.arrival_per_s or 0.0)
        stream, variation = streams.streams, streams.again + (1 - streams.again) * self.curves.variation
        rates = np.broadcast_to(arrival * self.visits, seconds_s.shape)
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
        uneven = (
            bool((self.curves.variation[self.visits > 0] != 1).any())
            or bool(self.structure.joins)
            or self.structure.keeps_order
        )
        return self.request.arrival_per_s is not None and (uneven or self.request.arrival_variation != 1)

    def stays(self, options: Options, others: Floats, streams: Felt | None) -> tuple[Floats, Floats]:
        """Return period and mean stay of each shape with the coupling held still, (n, shapes) each.

        `others` are the cores busy beside each component, (n,), `streams` what its queue feels, (n,), or None: the
        calmest that it can. A stay is the service without arrivals, infinite where the shape cannot keep up with them.
        """
        cores, instances, heaviest = options.cores.T, options.instances.T, options.heaviest.T
        seconds = np.where(np.isfinite(options.seconds_s), options.seconds_s, 1.0).T
        slowed = seconds * (1 + self.curves.contention * others)
        load = self.visits * heaviest
        valid = np.isfinite(options.seconds_s)
        period = np.where(valid, (load * slowed).T, np.inf)
        if self.request.arrival_per_s is None:
            return period, np.where(valid, seconds.T, np.inf)
        rho = np.minimum(self.request.arrival_per_s * load * slowed, 1.0)
        held = self._calmest(rho) if streams is None else streams
        wide = Felt(*(np.broadcast_to(some, cores.shape) for some in (held.streams, held.again, held.common)))
        wait, _ = self.waits(instances, slowed, wide)
        return period, np.where(valid & (rho < FULL).T, (wait + slowed).T, np.inf)

    def _calmest(self, rho: Floats) -> Felt:
        """Return what queues feel at least.

        No stream's I falls below the least of what enters, of all services and of a Poisson stream: departures lie
        between, splits and merges bring it nearer to 1. Visits that count together vary as one: c_s^2 comes nearer to 1.
        """
        if not self.shaped:
            return _poisson(rho)
        variation = self.curves.variation
        least = min(1.0, self.request.arrival_variation, float(variation[self.visits > 0].min(initial=1.0)))
        again = np.broadcast_to((variation > 1).astype(np.float64), rho.shape)
        return Felt(np.full(rho.shape, least), again, np.zeros(rho.shape))

    def coupling(self, judged: Judged, chosen_cores: Ints) -> tuple[Floats, Felt]:
        """Return others (K, n) and streams (K, n) as they are in judged allocations, for `stays`."""
        flow = self.request.arrival_per_s or 1 / judged.period_s
        each = np.reshape(flow, (-1, 1)) * self.visits * judged.seconds_s * chosen_cores
        own = np.minimum(judged.utilization, 1.0) * chosen_cores
        others = np.maximum(each.sum(axis=1, keepdims=True) - own, 0.0) if self.contended else np.zeros_like(each)
        return others, judged.felt


def _poisson(like: Floats) -> Felt:
    """Return Poisson streams for as many queues."""
    return Felt(np.ones(like.shape), np.zeros(like.shape), np.zeros(like.shape))
