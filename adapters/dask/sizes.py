"""What is known of one prefix in the scheduler's loop: the sizes that its tasks have, and the seconds that each takes.

The model is asked beside the loop, at a few sizes; between them the loop interpolates, in a microsecond.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from advisor.domain.limits import NAME_BYTES_MAX

POINTS: Final = 17  # from the smallest to the largest size: a step of 1.5 over three decades
ROWS_LEAST: Final = 5  # before the model is asked: Dask's own estimate is as good until then
GROWTH: Final = 4  # it is asked again when a quarter more tasks have run
RECENT: Final = (
    64  # sizes of tasks that were begun, by which those are counted that are not looked at one by one: 20 us
)
OTHER: Final = "\N{REPLACEMENT CHARACTER}"


def cleaned(prefix: str) -> str:
    """Return a prefix as a component's name: printable, and not too long."""
    name = unicodedata.normalize(
        "NFC", "".join(each if each.isprintable() else OTHER for each in prefix[:NAME_BYTES_MAX])
    )
    return name.encode(errors="replace")[:NAME_BYTES_MAX].decode(errors="ignore") or OTHER


class Sizes:
    """Seconds of a prefix's tasks by the bytes of their inputs.

    Attributes
    ----------
    name : str
        Its component.
    runs : int
        Tasks that ended well.
    cores : int
        Of the task that was sent last.
    mean_s : float or None
        Seconds of one task: the mean over those at work, else over tasks as large as the last begun; None: not known yet.
    """

    def __init__(self, prefix: str) -> None:
        self.name = cleaned(prefix)
        self.cores = 1
        self.runs = self._asked = self._at_work = 0
        self._low, self._high = math.inf, -1.0
        self._sizes: list[float] = []
        self._seconds: list[float] = []
        self._sum_s = 0.0
        self._mean_s: float | None = None
        self._recent: deque[float | None] = deque(maxlen=RECENT)
        self._bare = False  # whether some task had no inputs
        self._bare_s: float | None = None  # seconds of such a one, where others have inputs

    def begin_task(self, size: float | None) -> float | None:
        """A task is sent to a worker; return the seconds that it will take, None where nobody knows."""
        if size is None:
            self._bare = True
        else:
            self._high = max(self._high, size)
            if 0.0 < size < self._low:
                self._low = size
        self._recent.append(size)
        seconds = self.seconds(size)
        if seconds is not None:
            self._at_work += 1
            self._sum_s += seconds
        return seconds

    def end_task(self, seconds: float | None) -> None:
        """A task is at work no more, whatever became of it; `seconds` are those of its begin."""
        if seconds is None:
            return
        self._at_work -= 1
        self._sum_s = self._sum_s - seconds if self._at_work else 0.0
        if self._at_work:
            self._mean_s = self._sum_s / self._at_work

    @property
    def mean_s(self) -> float | None:
        """Seconds of one task."""
        return self._sum_s / self._at_work if self._at_work else self._mean_s

    def seconds(self, size: float | None) -> float | None:
        """Return the seconds that a task of a size will take, None where nobody knows."""
        if size is None and self._bare_s is not None:
            return self._bare_s
        sizes, seconds = self._sizes, self._seconds
        if len(sizes) < 2:
            return seconds[0] if seconds else None
        x = sizes[0] if size is None else size
        right = bisect_right(sizes, x)
        if right in (0, len(sizes)):
            return seconds[0 if right == 0 else -1]
        share = (x - sizes[right - 1]) / (sizes[right] - sizes[right - 1])
        return seconds[right - 1] * (1.0 - share) + seconds[right] * share

    @property
    def due(self) -> bool:
        """Whether the model is to be asked: a quarter more have run."""
        return self.runs >= max(ROWS_LEAST, self._asked + self._asked // GROWTH + 1)

    def question(self) -> list[float] | None:
        """Return the sizes to ask for, in bytes, from the smallest to the largest; None where the tasks have no inputs."""
        self._asked = self.runs
        if self._high < 0.0:
            return None
        if self._low >= self._high:
            return [self._high]
        step = math.log(self._high / self._low) / (POINTS - 1)
        return [*(self._low * math.exp(step * i) for i in range(POINTS - 1)), self._high]

    @property
    def mixed(self) -> bool:
        """Whether some tasks have inputs and others none: the model is asked about both."""
        return self._bare and self._high >= 0.0

    def store_predictions(
        self, sizes: Sequence[float] | None, seconds: Sequence[float], bare_s: float | None = None
    ) -> None:
        """Keep what the model answered: at the sizes, and of a task without inputs."""
        if sizes is not None and any(
            low >= high for low, high in pairwise(sizes)
        ):  # so near each other that they are one
            sizes, seconds = sizes[:1], seconds[:1]
        self._sizes, self._seconds, self._bare_s = list(sizes or ()), list(seconds), bare_s
        said = [found for size in self._recent if (found := self.seconds(size)) is not None] or list(seconds)
        if self._mean_s is None:
            self._mean_s = sum(said) / len(said)
