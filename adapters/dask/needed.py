"""The fewest workers that end the queued work in time, from predicted seconds; without flapping.

Each task is to end `target_s` after it came. Tasks are taken in the order of coming: those that came until then need so many
workers that a list schedule of their predicted times ends when the last of them is due.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence
from typing import Final

SCHEDULED_MAX: Final = 512  # tasks of which a schedule is made, 0.2 ms: of more, what matters is their sum
LATE: Final = 0.25  # of the target: workers that come for what is due sooner would come too late to be of use
DUE: Final = 0.01  # of the target: workers go only when what is left is done in time without them
LOOKS: Final = 5  # with tasks that came, for a stream of them: three batches sent one after another are none
SPARE: Final = (
    1  # workers more or less that are no reason to change: predictions of a handful of tasks are off by as much
)


def makespan(seconds: Sequence[float], slots: int) -> float:
    """Return when tasks end that are taken in their order by whichever of `slots` is free first. Cost O(n log slots)."""
    if len(seconds) > SCHEDULED_MAX:
        return sum(seconds) / slots + max(seconds) * (slots - 1) / slots / 2.0
    ends = [0.0] * min(slots, max(len(seconds), 1))
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


def fewest(seconds: Sequence[float], within_s: float, threads: int = 1) -> int:
    """Return the fewest workers, of so many threads each, that end tasks within a time; as many as help where none do."""
    if not seconds:
        return 0
    most = math.ceil(len(seconds) / threads)
    low, high = min(max(math.ceil(sum(seconds) / within_s / threads - 1e-9), 1), most), most
    while low < high:  # a list schedule is as good as never longer on more workers
        middle = (low + high) // 2
        low, high = (low, middle) if makespan(seconds, middle * threads) <= within_s else (middle + 1, high)
    return low


class Backlog:
    """Tasks that wait or run, by when they came, and how many workers they were last found to need.

    Parameters
    ----------
    target_s : float
        Seconds from a task's coming to its end.
    """

    def __init__(self, target_s: float) -> None:
        self.target_s = target_s
        self._came: deque[list[float]] = deque()  # [when, how many], the oldest first
        self._looks: deque[tuple[float, float]] = deque()  # of the last `target_s`: when, and seconds of what had come
        self._held = self._seen = 0
        self._target = 0

    def target(self, now: float, seconds: Sequence[float], threads: int = 1, came: int = 0) -> int:
        """Return how many workers to have now, for the seconds that each task of the backlog is predicted to take still.

        Parameters
        ----------
        seconds : sequence of float
            In the order in which they will be taken: those that run first.
        threads : int
            Of one worker.
        came : int
            Tasks that have ever come, where that is known.
        """
        self._seen, came = max(came, self._seen), max(came - self._seen, len(seconds) - self._held)
        self._count(now, len(seconds), came)
        steady = min(self._steady(now, seconds, threads, came), math.ceil(len(seconds) / threads))
        more = max(self._needed(now, seconds, threads, LATE), steady)
        if not self._target or more > self._target + SPARE:
            self._target = more
        else:
            enough = max(self._needed(now, seconds, threads, DUE), steady)
            if not enough or enough < self._target - SPARE:
                self._target = enough
        return self._target

    def _steady(self, now: float, seconds: Sequence[float], threads: int, came: int) -> int:
        """Return how many workers do as much as comes, where tasks come at most of the looks; else 0."""
        latest = seconds[-came:] if came else ()
        self._looks.append((now, came * sum(latest) / len(latest) if latest else 0.0))
        while self._looks[0][0] < now - self.target_s:
            self._looks.popleft()
        begun, _ = self._looks[0]
        work = [each for _, each in self._looks]
        if sum(each > 0.0 for each in work) < max(LOOKS, len(work) / 2.0):
            return 0
        return round(sum(work[1:]) / max(now - begun, LATE * self.target_s) / threads)

    def _needed(self, now: float, seconds: Sequence[float], threads: int, least: float) -> int:
        """Return the fewest workers by which all is done when it is due, or in a share `least` of the target."""
        need, until = 0, 0
        for when, n in self._came:
            until += int(n)
            left = max(when + self.target_s - now, least * self.target_s)
            need = max(need, fewest(seconds[:until], left, threads))
        return need

    def _count(self, now: float, n: int, came: int) -> None:
        """Take in how many there are now, and how many of them came: the oldest are done."""
        if came:
            self._came.append([now, came])
        gone = self._held + came - n
        while gone > 0:
            first = self._came[0]
            first[1] -= (taken := min(gone, int(first[1])))
            gone -= taken
            if not first[1]:
                self._came.popleft()
        self._held = n
