"""Record streams executed through a network, event by event: what judges plans.

    outcome = simulate(network, boxes, flow, arrival_per_s=20.0, records=100_000, seed=1)

The rules of the execution are S-Net's:

- A box is stateless: one queue, as many servers as it has instances. Replicas that a replication makes of it share
  both, as they share the box's cores. Below a split each instance has a queue of its own, and all records of one
  replica go to one instance, where the splits' fan-outs are known.
- Streams may be bounded: a box whose next stream is full keeps its record, and its instance, until there is room.
- ``||``, ``**`` and ``!!`` let records leave in the order in which they entered: who is early waits. With bounded
  streams as many records are let in as the streams and instances inside can hold.
- A join sends each record down all branches and goes on when all are done.
- Filters, placements and synchrocells take no time; a synchrocell is the identity that it becomes after its first join.
- Records that return in a feedback or to the next replica are always taken: bounded loops would lock up.

The clock, and the total order of events, are SimPy's. Records are plain lists and stations are callbacks on its
timeouts: 3 times as fast as its processes and stores.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from execution_machine import SHAPES, Box, ContendedMachine, Machine, Observer, exponential_gaps
from execution_points import Choice, Exit, Loop, Point, Replicas, Source, Split, Station
from plant import Plant
from steady_state import Estimate, Trace, estimates

from advisor.domain import networks as kinds
from advisor.domain.flows import Flow
from advisor.domain.networks import Network

__all__ = ["SHAPES", "Box", "Outcome", "simulate"]

RECORDS_MIN = 400  # of a simulation: 20 batches of its second half still hold 10


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


class _Simulated(Plant):
    """A network whose boxes are drawn service times and whose records go where the flow's shares send them."""

    def __init__(
        self, network: Network, boxes: Mapping[str, Box], flow: Flow, machine: Machine, bound: float, seed: int
    ) -> None:
        super().__init__(network)
        self.boxes, self.flow, self.machine, self.bound = boxes, flow, machine, bound
        self.stations: list[Station] = []
        self._splits: list[Sequence[float]] = []
        self._seeds = (seed * 1_000_003 + number for number in range(1_000_003))

    def _known(self, what: str, number: int) -> Any:
        given = getattr(self.flow, what)
        if number >= len(given) or given[number] is None:
            raise ValueError(f"flow.{what}[{number}] is not known")
        return given[number]

    def box(self, key: str, index: int, then: Point) -> Point:
        """Return a station, or below a split one for each instance."""
        box = self.boxes[key]
        alone = box.instances == 1 or not self._splits
        each = [box] if alone else [replace(box, instances=1)] * box.instances
        made = [Station(self.machine, key, one, then, self.bound, next(self._seeds)) for one in each]
        self.stations += made
        return made[0] if alone else Replicas(self._splits, made)

    def choice(self, index: int, branches: Sequence[Point]) -> Point:
        """Return a choice by shares."""
        return Choice(self._known("shares", self.network.choices.index(index)), branches, next(self._seeds))

    def loop(self, index: int, then: Point) -> Loop:
        """Return a loop by depths or by the probability of a return."""
        if self.network.nodes[index].kind == kinds.FEEDBACK:
            returns = self._known("returns", self.network.feedbacks.index(index))
            return Loop(then, None, returns, next(self._seeds))
        return Loop(then, self._known("depths", self.network.replications.index(index)), 0.0, next(self._seeds))

    def split(self, index: int, then: Point) -> Point:
        """Return a split by fan-outs; where they are not known the instances share one queue."""
        number, child = self.network.splits.index(index), self.network.nodes[index].children[0]
        given = self.flow.fan_outs[number] if number < len(self.flow.fan_outs) else None
        if given is None:
            return self.point(child, then)
        split = Split(given, then, next(self._seeds))
        self._splits.append(given)
        split.inside = self.point(child, split.out)
        self._splits.pop()
        return split

    def capacity(self, before: int) -> float:
        """Return the records that the streams and instances made since hold."""
        return sum(self.bound + station.box.instances for station in self.stations[before:]) or math.inf

    def made(self) -> int:
        """Return how many stations there are."""
        return len(self.stations)


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
    plant = _Simulated(network, boxes, flow or Flow(), machine, bound, seed)
    end = Exit(machine, records, plant.stations)
    first = plant.whole(end)
    if arrivals_s is not None:
        gaps = iter(np.diff(np.asarray(arrivals_s, np.float64), prepend=0.0).tolist())
        Source(machine, first, lambda: next(gaps, None))
    else:
        Source(machine, first, None if arrival_per_s is None else exponential_gaps(arrival_per_s, seed + 1))
    machine.clock.run(until=end.full)
    trace = Trace(np.array(end.times), np.array(end.latencies))
    owner = [station.key for station in plant.stations]
    keys = list(dict.fromkeys(owner))
    busy = np.array(end.busy) @ np.array([[station == key for key in keys] for station in owner], np.float64)
    found = estimates(trace, end.marks, busy, [boxes[key].instances for key in keys])
    return Outcome(*found[:3], dict(zip(keys, found[3], strict=True)), found[4], trace)
