"""The profiler: batches of task events in, a profile and live measures out, in memory that does not grow with the tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from advisor.domain.task_events import NANOSECONDS, STRINGS_MAX, Clock, Kind, TaskEvents
from advisor.errors import InvalidValue, TooLarge
from advisor.profile import layout as at
from advisor.profile.kernels import KERNELS
from advisor.profile.reorder import WINDOW_NS, Reorder, joined
from advisor.profile.state import CHUNK_EVENTS, Caps, Tables
from advisor.profile.sums import fold_sums
from advisor.profile.task_types import InstanceSample

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FIRST_REFUSALS = 8  # reported with their row; the rest are counted by code
# Cost of moving a task to another worker, as Cilkview takes it: 15,000 instructions, at about 3 a nanosecond.
BURDEN_NS = 5_000
EMPTY_FLOATS: Final[Floats] = np.zeros(0)
NO_ENDED: Final[Ints] = np.zeros((0, at.ENDED_FIELDS), np.int64)


@dataclass(frozen=True, slots=True)
class Folded:
    """What became of a batch, and the instances that ended with it."""

    accepted: int  # events folded, and sums; those that wait in the window count when they leave it
    refused: Mapping[str, int]  # how many, by code
    # tuple of (time_ns, code, text): the first refusals: the time of the event, why
    first: tuple[tuple[int, str, str], ...]
    # int64 array (k, ENDED_FIELDS): rows of instances that ended, see `layout`; times in ns, running time without
    # suspensions
    ended: NDArray[np.int64]
    sizes: NDArray[np.float64]  # float64 array (k,): their sizes; 0: none was given
    waiting: int = 0  # events that wait in the window now
    summed: int = 0  # instances that ended and were reported as sums
    late: int = 0  # events left out, because what came after them had left the window
    dropped: int = 0  # events that the producer has lost since its last batch


class Profiler:
    """The profile of one producer's run.

    Parameters
    ----------
    window_ns : int
        How far threads' streams may lie apart; 0: they come in order.
    burden_ns : int
        For the burdened span.
    compiled : bool, optional
        True: from the first event on, compiled in this process where the cache lacks it; False: never; by default
        from when `advisor.profile.kernels` is compiled. The numbers are the same.
    """

    def __init__(
        self,
        *,
        window_ns: int = WINDOW_NS,
        caps: Caps | None = None,
        burden_ns: int = BURDEN_NS,
        compiled: bool | None = None,
    ) -> None:
        if window_ns < 0:
            raise InvalidValue("window_ns", window_ns, "at least 0")
        if burden_ns < 0:
            raise InvalidValue("burden_ns", burden_ns, "at least 0")
        if compiled and not KERNELS.ready and not KERNELS.make():
            raise InvalidValue("compiled", True, f"false: {KERNELS.reason}")
        self.tables = Tables(caps or Caps(), burden_ns, interpreted=compiled is False)
        self.window = Reorder(window_ns)
        self.strings: list[str] = []
        self._numbers: dict[str, int] = {}  # of each string, the first that it has
        self._firsts: list[int] = []  # of each number, the first of an equal string
        self.clock: Clock | None = None
        self.dropped = 0
        self.drift_ns = 0.0
        self.accepted = 0
        self.sample = InstanceSample()
        self.waiting_lost = 0  # events that waited in the window when a service ended without warning
        self.spoken = 0  # when its last batch came, counted in batches of all runs
        self.cpu_s = 0.0  # processor time of its program, once that is reported

    # -- events in --------------------------------------------------------------------------------------------------------

    def fold_batch(self, events: TaskEvents) -> Folded:
        """Take a batch in, and fold what has left the window.

        Raises InvalidValue, TooLarge where the header does not go with the earlier ones; nothing is changed then.
        """
        self._check(events)
        self.add_strings(events.strings)
        if self.clock is None:
            self.clock = events.clock
        elif events.clock.anchors:
            self.drift_ns = max(self.drift_ns, self.clock.drift_ns(events.clock.anchors))
        dropped, late = events.dropped - self.dropped, self.window.late
        if dropped:
            # From now on what is missing is no defect: regions that never saw their exit are closed by what comes later.
            self.dropped = events.dropped
            self.tables.g[at.LENIENT] = 1
        given = self.window.add_records(self.clock.nanoseconds(events.records["time"]), events.records)
        self.cpu_s = max(self.cpu_s, events.cpu_s)
        if events.ended:
            given = joined(given, self.window.flush())
        folded = replace(self._fold_records(*given), late=self.window.late - late, dropped=dropped)
        return self._with_sums(folded, events.sums) if len(events.sums) else folded

    def flush(self) -> Folded:
        """Fold what waits in the window: the stream has ended, or answers shall hold all of it."""
        return self._fold_records(*self.window.flush())

    def as_if_ended(self) -> Profiler:
        """Return a profiler in which what waits is folded; this one stays as it is. Cost O(state + events that wait)."""
        if not len(self.window):
            return self
        made = self.copied()
        made.flush()
        return made

    def copied(self) -> Profiler:
        """Return a copy, to go on apart. Cost O(state)."""
        made = copy(self)
        made.tables, made.window = self.tables.copied(), copy(self.window)
        made.forget_strings()
        made.add_strings(self.strings)
        return made

    def _with_sums(self, folded: Folded, sums: NDArray[np.void]) -> Folded:
        clock = self.clock or NANOSECONDS
        before = int(self.tables.g[at.SUMMED])
        sums = sums.copy()
        sums["type"] = self._first_numbers(sums["type"])
        codes = [at.REFUSALS[code] for code in fold_sums(self.tables, sums, clock.ns_a_tick, len(self.strings))]
        counts, newest = dict(folded.refused), int(self.tables.g[at.NEWEST])
        summed = int(self.tables.g[at.SUMMED]) - before
        for word, _ in codes:
            counts[word] = counts.get(word, 0) + 1
        first = (*folded.first, *((newest, *code) for code in codes))[:FIRST_REFUSALS]
        taken = len(sums) - len(codes)
        self.accepted += taken
        return replace(folded, accepted=folded.accepted + taken, refused=counts, first=first, summed=summed)

    def _check(self, events: TaskEvents) -> None:
        if len(self.strings) + len(events.strings) > STRINGS_MAX:
            raise TooLarge("strings", len(self.strings) + len(events.strings), STRINGS_MAX)
        if events.dropped < self.dropped:
            raise InvalidValue(
                "dropped", events.dropped, f"at least {self.dropped}, as before: it counts since the start"
            )
        if self.clock is not None and events.clock.ticks_per_s != self.clock.ticks_per_s:
            raise InvalidValue("clock.ticks_per_s", events.clock.ticks_per_s, f"{self.clock.ticks_per_s:g}, as before")

    def add_strings(self, strings: Sequence[str]) -> None:
        """Know further strings. Equal ones are one: an unrolled loop calls from several places of one line."""
        self._firsts += [self._numbers.setdefault(text, len(self.strings) + k) for k, text in enumerate(strings)]
        self.strings.extend(strings)
        self.tables.g[at.STRINGS] = len(self.strings)

    def forget_strings(self) -> None:
        """Know no string."""
        self.strings, self._numbers, self._firsts = [], {}, []

    def _first_numbers(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return for each number of a string the first of an equal one; numbers of none stay."""
        if len(self._numbers) == len(self.strings):
            return numbers
        firsts = np.array(self._firsts, np.uint32)
        known = numbers < len(firsts)
        return np.where(known, firsts[np.where(known, numbers, 0)], numbers)

    def _fold_records(self, times: Ints, records: NDArray[Any]) -> Folded:
        found: list[tuple[int, str, str]] = []
        counts: dict[str, int] = {}
        ended: list[Ints] = []
        sizes: list[Floats] = []
        for start in range(0, len(times), CHUNK_EVENTS):
            part = slice(start, start + CHUNK_EVENTS)
            rows, row_sizes = self._fold_chunk(times[part], records[part], found, counts)
            if len(rows):
                ended.append(rows)
                sizes.append(row_sizes)
        refused = sum(counts.values())
        self.accepted += len(times) - refused
        return Folded(
            len(times) - refused,
            counts,
            tuple(found),
            np.concatenate(ended) if ended else NO_ENDED,
            np.concatenate(sizes) if sizes else EMPTY_FLOATS,
            len(self.window),
        )

    def _fold_chunk(
        self, times: Ints, records: NDArray[Any], found: list[tuple[int, str, str]], counts: dict[str, int]
    ) -> tuple[Ints, Floats]:
        n, tables = len(times), self.tables
        if not tables.interpreted:
            KERNELS.count()
        tables.make_room(n, int(records["thread"].max()) + 1)
        dependences = int(np.count_nonzero(records["kind"] == Kind.DEPENDENCE))
        if dependences:
            tables.grow_edges(dependences)
        refused, ended, ended_sizes = np.zeros(2 * n, np.int64), np.zeros(at.ENDED_FIELDS * n, np.int64), np.zeros(n)
        tables.kernels["fold_events"](
            tables.state, self._columns(times, records), np.ascontiguousarray(records["other"]).view(np.float64),
            refused, ended, ended_sizes,
        )  # fmt: skip
        refusals, rows = tables.g[at.REFUSED], tables.g[at.ENDED]
        for index, code in refused[: 2 * refusals].reshape(-1, 2).tolist():
            word, text = at.REFUSALS[code]
            counts[word] = counts.get(word, 0) + 1
            if len(found) < FIRST_REFUSALS:
                found.append((int(times[index]), word, text))
        return ended[: at.ENDED_FIELDS * rows].reshape(-1, at.ENDED_FIELDS), ended_sizes[:rows]

    def _columns(self, times: Ints, records: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        wide = [self._first_numbers(records["type"]), *(records[name] for name in ("thread", "kind", "flags"))]
        # Numbers of 64 bits are read as signed: any of them is some whole number.
        return (
            np.ascontiguousarray(times),
            np.ascontiguousarray(records["instance"]).view(np.int64),
            np.ascontiguousarray(records["other"]).view(np.int64),
            *(column.astype(np.int64) for column in wide),
        )
