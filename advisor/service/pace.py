"""When the next commit may begin: commits take their share of the processor, up to a bound on how long anybody waits for it.

To wait for the disk is no work: it hinders nobody, and meanwhile the next commit gathers.
"""

from __future__ import annotations

from collections.abc import Callable

GATHER_S = 0.001  # a commit waits this long for company: one fsync then serves a burst
PAUSE_MAX_S = 0.005  # however much a commit took, the next waits no longer: acknowledgements shall come within 20 ms


class Pace:
    """Keeps commits to a share of the time.

    `share`: part of the time of one core that commits may take when there is always something to commit. `clock`: seconds, of
    any beginning.
    """

    def __init__(self, share: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle_s = (1 - share) / share  # that a second of a commit's work asks for
        self._next = clock()

    def ended(self, spent_s: float) -> None:
        """Note a commit that took so much of the processor and ended now."""
        self._next = self._clock() + min(spent_s * self._idle_s, PAUSE_MAX_S)

    def pause_s(self) -> float:
        """Return the seconds until the next commit may begin."""
        return max(GATHER_S, self._next - self._clock())
