"""What tasks that run together cost each other: interchangeable system models, the lower level of paper 4.

A model is bound to a graph (`System.bind`), which reads the columns that it needs; the bound form gives D_i, the overhead that
task i would have if it ran to its end among the tasks that run now, for what remains of each. In all models here D_i is
proportional to the remaining demand r_i, so that a task's slowdown depends on who runs, and not on how far they are. Where all
tasks are alike it depends on their number only, and the analysis then costs O(log P) an event in place of O(P).

Units: rates are per unit of the graph's time, demands and holding times in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from advisor.domain import elementary
from advisor.domain.task_graphs import TaskGraph
from advisor.errors import InvalidValue
from advisor.simulation.queueing import bard_schweitzer, exact, finite_source_wait

Floats = NDArray[np.float64]
MEMO_MAX = 65_536  # solved states that one analysis keeps, at about 200 bytes
Number = float | str  # a number for all tasks, or the name of the graph's column that has one a task
# Of the bus, in its cycles: the paper's round trip of a read takes 8, 3 of them on the bus.
T_INVALIDATE, T_REQUEST, T_RESPONSE, T_WRITE_BACK, T_MEMORY, T_CACHE = 1.0, 1.0, 2.0, 2.0, 5.0, 5.0
OUTSTANDING = 3  # reads under way at a time, from all processors together (paper 4, 3.3)


class System(Protocol):
    """A system model."""

    @property
    def name(self) -> str:
        """The model's name."""
        ...

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph; raises InvalidValue for columns that are missing or hold what cannot be."""
        ...


class Overheads(Protocol):
    """A system model bound to a graph whose tasks differ."""

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i of each running task, for its remaining demand in ticks."""
        ...


@dataclass(frozen=True, slots=True)
class Common:
    """A system model bound to a graph whose tasks are all alike: D_i / r_i for each number of running tasks."""

    ratio: Callable[[int], float]


BoundSystem = Overheads | Common


