"""Record streams executed through a network, event by event: what judges plans.

    outcome = simulate(network, boxes, flow, arrival_per_s=20.0, records=100_000, seed=1)

The rules of the execution are S-Net's:

- A box is stateless: one queue, as many servers as it has instances. Replicas that a replication or a split makes of it
  share both, as they share the box's cores.
- Streams may be bounded: a box whose next stream is full keeps its record, and its instance, until there is room.
- ``||``, ``**`` and ``!!`` let records leave in the order in which they entered: who is early waits. With bounded
  streams as many records are let in as the streams and instances inside can hold.
- A join sends each record down all branches and goes on when all are done.
- Filters, placements and synchrocells take no time; a synchrocell is the identity that it becomes after its first join.
- Records that return in a feedback or to the next replica are always taken: bounded loops would lock up.

The clock, and the total order of events, are SimPy's. Records are plain lists and stations are callbacks on its
timeouts: 10 times as fast as its processes and stores (docs/decisions/0061).
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import simpy
from numpy.typing import NDArray
from steady_state import Estimate, Trace, estimates

from advisor.domain import networks as kinds
from advisor.domain.flows import Flow
from advisor.domain.networks import Network

Floats = NDArray[np.float64]
Record = list[Any]  # [time of entry, frames of the regions it is in, number]
Observer = Callable[[str, int, float, float, float], None]  # key, record, its entry, elapsed, active cores at the start

RECORDS_MIN = 400  # of a simulation: 20 batches of its second half still hold 10
DRAWN = 4096  # random numbers made at a time: numpy's cost a number vanishes


def _lognormal(rng: np.random.Generator, n: int, variation: float) -> Floats:
    log_variance = math.log1p(variation)
    return rng.lognormal(-log_variance / 2, math.sqrt(log_variance), n)


# Shapes of service times with mean 1 and the given squared coefficient of variation.
SHAPES: Mapping[str, Callable[[np.random.Generator, int, float], Floats]] = {
    "deterministic": lambda _rng, n, _variation: np.ones(n),
    "exponential": lambda rng, n, _variation: rng.exponential(1.0, n),
    "gamma": lambda rng, n, variation: rng.gamma(1 / variation, variation, n),
    "lognormal": _lognormal,
}


@dataclass(frozen=True, slots=True)
class Box:
    """How a box runs under an allocation.

    Attributes
    ----------
    mean_s : float
        Seconds of a run on its cores, on average, with nothing else on the machine.
    shape, variation
        A key of `SHAPES`, and the squared coefficient of variation.
    cores, instances : int
        Cores of each instance, and instances.
    contention : float
        kappa: with a active cores on the machine a run advances at the rate 1 / (1 + kappa max(a - cores, 0)).
    """

    mean_s: float
    shape: str = "exponential"
    variation: float = 1.0
    cores: int = 1
    instances: int = 1
    contention: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation measured, after its warm-up, with 95 % confidence intervals from batch means.

    Attributes
    ----------
    throughput_per_s, latency_s, latency_p95_s : Estimate
        Records that leave per second; seconds from entry to exit, on average and the 95th percentile.
    utilization : mapping
        Key to the share of its instances that run, on average.
    warm_up : int
        Records cut off at the beginning.
    trace : Trace
        Times of exit and latencies of all records, in the order of exit.
    """

    throughput_per_s: Estimate
    latency_s: Estimate
    latency_p95_s: Estimate
    utilization: Mapping[str, Estimate]
    warm_up: int
    trace: Trace = field(repr=False)


class Giver(Protocol):
    """Who holds a record until it is taken."""

    def released(self) -> None:
        """Be told that the record which was offered in vain has been taken now."""


class Point(Protocol):
    """Where records go. `offer` returns whether the record is taken now; otherwise `giver` is told when it is.

    Without a giver the record is always taken.
    """

    def offer(self, record: Record, giver: Giver | None) -> bool:
        """Take the record, or remember who holds it."""
        ...


