"""What tasks that run together cost each other: interchangeable system models, the lower level of paper 4.

A model is bound to a graph (`System.bind`), which reads the columns that it needs; the bound form gives D_i, the overhead that
task i would have if it ran to its end among the tasks that run now, for what remains of each. In all models here D_i is
proportional to the remaining demand r_i, so that a task's slowdown depends on who runs, and not on how far they are. Where all
tasks are alike it depends on their number only, and the analysis then costs O(log P) an event in place of O(P).

Units: rates are per unit of the graph's time, demands and holding times in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue
from advisor.simulation.bound import Averaged, BoundSystem, Classes, Common, Number, alike, column, folded
from advisor.simulation.queueing import Centre, bard_schweitzer, exact, finite_source_wait

Floats = NDArray[np.float64]


class System(Protocol):
    """A system model."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph; raises InvalidValue for columns that are missing or hold what cannot be."""
        ...


@dataclass(frozen=True, slots=True)
class Queueing:
    """A closed queueing network: each running task sends `rate` requests per unit of its own time through the centres.

    One request resides R in the network of all running tasks, so D_i = r_i rate_i R, with think time 1 / rate.
    """

    centres: Sequence[Centre]  # what requests visit, one after the other
    rate: Number = 1.0  # requests of a running task per unit of its computing; a string names a column
    # `exact`: one class with the averages of the running tasks, weighted by their rates (paper 4, 3.3).
    # `bard_schweitzer`: a class for each kind of task, approximate.
    method: str = "exact"
    name: str = "queueing"

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph."""
        rate = column(graph, "rate", self.rate)
        demands = [column(graph, "demand", centre.demand) for centre in self.centres]
        kinds = [centre.kind for centre in self.centres]
        rates = [centre.rates for centre in self.centres]
        if self.method not in ("exact", "bard_schweitzer"):
            raise InvalidValue("method", self.method, "exact or bard_schweitzer")

        def residence(mean_rate: float, means: list[float], running: int) -> float:
            return elementary.added(exact(means, 1.0 / mean_rate, running, kinds, rates)[-1])

        if alike(rate, *demands):
            means = [float(values[0]) for values in demands]
            each = float(rate[0])
            return Common(lambda running: each * residence(each, means, running) if each else 0.0)
        if self.method == "bard_schweitzer":
            if "flow" in kinds:
                raise InvalidValue("method", self.method, "exact, with a flow-equivalent centre")
            rows, of = np.unique(np.column_stack([rate, *demands]), axis=0, return_inverse=True)
            delays = [kind == "delay" for kind in kinds]
            return Classes(of.reshape(-1).tolist(), lambda present: _by_class(rows, present, delays))
        parameters = [folded(values) for values in demands]
        if "flow" in kinds:
            return Averaged(rate.tolist(), parameters, residence)
        queues = [place for place, kind in enumerate(kinds) if kind == "queue"]
        delays = [place for place, kind in enumerate(kinds) if kind == "delay"]
        return Averaged(rate.tolist(), parameters, _queues_and_delays(queues, delays))


def _queues_and_delays(queues: list[int], delays: list[int]) -> Callable[[float, list[float], int], float]:
    """Return the residence in a network without flow-equivalent centres: the recursion of `exact`, without its lists.

    It is solved at every event, so one queue, the common case, has a loop of its own.
    """

    def one(mean_rate: float, means: list[float], running: int) -> float:
        demand, fixed = means[queues[0]], elementary.added([means[place] for place in delays])
        outside, time, queued = 1.0 / mean_rate + fixed, 0.0, 0.0
        for n in range(1, running + 1):
            time = demand * (1.0 + queued)
            queued = n * time / (outside + time)
        return time + fixed

    def several(mean_rate: float, means: list[float], running: int) -> float:
        demands, fixed = [means[place] for place in queues], elementary.added([means[place] for place in delays])
        outside, total = 1.0 / mean_rate + fixed, 0.0
        queued = [0.0] * len(demands)
        for n in range(1, running + 1):
            times = [demand * (1.0 + queue) for demand, queue in zip(demands, queued, strict=True)]
            total = elementary.added(times)
            throughput = n / (outside + total)
            queued = [throughput * time for time in times]
        return total + fixed

    return one if len(queues) == 1 else several


def _by_class(rows: Floats, present: list[int], delays: list[bool]) -> dict[int, float]:
    """Return each present class's rate_c R_c; rows are (rate, demands…) of the classes."""
    classes, counts = np.unique(present, return_counts=True)
    rate, demands = rows[classes, 0], rows[classes, 1:]
    asks = rate > 0
    ratios = np.zeros(len(classes))
    if asks.any():
        times = bard_schweitzer(demands[asks], 1.0 / rate[asks], counts[asks], delays)
        ratios[asks] = rate[asks] * times.sum(axis=1)
    return dict(zip(classes.tolist(), ratios.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Bus:
    """A shared bus with snooping caches and two memory modules: the four inputs of the paper's model, equations of our own.

    The paper's equations lean on another one (Tsuei and Vernon 1992); these do not reproduce it. A request is an invalidation
    (share `inv`) or a read; of the reads a share `rwb` also writes a dirty line back, and a share `cache` is served by another
    processor's cache. With times in bus cycles, a request needs on average

        bus      inv t_inv + (1 - inv) (t_request + t_response + rwb t_write_back)    queue
        memory   (1 - inv) ((1 - cache) t_memory + rwb t_memory) / 2                  two queues
        cache    (1 - inv) cache t_cache                                              delay

    and at most `outstanding` reads are under way at a time: from that many processors on a read waits for a slot as in an
    M/M/outstanding//n queue (a flow-equivalent delay), whose service is the residence of a read after its request at population
    n - 1, and whose think time is the rest of the cycle. Solved exactly, population by population. Read and write times are the
    8 cycles of the paper's round trip, 3 of them on the bus.
    """

    # rate, inv, rwb, cache: the four inputs: requests per unit of a task's computing, and the shares above; a string
    # names a column
    rate: Number
    inv: Number = 0.0
    rwb: Number = 0.0
    cache: Number = 0.0
    cycle: float = 1e-7  # of the bus, in the graph's unit
    t_inv: float = 1.0
    t_request: float = 1.0
    t_response: float = 2.0
    t_write_back: float = 2.0
    t_memory: float = 5.0
    t_cache: float = 5.0
    outstanding: int = 3
    name: str = "bus"

    def __post_init__(self) -> None:
        for each in ("cycle", "t_inv", "t_request", "t_response", "t_write_back", "t_memory", "t_cache"):
            value = getattr(self, each)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value >= 0):
                raise InvalidValue(each, value, "finite and not negative")
        if isinstance(self.outstanding, bool) or not isinstance(self.outstanding, int) or self.outstanding < 1:
            raise InvalidValue("outstanding", self.outstanding, "a whole number from 1")

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph."""
        rate = column(graph, "rate", self.rate)
        shares = [column(graph, name, getattr(self, name), 1.0) for name in ("inv", "rwb", "cache")]
        if alike(rate, *shares):
            each, means = float(rate[0]), [float(values[0]) for values in shares]
            return Common(lambda running: each * self.residence(each, means, running) if each else 0.0)
        return Averaged(rate.tolist(), [folded(values) for values in shares], self.residence)

    def residence(self, rate: float, shares: Sequence[float], running: int) -> float:
        """Return how long a request takes on average, with `running` tasks of these shares (inv, rwb, cache)."""
        inv, rwb, cache = shares
        reads, cycle = 1.0 - inv, self.cycle
        request = cycle * (inv * self.t_inv + reads * self.t_request)
        response = cycle * reads * (self.t_response + rwb * self.t_write_back)
        bus = request + response
        memory = cycle * reads * self.t_memory * (1.0 - cache + rwb) / 2.0
        delay = cycle * reads * cache * self.t_cache
        think = 1.0 / rate
        bus_time = memory_time = wait = queued_bus = queued_memory = 0.0
        for n in range(1, running + 1):
            if n > self.outstanding and reads > 0:
                after = (2.0 * memory_time + delay + bus_time * (response / bus if bus else 0.0)) / reads
                rest = (think + bus_time + 2.0 * memory_time + delay) / reads - after
                wait = reads * finite_source_wait(self.outstanding, n, rest, after)
            bus_time, memory_time = bus * (1.0 + queued_bus), memory * (1.0 + queued_memory)
            throughput = n / (think + bus_time + 2.0 * memory_time + delay + wait)
            queued_bus, queued_memory = throughput * bus_time, throughput * memory_time
        return bus_time + 2.0 * memory_time + delay + wait


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Shared memory bandwidth: task i alone uses the share `demand` of it, and progresses with what it gets.

    While the demands of the running tasks sum to 1 or less nobody waits. Beyond, the bandwidth is shared max-min fairly:
    there is
    a level s with sum_i min(d_i, s) = 1, and a task that wants more than s takes d_i / s times as long: D_i = r_i (d_i / s -
    1).
    """

    demand: Number
    name: str = "bandwidth"

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph."""
        demand = column(graph, "demand", self.demand, 1.0)
        if alike(demand):
            each = float(demand[0])
            return Common(lambda running: max(0.0, running * each - 1.0))
        values, of = np.unique(demand, return_inverse=True)
        wanted = values.tolist()
        return Classes(of.reshape(-1).tolist(), lambda present: _shared(wanted, present))


def _shared(demands: list[float], present: list[int]) -> dict[int, float]:
    """Return the ratio of each class in `present`, which is ascending: classes are numbered by rising demand."""
    left, level = 1.0, np.inf
    for place, kind in enumerate(present):
        fair = left / (len(present) - place)
        if demands[kind] > fair:
            level = fair
            break
        left -= demands[kind]
    return {kind: max(0.0, demands[kind] / level - 1.0) for kind in set(present)}


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock that a task takes once, when it is dispatched, for `hold` on average: an M/M/1//K queue (paper 4, 3.2).

    K is the mean number of busy processes since the start, rounded; each comes to the lock anew after the mean computing
    time of
    the tasks completed so far (until the first one, of those dispatched). The time in the queue and in the lock is added to the
    task's demand when it is dispatched.
    """

    hold: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.hold) and self.hold >= 0):
            raise InvalidValue("hold", self.hold, "finite and not negative")

    def residence(self, processes: int, think: float) -> float:
        """Return the mean time in the queue and the lock, for `processes` that come back after `think`."""
        return self.hold + finite_source_wait(1, processes, think, self.hold)


def alone(graph: TaskGraph, contention: System | None, lock: Lock | None) -> TaskGraph:
    """Return the graph with the overhead that each task has when it runs alone taken off its time (paper 4, 4.1).

    T = (T' - hold) / (1 + D / r), so that D is that of the remaining demand; models of your own take the whole time's D.
    """
    ticks = graph.ticks.astype(np.float64)
    if lock is not None:
        ticks = np.maximum(ticks - lock.hold * graph.ticks_per_unit, 0.0)
    if contention is not None:
        bound = contention.bind(graph)
        if isinstance(bound, Common):
            ticks = ticks / (1.0 + bound.ratio(1))
        else:
            over = [bound.overheads([task], [1.0])[0] for task in range(len(graph))]
            ticks = ticks / (1.0 + np.asarray(over))
    return replace(graph, ticks=np.rint(ticks).astype(np.int64))
