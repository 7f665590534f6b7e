"""Task events as they travel and are kept: fixed-size binary records, decoded to columns and never to objects.

A record is 32 bytes, little-endian, every field on a multiple of its own size.

====== ====== ======== ==========================================================================================
offset type   field    meaning
====== ====== ======== ==========================================================================================
0      u64    time     in the unit of the clock that the header describes
8      u64    instance the task instance, numbered by the producer from 1; 0: the implicit task of the thread
16     u64    other    by kind, see `Kind`: parent, predecessor, region kind, value
24     u32    type     number of a string: task type, region, parameter name; `ABSENT_TYPE` where there is none
28     u16    thread   numbered by the producer from 0
30     u8     kind     `Kind`
31     u8     flags    `Flag`, of create and begin
====== ====== ======== ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.domain.limits import CLOCK_ANCHORS_MAX
from advisor.domain.names import checked_name
from advisor.errors import InvalidValue, TooLarge

RECORD_BYTES = 32
ABSENT_TYPE = 2**32 - 1
EVENTS_BATCH_MAX = 65_536  # 2 MiB of plain records: one turn of the service's loop, some 25 ms by the compiled profiler
STRINGS_MAX = 2**20 - 1  # of one producer; a node's label keeps the number in 20 bits
SUMS_BATCH_MAX = 8_192  # sums of one batch: each finds up to four nodes, at about 10 µs
NS_MAX = 2**62  # 146 years; differences of times stay exact in int64


class Kind(IntEnum):
    """What happened, and what ``other`` and ``type`` mean then."""

    CREATE = 0  # other: parent instance, 0 for the task that runs on the thread; type: the task's
    BEGIN = 1  # other: parent, where no create came; type: the task's
    SWITCH = 2  # instance goes on on this thread, 0: the implicit task
    END = 3  # other: how many instances of its type it stands for, where the producer tells a sample; 0: for itself
    CANCEL = 4  # a task that never ran, or the running one, is given up
    ENTER = (
        5  # other: RegionKind; type: the region; instance: of a parallel region its number, else 0 or the running task
    )
    EXIT = 6  # as the enter
    DEPENDENCE = 7  # instance waits for other
    SYNC_BEGIN = 8  # other: SyncKind; type: the region
    SYNC_END = 9
    IDLE_BEGIN = 10  # the worker has nothing to do
    IDLE_END = 11
    WORKER_START = 12
    WORKER_STOP = 13
    PARAMETER = 14  # other: value (i64); type: the parameter's name; holds to the end of the innermost region or task
    SIZE = 15  # other: value (f64), of the running task


class Flag(IntFlag):
    """What kind of task it is; no flag: tied and deferred."""

    UNTIED = 1  # may go on on another thread
    UNDEFERRED = 2  # its creator waits for it
    FINAL = 4
    MERGED = 8
    AT_ONCE = 16  # it runs at once only because its team has one thread: the program would have it deferred
    DEPENDENT = (
        32  # it has dependences that are not reported: it is taken to run in its place in the order of creations
    )


class RegionKind(IntEnum):
    """What a region that is entered stands for."""

    PLAIN = 0  # a function or a part of one
    CREATION = 1  # the runtime creates a task
    PARALLEL = 2  # a member of a team works for a parallel region
    MANAGEMENT = 3  # the runtime does anything else: a switch, completion
    APART = 4  # of the implicit task: tasks run whose events are not sent, but summed


class SyncKind(IntEnum):
    """What a synchronisation waits for."""

    TASKWAIT = 0  # the children of the task
    BARRIER = 1  # all tasks of the team
    TASKGROUP = 2  # the children of the task, and theirs
    OTHER = 3


RECORD = np.dtype([
    ("time", "<u8"), ("instance", "<u8"), ("other", "<u8"), ("type", "<u4"), ("thread", "<u2"), ("kind", "u1"),
    ("flags", "u1"),
])  # fmt: skip

# A sum of ended instances whose events were not sent, each since the last sum that was: of one task type and, where `parameter`
# is a string's number, one value of it. Times in the unit of the clock.
SUM = np.dtype([
    ("type", "<u4"), ("parameter", "<u4"), ("value", "<i8"), ("count", "<u8"),
    ("work", "<u8"),  # what they did themselves
    ("creation", "<u8"), ("waiting", "<u8"),  # inside them; their inclusive time is work + creation + waiting
    ("creates", "<u8"), ("waits", "<u8"),  # how often
    ("least", "<u8"), ("most", "<u8"),  # inclusive time of one
    ("squares", "<f8"),  # sum of squares of inclusive times
])  # fmt: skip
NO_SUMS: Final = np.zeros(0, SUM)


@dataclass(frozen=True, slots=True)
class Clock:
    """How a producer's ticks become nanoseconds.

    Attributes
    ----------
    ticks_per_s : float
        Rate of the clock; 1e9: times are nanoseconds.
    anchors : tuple of (ticks, ns)
        Moments known on both clocks. The first of the first header fixes the origin and, with the last of that header, the
        rate; later ones only tell how far the clock drifts, because a map that changed would turn time back.
    """

    ticks_per_s: float = 1e9
    anchors: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if not 1.0 <= self.ticks_per_s <= 1e12:
            raise InvalidValue("clock.ticks_per_s", self.ticks_per_s, "from 1 to 1e12")
        if len(self.anchors) > CLOCK_ANCHORS_MAX:
            raise TooLarge("clock.anchors", len(self.anchors), CLOCK_ANCHORS_MAX)
        for ticks, ns in self.anchors:
            if not (0 <= ticks < 2**63 and 0 <= ns <= NS_MAX):
                raise InvalidValue("clock.anchors", (ticks, ns), f"ticks from 0 below 2**63, ns from 0 to {NS_MAX}")

    @property
    def exact(self) -> bool:
        """True where times are nanoseconds already."""
        return self.ticks_per_s == 1e9 and not self.anchors

    @property
    def ns_a_tick(self) -> float:
        """Nanoseconds of a tick: by the first and the last anchor where they are apart, else by the stated rate."""
        if len(self.anchors) > 1 and self.anchors[-1][0] > self.anchors[0][0]:
            (first, first_ns), (last, last_ns) = self.anchors[0], self.anchors[-1]
            return (last_ns - first_ns) / (last - first)
        return 1e9 / self.ticks_per_s

    def nanoseconds(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return times (n,) in ns, each within 1 ns as long as 2**53 ticks of the first anchor."""
        if self.exact:
            return ticks.astype(np.int64)
        origin, origin_ns = self.anchors[0] if self.anchors else (0, 0)
        apart = (ticks - np.uint64(origin)).view(np.int64)  # wraps for what lies before the anchor, as it should
        return np.rint(apart * self.ns_a_tick).astype(np.int64) + origin_ns

    def drift_ns(self, anchors: Sequence[tuple[int, int]]) -> float:
        """Return how far later anchors lie from this map, at most, ns."""
        ticks = np.array([ticks for ticks, _ in anchors], np.uint64)
        ns = np.array([ns for _, ns in anchors], np.int64)
        return float(np.abs(self.nanoseconds(ticks) - ns).max(initial=0))


