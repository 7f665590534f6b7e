"""What the service counts about itself: plain numbers, read by the metrics when asked."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

# Seconds: from the 20 microseconds of a clean predict to a plan near its deadline.
QUERY_BOUNDS_S = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5, 1.0, 5.0, 30.0)
COMMIT_BOUNDS_S = (5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 5.0)

RATES_RETAINED = 12  # notes, one every five seconds or sooner: rates are of the last minute


STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Return the bytes of memory that the process takes now; None where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


class Histogram:
    """Counts of values by bound, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def count_value(self, value: float, times: int = 1) -> None:
        """Count a value, so many times. Cost O(log bounds)."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def mean(self) -> float:
        """Mean of the values, 0 where there are none."""
        return self.total / max(1, sum(self.counts))

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (upper bound as text, values up to it), the last bound being +Inf."""
        running, found = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            found.append((bound, running))
        return found


class Rates:
    """How fast counters grow, over the last minute: what they stood at is noted every few seconds."""

    def __init__(self, now: float, counts: tuple[int, ...]) -> None:
        self.started = now
        self._noted = deque([(now, counts)], maxlen=RATES_RETAINED)

    def note(self, now: float, counts: tuple[int, ...]) -> None:
        """Take note of what the counters stand at."""
        self._noted.append((now, counts))

    def rates(self, now: float, counts: tuple[int, ...]) -> list[float]:
        """Return the growth of each counter since the oldest note, per second."""
        since, before = self._noted[0]
        return [(count - old) / max(now - since, 1e-3) for count, old in zip(counts, before, strict=True)]


class ServiceMeasures:
    """The service's own counters; those about rows are the engine's.

    `events`: everything that is counted by name: errors by code, connections by end, commits by outcome.
    """

    def __init__(self) -> None:
        # seconds from a request's decoding to its answer, or to its folding where the answer waits for a commit
        self.requests: dict[str, Histogram] = {}
        self.errors: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.commit_s = Histogram(COMMIT_BOUNDS_S)
        self.guesses = 0
        # Of watches: notifications by kind, looks by what they found.
        self.notifications: Counter[str] = Counter()
        self.replans: Counter[str] = Counter()

    @property
    def answered(self) -> int:
        """Requests so far."""
        return sum(sum(each.counts) for each in self.requests.values())

    def count_requests(self, verb: str, seconds: float, times: int = 1) -> None:
        """Count a request's time; of several that were worked on together, their mean."""
        histogram = self.requests.get(verb)
        if histogram is None:
            histogram = self.requests[verb] = Histogram(QUERY_BOUNDS_S)
        histogram.count_value(seconds, times)
