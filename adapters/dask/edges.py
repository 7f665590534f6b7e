"""What a scheduler's tasks did, as task events: made, waiting for others, run on a worker's thread, given up.

The scheduler is thread 0, on which tasks are made; each thread of a worker is one more. A run is told when it has ended, and
the profile wants events in order of time: so they wait here until no task at work may have begun before them.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable
from typing import Final

from advisor.domain.task_events import EVENTS_BATCH_MAX, THREADS_MAX, EventWriter, Kind, TaskEvents

HELD_MAX: Final = EVENTS_BATCH_MAX // 2  # events that wait, 10 MB: beyond, those of new tasks are left out, and counted
Event = tuple[
    int, int, Kind, int, int, int, str | None
]  # ns, its place among equal times, kind, thread, instance, other, type


class Edges:
    """The tasks of one scheduler as events; times are seconds of its clock.

    Attributes
    ----------
    dropped : int
        Events left out for want of room.
    """

    def __init__(self, began_s: float) -> None:
        self.dropped = 0
        self._began_s = began_s
        self._writer = EventWriter()
        self._held: list[Event] = []
        self._events = self._instances = 0
        self._open: dict[Hashable, tuple[int, int]] = {}  # instance, and when it was made
        self._at_work: dict[Hashable, int] = {}  # since when, the longest first
        self._threads: dict[tuple[str, int], int] = {}
        self._idle_ns: dict[int, int] = {}  # since when, by thread

    def made(
        self, key: Hashable, kind: str, needs: Iterable[Hashable], needed_by: Iterable[Hashable], now_s: float
    ) -> None:
        """A task is known; `needs` are those it waits for, `needed_by` those that wait for it and were told before."""
        if key in self._open:
            return
        if len(self._held) >= HELD_MAX:
            self.dropped += 1
            return
        now = self._ns(now_s)
        self._instances += 1
        self._open[key] = self._instances, now
        self._add(now, Kind.CREATE, 0, self._instances, type_=kind)
        for other in needs:
            if other in self._open:  # what has ended before holds up nobody
                self._add(now, Kind.DEPENDENCE, 0, self._instances, self._open[other][0])
        for other in needed_by:
            if other in self._open and other not in self._at_work:
                self._add(now, Kind.DEPENDENCE, 0, self._open[other][0], self._instances)

    def sent(self, key: Hashable, now_s: float) -> None:
        """A task went to a worker: it may begin from now on."""
        if key in self._open:
            self._at_work[key] = self._ns(now_s)

    def ran(self, key: Hashable, worker: str, thread: int, start_s: float, stop_s: float) -> None:
        """A task has run, on a thread of a worker."""
        self._at_work.pop(key, None)
        found = self._open.pop(key, None)
        if found is None:
            return
        number = self._threads.setdefault((worker, thread), len(self._threads) + 1)
        if number >= THREADS_MAX:
            self.dropped += 2
            self._add(found[1], Kind.CANCEL, 0, found[0])
            return
        idle_since = self._idle_ns.get(number, -1)
        start = max(self._ns(start_s), found[1], idle_since)  # clocks of machines differ a little
        stop = max(self._ns(stop_s), start)
        if idle_since >= 0:
            self._add(start, Kind.IDLE_END, number)
        self._add(start, Kind.BEGIN, number, found[0])
        self._add(stop, Kind.END, number, found[0])
        self._add(stop, Kind.IDLE_BEGIN, number)
        self._idle_ns[number] = stop

    def gone(self, key: Hashable, now_s: float) -> None:
        """A task is given up, or lost: where it is tried again it is another one."""
        self._at_work.pop(key, None)
        found = self._open.pop(key, None)
        if found is not None:
            self._add(max(self._ns(now_s), found[1]), Kind.CANCEL, 0, found[0])

    def batch(self, now_s: float) -> TaskEvents | None:
        """Return the events before which nothing may come any more; None where there are none."""
        until = min(next(iter(self._at_work.values()), self._ns(now_s)), self._ns(now_s))
        if len(self._held) >= HELD_MAX:  # a task that has run for so long begins late, and is left out
            until = self._ns(now_s)
        while self._held and self._held[0][0] < until:
            ns, _, kind, thread, instance, other, type_ = heapq.heappop(self._held)
            self._writer.add(ns, kind, thread=thread, instance=instance, other=other, type=type_)
        return self._writer.batch(dropped=self.dropped) if self._writer.rows else None

    def _add(
        self, ns: int, kind: Kind, thread: int, instance: int = 0, other: int = 0, type_: str | None = None
    ) -> None:
        self._events += 1
        heapq.heappush(self._held, (ns, self._events, kind, thread, instance, other, type_))

    def _ns(self, seconds: float) -> int:
        return max(0, round((seconds - self._began_s) * 1e9))