class Station:
    """A box: one queue, several servers."""

    def __init__(self, machine: Machine, key: str, box: Box, then: Point, bound: float, seed: int) -> None:
        self.machine, self.key, self.box, self.then, self.bound = machine, key, box, then, bound
        self.idle = box.instances
        self.busy, self.busy_s, self.changed_s = 0, 0.0, 0.0
        self.queue: deque[Record] = deque()
        self.outside: deque[tuple[Record, Giver]] = deque()
        self._rng = np.random.default_rng(seed)
        self._drawn: list[float] = []

    def offer(self, record: Record, giver: Giver | None) -> bool:
        if self.idle:
            self.idle -= 1
            self._start(record)
            return True
        if giver is None or len(self.queue) < self.bound:
            self.queue.append(record)
            return True
        self.outside.append((record, giver))
        return False

    def busy_until(self, now: float) -> float:
        """Return the seconds that servers have run up to now."""
        return self.busy_s + self.busy * (now - self.changed_s)

    def _start(self, record: Record) -> None:
        if not self._drawn:
            box = self.box
            self._drawn = (box.mean_s * SHAPES[box.shape](self._rng, DRAWN, box.variation)).tolist()
        self._count(1)
        self.machine.start(self, record, self._drawn.pop())

    def finish(self, record: Record) -> None:
        """Hand on a record that is done, or hold it, and the server, until it is taken."""
        self._count(-1)
        if self.then.offer(record, self):
            self.released()

    def _count(self, change: int) -> None:
        now = self.machine.clock.now
        self.busy_s += self.busy * (now - self.changed_s)
        self.busy, self.changed_s = self.busy + change, now

    def released(self) -> None:
        """Let a server go on to the next record."""
        if self.queue:
            self._start(self.queue.popleft())
            if self.outside:
                record, giver = self.outside.popleft()
                self.queue.append(record)
                giver.released()
        elif self.outside:  # a stream without room: records go from hand to hand
            record, giver = self.outside.popleft()
            self._start(record)
            giver.released()
        else:
            self.idle += 1


class Machine:
    """The clock, and the cores on which boxes slow each other down."""

    def __init__(self, observe: Observer | None) -> None:
        self.clock = simpy.Environment()
        self.active = 0
        self._observe = observe

    def start(self, station: Station, record: Record, seconds: float) -> None:
        """Run a record for so many seconds."""
        timeout = self.clock.timeout(seconds, record)
        if self._observe is None:
            timeout.callbacks.append(lambda event: station.finish(event._value))
            return
        self.active += station.box.cores
        observe, active = self._observe, self.active

        def done(_event: simpy.Event) -> None:
            self.active -= station.box.cores
            observe(station.key, record[2], record[0], seconds, active)
            station.finish(record)

        timeout.callbacks.append(done)


class _Run:
    """One run on a contended machine: what is left of it, and how fast it goes."""

    __slots__ = ("active", "began_s", "left_s", "record", "slowdown", "station", "version")

    def __init__(self, station: Station, record: Record, left_s: float, began_s: float) -> None:
        self.station, self.record, self.left_s, self.began_s = station, record, left_s, began_s
        self.slowdown, self.version, self.active = 0.0, 0, 0


class ContendedMachine(Machine):
    """Cores where each run advances at the rate 1 / (1 + kappa max(active - p, 0)), whenever who is active changes.

    Cost O(runs at a time) an event.
    """

    def __init__(self, observe: Observer | None) -> None:
        super().__init__(observe)
        self._runs: dict[_Run, None] = {}
        self._since_s = 0.0

    def start(self, station: Station, record: Record, seconds: float) -> None:
        """Run a record for so many seconds of an empty machine."""
        run = _Run(station, record, seconds, self.clock.now)
        self._change(station.box.cores, run)
        run.active = self.active

    def _change(self, cores: int, added: _Run | None) -> None:
        now = self.clock.now
        passed, self._since_s = now - self._since_s, now
        for run in self._runs:
            run.left_s -= passed / run.slowdown
        if added is not None:
            self._runs[added] = None
        self.active += cores
        for run in self._runs:
            box = run.station.box
            slowdown = 1 + box.contention * max(self.active - box.cores, 0)
            if slowdown != run.slowdown:
                run.slowdown, run.version = slowdown, run.version + 1
                timeout = self.clock.timeout(max(run.left_s, 0.0) * slowdown, (run, run.version))
                timeout.callbacks.append(self._due)

    def _due(self, event: simpy.Event) -> None:
        run, version = event._value
        if version != run.version:
            return  # it was given another speed since
        del self._runs[run]
        self._change(-run.station.box.cores, None)
        if self._observe is not None:
            elapsed = self.clock.now - run.began_s
            self._observe(run.station.key, run.record[2], run.record[0], elapsed, run.active)
        run.station.finish(run.record)


