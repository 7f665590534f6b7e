"""Where records stand and where they go: the stations, branches and regions of an executed network, and its machine.

Records are plain lists ``[time of entry, frames of the regions they are in, number, replicas]``; points hand them on by
calls. A point that has no room remembers who holds the record, and tells it when the record is taken.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, product
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np
from execution_machine import DRAWN, SHAPES, Box, Machine, Record, uniforms

if TYPE_CHECKING:
    import simpy


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
            while self.outside and len(self.queue) < self.bound:  # what returns may have taken the room
                record, giver = self.outside.popleft()
                self.queue.append(record)
                giver.released()
        elif self.outside:  # a stream without room: records go from hand to hand
            record, giver = self.outside.popleft()
            self._start(record)
            giver.released()
        else:
            self.idle += 1


class Choice:
    """One of the branches, by their shares."""

    def __init__(self, shares: Sequence[float], branches: Sequence[Point], seed: int) -> None:
        self._edges = list(accumulate(shares))[:-1]
        self._edges = [edge / sum(shares) for edge in self._edges]
        self._branches = branches
        self._draw = uniforms(seed)

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
            copy = record.copy()
            copy[1] = (frame, None)
            held.left += not branch.offer(copy, None if giver is None else held)
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
    """The way into a replication, by a depth drawn once, or (no depths) a feedback, by returns; and the way round."""

    def __init__(self, then: Point, depths: Sequence[float] | None, returns: float, seed: int) -> None:
        self.inside: Point
        self._then, self._returns, self._draw = then, returns, uniforms(seed)
        self._depths = None if depths is None else list(accumulate(depths))[:-1]
        self.round = _Round(self)

    def offer(self, record: Record, giver: Giver | None) -> bool:
        if self._depths is None:
            return self.inside.offer(record, giver)
        depth = bisect.bisect_right(self._depths, self._draw())
        if not depth:
            return self._then.offer(record, giver)
        record[1] = (depth, record[1])
        return self.inside.offer(record, giver)

    def after(self, record: Record, giver: Giver | None) -> bool:
        """Take a record that has been round once."""
        if self._depths is None:
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


class Split:
    """The way into one of the replicas of a split, by their shares; `out` is the way out."""

    def __init__(self, shares: Sequence[float], then: Point, seed: int) -> None:
        self.inside: Point
        edges = list(accumulate(shares))
        self._edges = [edge / edges[-1] for edge in edges[:-1]]
        self._draw = uniforms(seed)
        self.out = _SplitOut(then)

    def offer(self, record: Record, giver: Giver | None) -> bool:
        record[3] = (*record[3], bisect.bisect_right(self._edges, self._draw()))
        return self.inside.offer(record, giver)


class _SplitOut:
    def __init__(self, then: Point) -> None:
        self._then = then

    def offer(self, record: Record, giver: Giver | None) -> bool:
        record[3] = record[3][:-1]
        return self._then.offer(record, giver)


class Replicas:
    """The instances of a box below splits: all records of one replica go to one of them, the least loaded by shares."""

    def __init__(self, splits: Sequence[Sequence[float]], instances: Sequence[Point]) -> None:
        self._instances = instances
        shares = {where: prod(split[replica] for split, replica in zip(splits, where, strict=True))
                  for where in product(*(range(len(split)) for split in splits))}  # fmt: skip
        loads = [0.0] * len(instances)
        self._instance: dict[tuple[int, ...], int] = {}
        for where in sorted(shares, key=lambda where: -shares[where]):
            least = loads.index(min(loads))
            loads[least] += shares[where]
            self._instance[where] = least

    def offer(self, record: Record, giver: Giver | None) -> bool:
        return self._instances[self._instance[record[3]]].offer(record, giver)


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
        while self.outside and self.entered - self.left < self.window:
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
        return [self._machine.clock.now, None, self._number, ()]

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
