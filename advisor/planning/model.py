"""What an allocation gives: throughput, latency, waits, utilization. Many allocations are judged at once.

Contention: with others busy, T_c = T_c(p) (1 + kappa_c others_c), others_c being the expected cores that other instances
use while one of c runs: the active cores sum_d X v_d T_d p_d less its own share. The throughput X and the times are one
fixed point, found by iteration; without contention nothing iterates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.planning.demand import Floats, Ints
from advisor.planning.options import Curves, Options, heaviest_share
from advisor.planning.queueing import FULL, waiting
from advisor.planning.requests import Request
from advisor.planning.structure import Structure, arrivals, loops, through

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


@dataclass(frozen=True, slots=True)
class Model:
    """A network with its curves under a request, ready to judge allocations."""

    structure: Structure
    curves: Curves
    request: Request

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
                period, unloaded, spread, unloaded, full, seconds_s, steady, zero, rate[:, None] * load * full, active
            )
        loaded = self._slowed(cores, seconds_s, load, arrival) if self.contended else seconds_s
        rho = np.minimum(arrival * load * loaded, 1.0)
        wait, wait_variance = self.waits(instances, loaded, rho)
        mean, variance = wait + loaded, wait_variance + loaded**2 * self.curves.variation
        unstable = (rho >= FULL).any(axis=1)
        mean[unstable], variance[unstable] = 1.0, 0.0
        own = loaded**2 * self.curves.variation
        latency, latency_variance = through(self.structure, mean, variance, instances, arrival, own)
        active = (arrival * self.visits * loaded * cores).sum(axis=1)
        latency, latency_variance = (np.where(unstable, np.inf, some) for some in (latency, latency_variance))
        wait[unstable] = np.inf
        return Judged(period, latency, latency_variance, unloaded, loaded, seconds_s, variance, wait, rho, active)

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

    def streams(self, instances: Ints, rho: Floats) -> Floats:
        """Return c_a^2 of the stream into each component, (K, n)."""
        if not self.shaped:
            return np.ones_like(rho)
        entering = self.request.arrival_variation
        return np.maximum(arrivals(self.structure, rho, self.curves.variation, instances, entering), 0.0)

    @property
    def calmest(self) -> float:
        """c_a^2 that no stream falls below: departures lie between what comes in and what services vary."""
        if not self.shaped:
            return 1.0
        variation = self.curves.variation[self.visits > 0]
        return min(1.0, self.request.arrival_variation, max(float(variation.min(initial=1.0)), 0.2))

    def waits(
        self, instances: Ints, seconds_s: Floats, rho: Floats, streams: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Return mean and variance of one visit's wait; each instance of a split component has a queue of its own."""
        structure = self.structure
        variation = self.repeated(rho)
        arrival = float(self.request.arrival_per_s or 0.0)
        stream = self.streams(instances, rho) if streams is None else streams
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

    def repeated(self, rho: Floats) -> Floats:
        """Return c_s^2 as queues see it, (K, n): at the busiest box of a loop a record's visits count together.

        A record that comes again after a share r of its visits holds the queue up as one with a geometric sum of services
        (Takacs 1963, feedback to the end of the queue): r + (1 - r) c_s^2. Boxes after the busiest get what it lets go.
        """
        variation = np.broadcast_to(self.curves.variation, rho.shape)
        for rows, again in loops(self.structure):
            busiest = np.asarray(rows)[rho[:, rows].argmax(axis=1)] if rows else np.zeros(0, np.int64)
            if len(busiest):
                variation = variation.copy()
                each = np.arange(len(rho))
                variation[each, busiest] = again + (1 - again) * variation[each, busiest]
        return variation

    @property
    def shaped(self) -> bool:
        """True when streams inside the network are other than Poisson."""
        uneven = bool((self.curves.variation[self.visits > 0] != 1).any())
        return self.request.arrival_per_s is not None and (uneven or self.request.arrival_variation != 1)

    def stays(self, options: Options, others: Floats, streams: Floats | float) -> tuple[Floats, Floats]:
        """Return period and mean stay of each shape with the coupling held still, (n, shapes) each.

        `others` are the cores busy beside each component, (n,), `streams` the variation of what arrives, (n,) or one
        for all. A stay is the service without arrivals, infinite where the shape cannot keep up with them.
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
        stream = np.broadcast_to(np.asarray(streams, np.float64), cores.shape)
        wait, _ = self.waits(instances, slowed, rho, stream)
        return period, np.where(valid & (rho < FULL).T, (wait + slowed).T, np.inf)

    def coupling(self, judged: Judged, chosen_cores: Ints, instances: Ints) -> tuple[Floats, Floats]:
        """Return others (K, n) and streams (K, n) as they are in judged allocations, for `stays`."""
        flow = self.request.arrival_per_s or 1 / judged.period_s
        each = np.reshape(flow, (-1, 1)) * self.visits * judged.seconds_s * chosen_cores
        own = np.minimum(judged.utilization, 1.0) * chosen_cores
        others = np.maximum(each.sum(axis=1, keepdims=True) - own, 0.0) if self.contended else np.zeros_like(each)
        return others, self.streams(instances, judged.utilization)
