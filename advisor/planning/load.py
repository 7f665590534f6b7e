"""The rate that a network has to keep up with: of arrivals as they come, their trend, and what waits.

A network that holds u records and finishes m a second holds each for u / m (Little's law): its latency T and a mean wait. The
longest wait of a queue that drains evenly is twice the mean. What is decided now counts h seconds later, when the change is
done: of the wait W that is allowed, W - h is left. So with r arrivals a second, h ahead by their trend,

    rate = min((u + r h) / T, max(r, u / (T + max(W - h, 0) / 2))):

all records at once can use no more than the first. A trend is one where two spans differ by more than Poisson's noise.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SPANS: Final = 2  # of the past that are compared: the last and the one before
SURE: Final = 2.0  # standard deviations of a count, by which spans differ where there is a trend
REPORTS_MAX: Final = 4_096  # of a network: eight hours at one in 15 s, of which two spans are needed


class ObservedLoad:
    """Arrivals of one network, as they are reported.

    Parameters
    ----------
    change_s : float
        Seconds from a decision until cores work; also the span over which arrivals are counted, at least `span_s`.
    span_s : float
        The shortest span over which arrivals are counted.
    """

    def __init__(self, change_s: float, span_s: float = 60.0) -> None:
        self.change_s = change_s
        self.span_s = max(change_s, span_s)
        self.unfinished = 0
        self._reports: deque[tuple[float, int]] = deque(
            [(-float("inf"), 0)], REPORTS_MAX
        )  # when, and arrived until then

    def report(self, now_s: float, arrived: int, unfinished: int) -> None:
        """Add records that arrived since the last report; `unfinished` are in the network now, waiting or running."""
        self._reports.append((now_s, self._reports[-1][1] + arrived))
        self.unfinished = unfinished
        while len(self._reports) > 2 and self._reports[1][0] <= now_s - SPANS * self.span_s:
            self._reports.popleft()

    def arrivals_per_s(self, now_s: float) -> float:
        """Return the arrivals a second that are expected when a change that begins now is done."""
        total, half, start = (self._arrived(now_s - k * self.span_s) for k in range(SPANS + 1))
        last, before = total - half, half - start
        if (last - before) ** 2 <= SURE**2 * (last + before):
            return (last + before) / (SPANS * self.span_s)
        return max(0.0, last + (last - before) * self.change_s / self.span_s) / self.span_s

    def required_per_s(self, now_s: float, latency_s: float, wait_s: float) -> float:
        """Return the records a second that the network has to finish so that none waits longer than `wait_s`.

        `latency_s` is the time that a record takes without waiting.
        """
        arriving = self.arrivals_per_s(now_s)
        left_s = max(wait_s - self.change_s, 0.0) / 2.0
        backlog = self.unfinished / (latency_s + left_s)
        return min((self.unfinished + arriving * self.change_s) / latency_s, max(arriving, backlog))

    def _arrived(self, then_s: float) -> int:
        return next((count for at_s, count in reversed(self._reports) if at_s <= then_s), self._reports[0][1])
