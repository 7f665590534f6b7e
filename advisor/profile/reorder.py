"""A window of time in which the streams of several threads are put into order.

Producers send each thread's events in order, but one thread's buffer after another's. Events are held back until the newest
one seen is `window_ns` later, and then leave in order of time; equal times keep the order in which they came.
What comes when its time has gone by already is late: counted, and left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.task_events import RECORD

Ints = NDArray[np.int64]

WINDOW_NS = 100_000_000  # buffers are sent at least ten times a second
HELD_EVENTS_MAX = 2**20  # 32 MB of plain records; beyond, the oldest leave early


class Reorder:
    """Records of mixed threads in, in order of time out.

    `window_ns`: how much later than a newer one an event may come; 0: they come in order, and pass as they are. `held_max`:
    events held back at most.
    """

    __slots__ = ("_held", "_released", "_times", "held_max", "late", "squeezed", "window_ns")

    def __init__(self, window_ns: int = WINDOW_NS, held_max: int = HELD_EVENTS_MAX) -> None:
        self.window_ns = window_ns
        self.held_max = held_max
        self.late = 0  # events that came too late and were left out
        self.squeezed = 0  # events that left early, for want of room
        self._held: NDArray[Any] | None = None
        self._times: Ints = np.zeros(0, np.int64)
        self._released = -1  # no event before this time may leave any more

    def __len__(self) -> int:
        """Return how many events are held back."""
        return len(self._times)

    def add_records(self, times: Ints, records: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
        """Take times (n,) in ns and their records in; return those that leave now, in order. Cost O(n log n)."""
        if not self.window_ns:
            return times, records
        late = times < self._released
        missed = int(np.count_nonzero(late))
        if missed:
            self.late += missed
            times, records = times[~late], records[~late]
        if self._held is not None and len(self._times):
            times = np.concatenate([self._times, times])
            records = np.concatenate([self._held, records])
        times, records = in_order(times, records)
        if not len(times):
            return times, records
        cut = int(np.searchsorted(times, int(times[-1]) - self.window_ns, side="right"))
        if len(times) - cut > self.held_max:
            self.squeezed += len(times) - cut - self.held_max
            cut = len(times) - self.held_max
        if cut:
            self._released = max(self._released, int(times[cut - 1]))
        self._times, self._held = times[cut:].copy(), records[cut:].copy()
        return times[:cut], records[:cut]

    def flush(self) -> tuple[Ints, NDArray[Any]]:
        """Return all that is held back."""
        times = self._times
        held: NDArray[Any] = np.zeros(0, RECORD) if self._held is None else self._held
        if len(times):
            self._released = max(self._released, int(times[-1]))
        self._times, self._held = np.zeros(0, np.int64), None
        return times, held


def joined(first: tuple[Ints, NDArray[Any]], then: tuple[Ints, NDArray[Any]]) -> tuple[Ints, NDArray[Any]]:
    """Return times and records that left one after another as one."""
    if not len(then[0]):
        return first
    return np.concatenate([first[0], then[0]]), np.concatenate([first[1], then[1]])


def in_order(times: Ints, records: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Return both in order of time, those of one time as they came."""
    if len(times) < 2 or bool((times[1:] >= times[:-1]).all()):
        return times, records
    order = np.argsort(times, kind="stable")  # merges the runs of the threads
    return times[order], records[order]