NANOSECONDS: Final = Clock()


@dataclass(frozen=True, slots=True)
class TaskEvents:
    """A batch of events.

    Attributes
    ----------
    records : structured array (n,)
        Of `RECORD`. Threads may be mixed; each thread's own events are in its order.
    strings : tuple of str
        New strings: they go on where the producer's last batch ended.
    clock : Clock
    dropped : int
        Events that the producer has lost since it began: never falls.
    sums : structured array (k,)
        Of `SUM`: instances whose events are not sent.
    ended : bool
        The run is over as far as the producer knows: what waits for other threads' events waits no longer.
    cpu_s : float
        Processor time of the whole program, sent with its end; 0: not sent.
    """

    records: NDArray[np.void]
    strings: tuple[str, ...] = ()
    clock: Clock = NANOSECONDS
    dropped: int = 0
    sums: NDArray[np.void] = field(default_factory=lambda: NO_SUMS)
    ended: bool = False
    cpu_s: float = 0.0

    def __len__(self) -> int:
        """Return how many events there are."""
        return len(self.records)


NO_EVENTS: Final = TaskEvents(np.zeros(0, RECORD))


def decode(
    data: bytes | memoryview,
    strings: Sequence[str] = (),
    *,
    clock: Clock = NANOSECONDS,
    dropped: int = 0,
    sums: bytes | memoryview = b"",
    ended: bool = False,
    cpu_s: float = 0.0,
) -> TaskEvents:
    """Return a batch whose records are `data`, and whose sums are `sums`, in place. Cost O(strings): no record is touched.

    What a record says is checked by whoever folds it, one by one: a bad one is refused and the others stand.

    Raises
    ------
    InvalidValue, TooLarge
        Where the bytes are no whole records, a name is none, or a limit is exceeded.
    """
    if len(data) % RECORD_BYTES:
        raise InvalidValue("records", len(data), f"a multiple of {RECORD_BYTES} bytes, the size of a record")
    if len(sums) % SUM.itemsize:
        raise InvalidValue("sums", len(sums), f"a multiple of {SUM.itemsize} bytes, the size of a sum")
    if len(sums) // SUM.itemsize > SUMS_BATCH_MAX:
        raise TooLarge("sums", len(sums) // SUM.itemsize, SUMS_BATCH_MAX, "cut the batch")
    if not 0 <= dropped < 2**63:
        raise InvalidValue("dropped", dropped, "from 0 below 2**63")
    if not 0.0 <= cpu_s < np.inf:
        raise InvalidValue("cpu_s", cpu_s, "finite seconds, not negative")
    texts = tuple(checked_name("strings", text) for text in strings)
    return TaskEvents(np.frombuffer(data, RECORD), texts, clock, dropped, np.frombuffer(sums, SUM), ended, cpu_s)


@dataclass(slots=True)
class EventWriter:
    """Events written one by one, for tests and for runtimes in Python; strings are numbered as they come.

    Examples
    --------
    >>> out = EventWriter()
    >>> out.add(0, Kind.ENTER, type="main")
    >>> out.add(10, Kind.EXIT, type="main")
    >>> len(out.batch())
    2
    """

    rows: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list[Any])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    sent: int = 0

    def string_number(self, text: str) -> int:
        """Return the number of a string, given at first sight."""
        return self.numbers.setdefault(text, len(self.numbers))

    def add_event(
        self,
        time: int,
        kind: Kind,
        *,
        thread: int = 0,
        instance: int = 0,
        other: int = 0,
        type: str | None = None,  # noqa: A002 (the record's own name for it)
        flags: int = 0,
    ) -> None:
        """Add an event; `other` may be negative for a parameter."""
        number = ABSENT_TYPE if type is None else self.string_number(type)
        self.rows.append((time, instance, other & (2**64 - 1), number, thread, int(kind), flags))

    def batch(self, *, clock: Clock = NANOSECONDS, dropped: int = 0) -> TaskEvents:
        """Return what was added since the last call."""
        strings = tuple(list(self.numbers)[self.sent :])
        records = np.array(self.rows, RECORD)
        self.sent, self.rows = len(self.numbers), []
        return TaskEvents(records, strings, clock, dropped)
