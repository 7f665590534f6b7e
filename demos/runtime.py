"""A small real runtime: executes a network of Python and numpy boxes in worker processes on this machine's cores.

    with Runtime(network, BOXES, client, name="demo") as runtime:
        runtime.apply(allocation)
        rate = runtime.run(inputs, seconds=3.0)

Each instance of a box is a process of its own, held to its cores by affinity where the system has it; a box with several
cores runs as many threads. Streams are bounded. Records are routed by S-Net's rule, from the labels that they have: to
the branch whose input type matches best (the leftmost of equals), out of a replication when they match its pattern, back
in a feedback when they match. Order, joins and back-pressure are those of the simulator (`benchmarks/plant.py`): one
meaning of the operators, two clocks.

What is measured goes to the service through the client: a row a run, with the network, the record, whether it entered
with this run, and the cores that were active when the run began.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from execution_machine import Box, Record
from execution_points import Giver, Join, Point, Station
from plant import Plant
from runtime_workers import BoxFunction, Fields, Setting, Workers

from advisor.domain import networks as kinds
from advisor.domain.networks import Network

STREAM_RECORDS = 4  # that a stream holds: enough to keep boxes busy, little enough to measure a new setting soon


class Observing(Protocol):
    """What the runtime needs of a client."""

    def observe(self, component: str, predictor: Any, cores: Any, elapsed_s: Any, **optional: Any) -> bool: ...


class LiveStation(Station):
    """A box whose servers are processes."""

    def __init__(self, runtime: Runtime, key: str, name: str, then: Point) -> None:
        super().__init__(runtime.workers, key, Box(1.0, instances=0), then, STREAM_RECORDS, 0)  # type: ignore[arg-type]
        self.name, self._runtime = name, runtime
        self.runs = 0
        self._setting = Setting(1, ())
        self._places: list[frozenset[int]] = []
        self._pipes: list[Connection] = []
        self._started = 0

    def settle(self, setting: Setting) -> None:
        """Take a setting, between runs."""
        while self._started < setting.instances:
            self._pipes.append(self._runtime.workers.new())
            self._started += 1
        self._setting, self._places = setting, list(setting.processors)
        self.idle = setting.instances

    def _start(self, record: Record) -> None:
        self._count(1)
        self._runtime.workers.start(self, record, self._pipes.pop(), self._setting, self._places.pop())

    def done(self, pipe: Connection, place: frozenset[int]) -> None:
        """Take a process back."""
        self._pipes.append(pipe)
        self._places.append(place)
        self.runs += 1


def labels(pattern: str) -> frozenset[str]:
    """Return the labels of a pattern such as ``{a, <t>}``.

    Raises
    ------
    ValueError
        When it has a guard: this runtime does not evaluate tag expressions.
    """
    inside, _, guard = pattern.strip().partition("}")
    if guard.strip():
        raise ValueError(f"the pattern {pattern!r} has a guard, which this runtime does not evaluate")
    return frozenset(label.strip().strip("<>") for label in inside.strip("{").split(",") if label.strip())


class TypedChoice:
    """The branch whose input type has the most labels, all of which the record has; the leftmost of equals."""

    def __init__(self, inputs: Sequence[frozenset[str]], branches: Sequence[Point]) -> None:
        self._inputs, self._branches = inputs, branches

    def offer(self, record: Record, giver: Giver | None) -> bool:
        matching = [(len(wanted), -row) for row, wanted in enumerate(self._inputs) if wanted <= record[4].keys()]
        if not matching:
            raise ValueError(f"no branch takes a record with {sorted(record[4])}")
        return self._branches[-max(matching)[1]].offer(record, giver)


class TypedLoop:
    """A replication, left by what matches the pattern, before each replica; or a feedback, where that comes back."""

    def __init__(self, then: Point, patterns: Sequence[frozenset[str]], *, returns: bool) -> None:
        self.inside: Point
        self._then, self._patterns, self._returns = then, patterns, returns
        self.round: Point = _Round(self)

    def matches(self, record: Record) -> bool:
        return any(pattern <= record[4].keys() for pattern in self._patterns)

    def offer(self, record: Record, giver: Giver | None) -> bool:
        leaves = not self._returns and self.matches(record)
        return (self._then if leaves else self.inside).offer(record, giver)

    def after(self, record: Record, giver: Giver | None) -> bool:
        """Take a record that has been round once."""
        if self.matches(record) == self._returns:
            return self.inside.offer(record, None)
        return self._then.offer(record, giver)


class _Round:
    def __init__(self, loop: TypedLoop) -> None:
        self._loop = loop

    def offer(self, record: Record, giver: Giver | None) -> bool:
        return self._loop.after(record, giver)


class _Merge(Join):
    """The end of a join: the record goes on with the labels of all its copies."""

    def offer(self, record: Record, giver: Giver | None) -> bool:
        parent = record[1][0][1]
        parent[4] = parent[4] | record[4]
        return super().offer(record, giver)


@dataclass(slots=True)
class Measured:
    """What a run of the runtime found: records that left, in how many seconds, and what was seen meanwhile."""

    records: int
    seconds: float
    latencies_s: list[float] = field(default_factory=list[float])

    @property
    def throughput_per_s(self) -> float:
        """Records per second."""
        return self.records / self.seconds


class Runtime(Plant):
    """A network, its processes and its measurements.

    Parameters
    ----------
    network : Network
        As `advisor.network.parse` returns it, boxes with declared inputs.
    boxes : mapping
        Box name to a function of the record's fields and the cores, which returns the fields that it makes. It must be
        importable: workers are spawned.
    client : optional
        What takes the measurements.
    """

    def __init__(
        self, network: Network, boxes: Mapping[str, BoxFunction], client: Observing | None = None, name: str = "demo"
    ) -> None:
        super().__init__(network)
        self.workers = Workers(boxes)
        self.stations: dict[str, LiveStation] = {}
        self._client, self.name = client, name
        self._exit = _Exit(self)
        self._first = self.whole(self._exit)
        self._held = False
        self._number = 0
        self._seen: set[int] = set()

    # -- the plant ---------------------------------------------------------------------------------------------------

    def box(self, key: str, index: int, then: Point) -> Point:
        """Return a station of processes."""
        self.stations[key] = LiveStation(self, key, self.network.nodes[index].name, then)
        return self.stations[key]

    def choice(self, index: int, branches: Sequence[Point]) -> Point:
        """Return a choice by types."""
        return TypedChoice([self._input(child) for child in self.network.nodes[index].children], branches)

    def loop(self, index: int, then: Point) -> TypedLoop:
        """Return a loop by patterns."""
        node = self.network.nodes[index]
        return TypedLoop(then, [labels(p) for p in node.patterns], returns=node.kind == kinds.FEEDBACK)

    def split(self, index: int, then: Point) -> Point:
        """Return the replicas of a split: boxes are stateless, their instances take records of any replica."""
        return self.point(self.network.nodes[index].children[0], then)

    def join(self, then: Point) -> Join:
        """Return the end of a join, which merges labels."""
        return _Merge(then)

    @property
    def records(self) -> int:
        """How many records have left since the beginning."""
        return self._exit.records

    def made(self) -> int:
        """Return how many stations there are."""
        return len(self.stations)

    def capacity(self, before: int) -> float:
        """Return how many records the stations made since hold, one run each at least."""
        return (len(self.stations) - before) * (STREAM_RECORDS + 1) or 1

    def _input(self, index: int) -> frozenset[str]:
        """Return the labels of what a part takes: those of its first box."""
        node = self.network.nodes[index]
        while node.children:
            node = self.network.nodes[node.children[0]]
        return frozenset(label.strip("<>") for label in node.consumes or ())

    # -- running -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.workers.stop()

    def apply(self, settings: Mapping[str, Setting]) -> None:
        """Set cores, instances and processors; between runs."""
        for key, station in self.stations.items():
            station.settle(settings[key])

    def run(
        self, inputs: Iterable[Fields], *, seconds: float | None = None, between: Callable[[], bool] | None = None
    ) -> Measured:
        """Execute records until the inputs end, the seconds are over, or `between`, asked after each run, says stop.

        What is inside is finished; the throughput is that of the records that left, over all of the time.

        Raises
        ------
        Exception
            What a box raises.
        """
        start = perf_counter()
        self._exit.latencies_s.clear()
        source = iter(inputs)
        stopped = False
        while True:
            self.workers.now = perf_counter()
            if not stopped and not self._held:
                stopped = not self._feed(source)
            if not self.workers.running:
                break
            for pipe in wait(list(self.workers.running)):
                self._finished(pipe)  # type: ignore[arg-type]
            over = seconds is not None and perf_counter() - start >= seconds
            stopped = stopped or over or (between is not None and between())
        return Measured(len(self._exit.latencies_s), perf_counter() - start, list(self._exit.latencies_s))

    def _feed(self, source: Iterator[Fields]) -> bool:
        """Offer records until one is not taken; return False when there are no more."""
        while not self._held:
            fields = next(source, None)
            if fields is None:
                return False
            self._number += 1
            self._held = True
            if self._first.offer([perf_counter(), None, self._number, (), fields], self):
                self._held = False
        return True

    def released(self) -> None:
        """Learn that the record which was offered in vain has been taken."""
        self._held = False

    def _finished(self, pipe: Connection) -> None:
        station, record, setting, place, active = self.workers.running.pop(pipe)
        elapsed, made = pipe.recv()
        self.workers.ended(setting)
        self.workers.now = perf_counter()
        station.done(pipe, place)
        if isinstance(made, Exception):
            raise made
        if self._client is not None:
            entered = record[2] not in self._seen
            self._seen.add(record[2])
            size = next((value.size for value in record[4].values() if hasattr(value, "size")), 1)
            self._client.observe(
                station.name, size, setting.cores, elapsed,
                network=self.name, entered=entered, active_cores=active,
            )  # fmt: skip
        record[4] = self._inherited(station, record[4], made)
        station.finish(record)

    def _inherited(self, station: LiveStation, fields: Fields, made: Fields) -> Fields:
        """Return the record that a box makes: its output, and the labels that it did not consume."""
        node = self.network.nodes[self.network.boxes[self.network.keys.index(station.key)]]
        consumed = {label.strip("<>") for label in node.consumes or ()}
        return {key: value for key, value in fields.items() if key not in consumed} | made


class _Exit:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.latencies_s: list[float] = []
        self.records = 0

    def offer(self, record: Record, _giver: Giver | None) -> bool:
        self.latencies_s.append(perf_counter() - record[0])
        self.records += 1
        self._runtime._seen.discard(record[2])
        return True


__all__ = ["Measured", "Runtime"]