class Choice:
    """One of the branches, by their shares."""

    def __init__(self, shares: Sequence[float], branches: Sequence[Point], seed: int) -> None:
        self._edges = list(accumulate(shares))[:-1]
        self._edges = [edge / sum(shares) for edge in self._edges]
        self._branches = branches
        self._draw = _uniforms(seed)

    def offer(self, record: Record, giver: Giver | None) -> bool:
        return self._branches[bisect.bisect_right(self._edges, self._draw())].offer(record, giver)


class Fork:
    """All branches; the giver is told when all have taken their copy."""

    def __init__(self, branches: Sequence[Point]) -> None:
        self._branches = branches

    def offer(self, record: Record, giver: Giver | None) -> bool:
        frame = [len(self._branches), record]
        held = _Held(giver)
        for branch in self._branches:
            held.left += not branch.offer([record[0], (frame, None), record[2]], None if giver is None else held)
        held.complete = True
        return held.left == 0


class _Held:
    """Copies of one record that are not yet taken."""

    def __init__(self, giver: Giver | None) -> None:
        self.giver, self.left, self.complete = giver, 0, False

    def released(self) -> None:
        self.left -= 1
        if self.complete and not self.left and self.giver is not None:
            self.giver.released()


class Join:
    """The last copy brings the record on; others end here."""

    def __init__(self, then: Point) -> None:
        self._then = then

    def offer(self, record: Record, giver: Giver | None) -> bool:
        frame = record[1][0]
        frame[0] -= 1
        return True if frame[0] else self._then.offer(frame[1], giver)


class Loop:
    """The way into a replication (`again` is drawn once, as a depth) or a feedback, and the way round."""

    def __init__(self, then: Point, depths: Sequence[float], returns: float, seed: int) -> None:
        self.inside: Point
        self._then, self._returns, self._draw = then, returns, _uniforms(seed)
        self._depths = list(accumulate(depths))[:-1]
        self.round = _Round(self)

    def offer(self, record: Record, giver: Giver | None) -> bool:
        if self._returns:
            return self.inside.offer(record, giver)
        depth = bisect.bisect_right(self._depths, self._draw())
        if not depth:
            return self._then.offer(record, giver)
        record[1] = (depth, record[1])
        return self.inside.offer(record, giver)

    def after(self, record: Record, giver: Giver | None) -> bool:
        """Take a record that has been round once."""
        if self._returns:
            again = self._draw() < self._returns
        else:
            depth, rest = record[1]
            again = depth > 1
            record[1] = (depth - 1, rest) if again else rest
        return self.inside.offer(record, None) if again else self._then.offer(record, giver)


class _Round:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def offer(self, record: Record, giver: Giver | None) -> bool:
        return self._loop.after(record, giver)


class Ordered:
    """The way into a region whose records leave in the order of their entry; `Leaving` is the way out."""

    def __init__(self, then: Point, window: float) -> None:
        self.inside: Point
        self.window, self.entered, self.left = window, 0, 0
        self.outside: deque[tuple[Record, Giver]] = deque()
        self.leaving = Leaving(self, then)

    def offer(self, record: Record, giver: Giver | None) -> bool:
        if giver is not None and self.entered - self.left >= self.window:
            self.outside.append((record, giver))
            return False
        self._number(record)
        return self.inside.offer(record, giver)

    def _number(self, record: Record) -> None:
        record[1] = (self.entered, record[1])
        self.entered += 1

    def gone(self) -> None:
        """Let the next one in: a record has left."""
        self.left += 1
        if self.outside:
            record, giver = self.outside.popleft()
            self._number(record)
            if self.inside.offer(record, giver):
                giver.released()


