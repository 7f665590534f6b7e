"""What is known of calls of one size, and whether they are so short that they pass without advice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

FLOOR_S: Final = 1e-3  # twenty times what a call costs that is measured: below it next to nothing can be gained
LONG: Final = 3  # calls in a row: one may be short and have waited for a processor that others had
MEASURED_MAX: Final = 64  # calls in a row that must be short before calls pass again
Key = tuple[int, ...]  # the octaves of a predictor's values


class Size:
    """What is known of calls of one size."""

    __slots__ = (
        "answered_at", "core_s", "cores", "expected_s", "idle", "key", "least_s", "long", "passes", "predictor",
        "short", "shorts", "weighed_at",
    )  # fmt: skip

    def __init__(self, key: Key, predictor: Any) -> None:
        self.key = key
        self.predictor = predictor  # of the first call
        self.cores = 0  # of the last answer; 0: none yet
        self.expected_s: Sequence[float] = ()  # predicted on each of the counts
        self.answered_at = 0  # the component's runs then
        self.weighed_at = -1  # the turn of stalls when cores were chosen
        self.idle = math.inf  # cores that others left then
        self.core_s = math.inf  # cores times seconds of the last run: no less than it takes on one
        self.least_s = math.inf  # that a run took
        self.passes = False  # calls are short, and go on without a limit or a measure of their cores
        self.long = 0  # calls in a row that passed and were not short
        self.short = 0  # measured calls in a row that were short
        self.shorts = 1  # of them that it takes to pass

    def measured(self, core_s: float) -> None:
        """Note a measured call."""
        self.core_s = core_s
        self.short = self.short + 1 if core_s < FLOOR_S else 0
        self.passes = self.short >= self.shorts

    def passed(self, elapsed_s: float) -> None:
        """Note a call that passed: after `LONG` in a row that were not short calls are measured, twice as many as last time."""
        self.long = self.long + 1 if elapsed_s >= FLOOR_S else 0
        if self.long >= LONG:
            self.passes, self.short, self.long = False, 0, 0
            self.shorts = min(2 * self.shorts, MEASURED_MAX)