@dataclass(slots=True)
class Classes:
    """Tasks of several classes: `solve` gives each class's ratio for the classes that run; memoised on their counts."""

    of: list[int]
    solve: Callable[[list[int]], dict[int, float]]
    _found: dict[Hashable, dict[int, float]] = field(default_factory=dict[Hashable, dict[int, float]])

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i."""
        of = self.of
        present = sorted([of[task] for task in running])
        key = tuple(present)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= MEMO_MAX:
                self._found.clear()
            found = self._found[key] = self.solve(present)
        return [left * found[of[task]] for task, left in zip(running, remaining, strict=True)]


@dataclass(slots=True)
class Averaged:
    """Tasks that all differ: the network is solved for their averages (3.3), each pays for its own rate of requests."""

    rate: list[float]
    columns: list[list[float] | float]  # of each parameter: one a task, or the number that all have
    residence: Callable[[float, Sequence[float], int], float]

    def overheads(self, running: Sequence[int], remaining: Sequence[float]) -> Sequence[float]:
        """Return D_i = r_i rate_i R."""
        rate = self.rate
        rates = [rate[task] for task in running]
        total = elementary.added(rates)
        if total <= 0.0:
            return [0.0] * len(rates)
        means: list[float] = [
            values
            if isinstance(values, (float, int))
            else elementary.added([values[task] * each for task, each in zip(running, rates, strict=True)]) / total
            for values in self.columns
        ]
        time = self.residence(total / len(rates), means, len(rates))
        return [left * each * time for left, each in zip(remaining, rates, strict=True)]


def check_least(field_name: str, value: float) -> None:
    """Refuse a time that is none."""
    if not (np.isfinite(value) and value >= 0):
        raise InvalidValue(field_name, value, "finite and not negative")


def by_request(
    rate: Floats, parameters: Sequence[Floats], residence: Callable[[float, Sequence[float], int], float]
) -> BoundSystem:
    """Return the model in which a request of a task resides so long: (mean rate, mean parameters, running tasks) -> R."""
    if alike(rate, *parameters):
        each, means = float(rate[0]), [float(values[0]) for values in parameters]

        def ratio(running: int) -> float:
            return each * residence(each, means, running) if each else 0.0

        return Common(cache(ratio))
    columns = [float(values[0]) if alike(values) else values.tolist() for values in parameters]
    return Averaged(rate.tolist(), columns, residence)


def column(graph: TaskGraph, name: str, value: Number, most: float = np.inf) -> Floats:
    """Return a parameter of each task, checked."""
    found = (
        np.asarray(graph.column(value, f"the contention model reads {name} there"), np.float64)
        if isinstance(value, str)
        else np.full(max(len(graph), 1), float(value))
    )
    if not (np.isfinite(found) & (found >= 0) & (found <= most)).all():
        raise InvalidValue(name, value, f"finite, from 0 to {most:g}")
    return found


def alike(*columns: Floats) -> bool:
    return all(bool((values == values[0]).all()) for values in columns if len(values))


@dataclass(frozen=True, slots=True)
class Centre:
    """One resource that requests visit."""

    demand: Number  # time of service that one request needs there, in the graph's unit
    kind: Literal["queue", "delay"] = "queue"  # one server, at which requests wait for each other; or no waiting


@dataclass(frozen=True, slots=True)
class Queueing:
    """A closed queueing network: each running task sends `rate` requests per unit of its own time through the centres.

    One request resides R in the network of all running tasks, so D_i = r_i rate_i R, with think time 1 / rate.
    """

    centres: Sequence[Centre]  # what requests visit, one after the other
    rate: Number = 1.0  # requests of a running task per unit of its computing
    # `exact`: one class with the averages of the running tasks, weighted by their rates (paper 4, 3.3).
    # `bard_schweitzer`: a class for each kind of task, approximate.
    method: str = "exact"
    name: str = "queueing"

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph."""
        rate = column(graph, "rate", self.rate)
        demands = [column(graph, "demand", centre.demand) for centre in self.centres]
        for field_name, value, known in (
            ("method", self.method, ("exact", "bard_schweitzer")),
            *(("kind", centre.kind, ("queue", "delay")) for centre in self.centres),
        ):
            if value not in known:
                raise InvalidValue(field_name, value, " or ".join(known))
        delays = [centre.kind == "delay" for centre in self.centres]

        def residence(mean_rate: float, means: Sequence[float], running: int) -> float:
            fixed = elementary.added(mean for mean, delay in zip(means, delays, strict=True) if delay)
            queues = [mean for mean, delay in zip(means, delays, strict=True) if not delay]
            return elementary.added(exact(queues, 1.0 / mean_rate + fixed, running)) + fixed

        if self.method == "bard_schweitzer" and not alike(rate, *demands):
            rows, of = np.unique(np.column_stack([rate, *demands]), axis=0, return_inverse=True)
            return Classes(of.reshape(-1).tolist(), lambda present: _by_class(rows, present, delays))
        return by_request(rate, demands, residence)


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

        bus      inv T_INVALIDATE + (1 - inv) (T_REQUEST + T_RESPONSE + rwb T_WRITE_BACK)   queue
        memory   (1 - inv) ((1 - cache) T_MEMORY + rwb T_MEMORY) / 2                        two queues
        cache    (1 - inv) cache T_CACHE                                                    delay

    and at most `OUTSTANDING` reads are under way at a time: from that many processors on a read waits for a slot as in an
    M/M/OUTSTANDING//n queue (a flow-equivalent delay), whose service is the residence of a read after its request at population
    n - 1, and whose think time is the rest of the cycle. Solved exactly, population by population.
    """

    # rate, inv, rwb, cache: the four inputs: requests per unit of a task's computing, and the shares above
    rate: Number
    inv: Number = 0.0
    rwb: Number = 0.0
    cache: Number = 0.0
    cycle: float = 1e-7  # of the bus, in the graph's unit
    name: str = "bus"

    def __post_init__(self) -> None:
        check_least("cycle", self.cycle)

    def bind(self, graph: TaskGraph) -> BoundSystem:
        """Return the model for a graph."""
        shares = [column(graph, name, getattr(self, name), 1.0) for name in ("inv", "rwb", "cache")]
        return by_request(column(graph, "rate", self.rate), shares, self.residence)

    def residence(self, rate: float, shares: Sequence[float], running: int) -> float:
        """Return how long a request takes on average, with `running` tasks of these shares (inv, rwb, cache)."""
        inv, rwb, cache = shares
        reads, cycle = 1.0 - inv, self.cycle
        request = cycle * (inv * T_INVALIDATE + reads * T_REQUEST)
        response = cycle * reads * (T_RESPONSE + rwb * T_WRITE_BACK)
        bus = request + response
        memory = cycle * reads * T_MEMORY * (1.0 - cache + rwb) / 2.0
        delay = cycle * reads * cache * T_CACHE
        think = 1.0 / rate
        bus_time = memory_time = wait = queued_bus = queued_memory = 0.0
        for n in range(1, running + 1):
            if n > OUTSTANDING and reads > 0:
                after = (2.0 * memory_time + delay + bus_time * (response / bus if bus else 0.0)) / reads
                rest = (think + bus_time + 2.0 * memory_time + delay) / reads - after
                wait = reads * finite_source_wait(OUTSTANDING, n, rest, after)
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
        check_least("hold", self.hold)

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