class Leaving:
    """Records that are done, until those before them are; then in order, as fast as they are taken."""

    def __init__(self, region: Ordered, then: Point) -> None:
        self._region, self._then = region, then
        self._done: dict[int, Record] = {}
        self._next, self._held = 0, False

    def offer(self, record: Record, _giver: Giver | None) -> bool:
        number, record[1] = record[1]
        self._done[number] = record
        if not self._held:
            self._go_on()
        return True

    def released(self) -> None:
        self._held = False
        self._region.gone()
        self._go_on()

    def _go_on(self) -> None:
        while not self._held and (record := self._done.pop(self._next, None)) is not None:
            self._next += 1
            self._held = True  # nobody else hands on meanwhile
            if not self._then.offer(record, self):
                return
            self._held = False
            self._region.gone()


class Exit:
    """Where records leave the network."""

    def __init__(self, machine: Machine, records: int, stations: Sequence[Station]) -> None:
        self._machine, self._records, self._stations = machine, records, stations
        self.times: list[float] = []
        self.latencies: list[float] = []
        self.busy: list[list[float]] = []  # of each station, at the exits whose number is in `marks`
        self.marks: list[int] = []
        self._every = max(1, records // 200)  # marks: enough for the batches, too few to cost anything
        self.full = machine.clock.event()

    def offer(self, record: Record, _giver: Giver | None) -> bool:
        now = self._machine.clock.now
        self.times.append(now)
        self.latencies.append(now - record[0])
        count = len(self.times)
        if count % self._every == 0:
            self.marks.append(count)
            self.busy.append([station.busy_until(now) for station in self._stations])
        if count == self._records:
            self.full.succeed()
        return True


class Source:
    """Records as they arrive, waiting outside when the first stream is full; or always the next one."""

    def __init__(self, machine: Machine, first: Point, gaps: Callable[[], float | None] | None) -> None:
        self._machine, self._first, self._gaps = machine, first, gaps
        self._outside: deque[Record] = deque()
        self._held, self._number = False, 0
        if gaps is None:
            machine.clock.timeout(0).callbacks.append(lambda _event: self._always())
        else:
            self._wait()

    def _wait(self) -> None:
        assert self._gaps is not None
        gap = self._gaps()
        if gap is not None:
            self._machine.clock.timeout(gap).callbacks.append(self._arrive)

    def _record(self) -> Record:
        self._number += 1
        return [self._machine.clock.now, None, self._number]

    def _arrive(self, _event: simpy.Event) -> None:
        self._outside.append(self._record())
        if not self._held:
            self._go_on()
        self._wait()

    def _go_on(self) -> None:
        while self._outside and not self._held:
            self._held = True
            if not self._first.offer(self._outside.popleft(), self):
                return
            self._held = False

    def _always(self) -> None:
        while self._first.offer(self._record(), self):
            pass

    def released(self) -> None:
        if self._gaps is None:
            self._always()
        else:
            self._held = False
            self._go_on()


def _uniforms(seed: int) -> Callable[[], float]:
    rng = np.random.default_rng(seed)
    drawn: list[float] = []

    def draw() -> float:
        if not drawn:
            drawn.extend(rng.random(DRAWN).tolist())
        return drawn.pop()

    return draw


def _exponential_gaps(rate_per_s: float, seed: int) -> Callable[[], float]:
    rng = np.random.default_rng(seed)
    drawn: list[float] = []

    def draw() -> float:
        if not drawn:
            drawn.extend(rng.exponential(1 / rate_per_s, DRAWN).tolist())
        return drawn.pop()

    return draw


class _Plant:
    """The points of a network, made from its end to its beginning: each knows where its records go on."""

    def __init__(
        self, network: Network, boxes: Mapping[str, Box], flow: Flow, machine: Machine, bound: float, seed: int
    ) -> None:
        self.network, self.boxes, self.flow, self.machine, self.bound = network, boxes, flow, machine, bound
        self.stations: list[Station] = []
        self._seeds = (seed * 1_000_003 + number for number in range(1_000_003))
        self._key = dict(zip(network.boxes, network.keys, strict=True))

    def _known(self, what: str, number: int) -> Any:
        given = getattr(self.flow, what)
        if number >= len(given) or given[number] is None:
            raise ValueError(f"flow.{what}[{number}] is not known")
        return given[number]

    def point(self, index: int, then: Point) -> Point:
        """Return the way into a node whose records go on to `then`."""
        node = self.network.nodes[index]
        if node.ordered:
            region = Ordered(then, math.inf)
            before = len(self.stations)
            region.inside = self._plain(index, region.leaving)
            region.window = sum(self.bound + station.box.instances for station in self.stations[before:]) or math.inf
            return region
        return self._plain(index, then)

    def _plain(self, index: int, then: Point) -> Point:
        node, network = self.network.nodes[index], self.network
        if node.kind == kinds.BOX:
            if node.once:
                return then
            key = self._key[index]
            station = Station(self.machine, key, self.boxes[key], then, self.bound, next(self._seeds))
            self.stations.append(station)
            return station
        if node.kind == kinds.SERIES:
            for child in reversed(node.children):
                then = self.point(child, then)
            return then
        if node.kind == kinds.CHOICE:
            shares = self._known("shares", network.choices.index(index))
            return Choice(shares, [self.point(child, then) for child in node.children], next(self._seeds))
        if node.kind == kinds.JOIN:
            end = Join(then)
            return Fork([self.point(child, end) for child in node.children])
        if node.kind in (kinds.REPLICATION, kinds.FEEDBACK):
            again = node.kind == kinds.FEEDBACK
            depths = [1.0] if again else self._known("depths", network.replications.index(index))
            returns = self._known("returns", network.feedbacks.index(index)) if again else 0.0
            if again and not returns:
                return self.point(node.children[0], then)
            loop = Loop(then, depths, returns, next(self._seeds))
            loop.inside = self.point(node.children[0], loop.round)
            return loop
        if node.children:  # a split, whose replicas share the boxes' instances, or a placement
            return self.point(node.children[0], then)
        return then  # a synchrocell or a filter


def simulate(
    network: Network,
    boxes: Mapping[str, Box],
    flow: Flow | None = None,
    *,
    arrival_per_s: float | None = None,
    arrivals_s: Sequence[float] | None = None,
    stream_records: int | None = None,
    records: int = 20_000,
    seed: int = 0,
    observe: Observer | None = None,
) -> Outcome:
    """Execute record streams through a network until `records` have left.

    Parameters
    ----------
    boxes : mapping
        Key of the network to how it runs.
    flow : Flow
        Shares, depths and returns; all that the network has must be known.
    arrival_per_s, arrivals_s : optional
        The rate of a Poisson stream, or the times at which records enter. Neither: there is always a next record, and
        the throughput is the network's capacity (streams must then be bounded).
    stream_records : int, optional
        Records that the stream before each box holds; absent: any number.
    observe : callable, optional
        Called for each run that ends: key, record, its time of entry, elapsed seconds, active cores at its start.

    Notes
    -----
    Cost O(records x visits), 4 to 8 microseconds a visit; with contention also x runs at a time.
    """
    if records < RECORDS_MIN:
        raise ValueError(f"records must be at least {RECORDS_MIN}, got {records}")
    if arrival_per_s is None and arrivals_s is None and stream_records is None:
        raise ValueError("a source that never ends needs bounded streams")
    contended = any(box.contention for box in boxes.values())
    machine = (ContendedMachine if contended else Machine)(observe)
    bound = math.inf if stream_records is None else stream_records
    plant = _Plant(network, boxes, flow or Flow(), machine, bound, seed)
    end = Exit(machine, records, plant.stations)
    first = plant.point(len(network.nodes) - 1, end)
    if arrivals_s is not None:
        gaps = iter(np.diff(np.asarray(arrivals_s, np.float64), prepend=0.0).tolist())
        Source(machine, first, lambda: next(gaps, None))
    else:
        Source(machine, first, None if arrival_per_s is None else _exponential_gaps(arrival_per_s, seed + 1))
    machine.clock.run(until=end.full)
    trace = Trace(np.array(end.times), np.array(end.latencies))
    found = estimates(trace, end.marks, np.array(end.busy), [station.box.instances for station in plant.stations])
    keys = [station.key for station in plant.stations]
    return Outcome(*found[:3], dict(zip(keys, found[3], strict=True)), found[4], trace)
