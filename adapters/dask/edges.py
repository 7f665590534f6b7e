"""What a scheduler's tasks did, as task events: made, waiting for others, run on a worker's thread, given up.

The scheduler is thread 0, on which tasks are made; each thread of a worker is one more. A run is sent when it has ended, and
the profile wants events in order of time: so they wait here until no task at work may have begun before them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from operator import itemgetter
from typing import Final

from advisor.domain.task_events import ABSENT_TYPE, EVENTS_BATCH_MAX, THREADS_MAX, EventWriter, Kind, TaskEvents

HELD_MAX: Final = EVENTS_BATCH_MAX // 2  # events that wait, 10 MB: beyond, those of new tasks are left out, and counted
Event = tuple[int, int, int, int, int, int, int]  # a record: ns, instance, other, type, thread, kind, flags
WHEN: Final[Callable[[Event], int]] = itemgetter(0)
CREATE, BEGIN, END, CANCEL = int(Kind.CREATE), int(Kind.BEGIN), int(Kind.END), int(Kind.CANCEL)
DEPENDENCE, IDLE_BEGIN, IDLE_END = int(Kind.DEPENDENCE), int(Kind.IDLE_BEGIN), int(Kind.IDLE_END)


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
        self._held: list[Event] = []  # as they came: put in order when they go, all at once
        self._instances = 0
        self._open: dict[Hashable, tuple[int, int]] = {}  # instance, and when it was made
        self._at_work: dict[Hashable, int] = {}  # since when, the longest first
        self._threads: dict[tuple[str, int], int] = {}
        self._idle_ns: dict[int, int] = {}  # since when, by thread

    def made(
        self, key: Hashable, kind: str, needs: Iterable[Hashable], needed_by: Iterable[Hashable], now_s: float
    ) -> None:
        """A task is known; `needs` are those it waits for, `needed_by` those that wait for it and were known before."""
        if key in self._open:
            return
        if len(self._held) >= HELD_MAX:
            self.dropped += 1
            return
        now = self._ns(now_s)
        self._instances = number = self._instances + 1
        opened, held = self._open, self._held
        opened[key] = number, now
        held.append((now, number, 0, self._writer.string_number(kind), 0, CREATE, 0))
        for other in needs:
            if other in opened:  # what has ended before holds up nobody
                held.append((now, number, opened[other][0], ABSENT_TYPE, 0, DEPENDENCE, 0))
        for other in needed_by:
            if other in opened and other not in self._at_work:
                held.append((now, opened[other][0], number, ABSENT_TYPE, 0, DEPENDENCE, 0))

    def knows(self, key: Hashable) -> bool:
        """Whether a task was made, and has not ended."""
        return key in self._open

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
            self._held.append((found[1], found[0], 0, ABSENT_TYPE, 0, CANCEL, 0))
            return
        idle_since = self._idle_ns.get(number, -1)
        start = max(self._ns(start_s), found[1], idle_since)  # clocks of machines differ a little
        stop = max(self._ns(stop_s), start)
        if idle_since >= 0:
            self._held.append((start, 0, 0, ABSENT_TYPE, number, IDLE_END, 0))
        self._held += (
            (start, found[0], 0, ABSENT_TYPE, number, BEGIN, 0),
            (stop, found[0], 0, ABSENT_TYPE, number, END, 0),
            (stop, 0, 0, ABSENT_TYPE, number, IDLE_BEGIN, 0),
        )
        self._idle_ns[number] = stop

    def gone(self, key: Hashable, now_s: float) -> None:
        """A task is given up, or lost: where it is tried again it is another one."""
        self._at_work.pop(key, None)
        found = self._open.pop(key, None)
        if found is not None:
            self._held.append((max(self._ns(now_s), found[1]), found[0], 0, ABSENT_TYPE, 0, CANCEL, 0))

    def batch(self, now_s: float) -> TaskEvents | None:
        """Return the events before which nothing may come any more; None where there are none."""
        until = min(next(iter(self._at_work.values()), self._ns(now_s)), self._ns(now_s))
        if len(self._held) >= HELD_MAX:  # a task that has run for so long begins late, and is left out
            until = self._ns(now_s)
        self._held.sort(key=WHEN)  # of equal times in the order of their coming
        ready = bisect_left(self._held, until, key=WHEN)
        self._writer.rows = self._held[:ready]
        del self._held[:ready]
        return self._writer.batch(dropped=self.dropped) if ready else None

    def _ns(self, seconds: float) -> int:
        return max(0, round((seconds - self._began_s) * 1e9))
