"""What is known of one prefix in the scheduler's loop: the sizes that its tasks have, and the seconds that each takes.

The model is asked beside the loop, at a few sizes; between them the loop interpolates, in a microsecond.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from advisor.domain.limits import NAME_BYTES_MAX

POINTS: Final = 17  # from the smallest to the largest size: a step of 1.5 over three decades
ROWS_LEAST: Final = 5  # before the model is asked: Dask's own estimate is as good until then
GROWTH: Final = 4  # it is asked again when a quarter more tasks have run
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
    task_type : str
        Of its tasks in task events. Their instances are rows of a component of that name: of `name` each run would be two.
    runs : int
        Tasks that ended well.
    mean_s : float or None
        Seconds of one task: the mean over those at work, else over the sizes seen; None where nothing is known yet.
    """

    __slots__ = (
        "_asked",
        "_at_work",
        "_bare",
        "_bare_s",
        "_high",
        "_low",
        "_mean_s",
        "_seconds",
        "_sizes",
        "_sum_s",
        "name",
        "runs",
        "task_type",
    )

    def __init__(self, prefix: str) -> None:
        self.name, self.task_type = cleaned(prefix), cleaned(f"task {prefix}")
        self.runs = self._asked = self._at_work = 0
        self._low, self._high = math.inf, 0.0
        self._sizes: list[float] = []  # logarithms
        self._seconds: list[float] = []
        self._sum_s = 0.0
        self._mean_s: float | None = None
        self._bare = False  # whether some task had no inputs
        self._bare_s: float | None = None  # seconds of such a one, where others have inputs

    def begin(self, size: float | None) -> float | None:
        """A task is sent to a worker; return the seconds that it will take, None where nobody knows."""
        if size is not None:
            self._low, self._high = min(self._low, max(size, 1.0)), max(self._high, size, 1.0)
        self._bare = self._bare or size is None
        seconds = self.seconds(size)
        if seconds is not None:
            self._at_work += 1
            self._sum_s += seconds
        return seconds

    def end(self, seconds: float | None) -> None:
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
        if not self._sizes:
            return self._seconds[0] if self._seconds else None
        x = math.log(max(size or 1.0, 1.0))
        right = bisect_right(self._sizes, x)
        if right in (0, len(self._sizes)):
            return self._seconds[min(right, len(self._sizes) - 1)]
        low, high = self._sizes[right - 1 : right + 1]
        share = (x - low) / (high - low)
        return self._seconds[right - 1] * (1.0 - share) + self._seconds[right] * share

    @property
    def due(self) -> bool:
        """Whether the model is to be asked."""
        return self.runs >= max(ROWS_LEAST, self._asked + self._asked // GROWTH + 1)

    def question(self) -> list[float] | None:
        """Return the sizes to ask for, in bytes; None where the tasks have no inputs."""
        self._asked = self.runs
        if self._high == 0.0:
            return None
        if self._low == self._high:
            return [self._low]
        step = math.log(self._high / self._low) / (POINTS - 1)
        return [self._low * math.exp(step * i) for i in range(POINTS)]

    @property
    def mixed(self) -> bool:
        """Whether some tasks have inputs and others none: the model is asked about both."""
        return self._bare and self._high > 0.0

    def learn(self, sizes: Sequence[float] | None, seconds: Sequence[float], bare_s: float | None = None) -> None:
        """Take what the model answered: at the sizes, and of a task without inputs."""
        self._bare_s = bare_s
        self._sizes = [] if sizes is None or len(sizes) < 2 else [math.log(size) for size in sizes]
        self._seconds = list(seconds)
        if self._mean_s is None:
            self._mean_s = sum(seconds) / len(seconds)
        assert all(low < high for low, high in pairwise(self._sizes))
