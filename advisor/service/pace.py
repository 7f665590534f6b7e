"""When the next commit may begin: commits take their share of the time; what was saved in a quiet time is spent first."""

from __future__ import annotations

from collections.abc import Callable

GATHER_S = 0.001  # a commit waits this long for company: one fsync then serves a burst
# However long a commit took, the next waits no longer. And so much is saved: the first commits after a quiet time wait for
# company alone. (By a pause after each commit a second change in a quiet service waited for its own commit and 0.25 s.)
PAUSE_MAX_S = 0.25


class Pace:
    """Keeps commits to a share of the time.

    Parameters
    ----------
    share
        Part of the time that commits may take when there is always something to commit.
    clock
        Seconds, of any beginning.
    """

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle_s = (1 - share) / share  # that a second of commits asks for
        self._due_s = 0.0  # idle seconds that the commits up to the last asked for, and did not have yet
        self._ended = clock()

    def ended(self, took_s: float) -> None:
        """Note a commit that took so long and ended now."""
        now = self._clock()
        rested = self._due_s - max(0.0, now - took_s - self._ended)
        self._due_s = min(max(0.0, rested) + took_s * self._idle_s, 2 * PAUSE_MAX_S)
        self._ended = now

    def pause_s(self) -> float:
        """Return the seconds until the next commit may begin."""
        return max(GATHER_S, self._due_s - PAUSE_MAX_S + self._ended - self._clock())
