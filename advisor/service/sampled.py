"""Some rows, predicted before they are learned as `predict` would have answered: by how much that was off, as a histogram.

A mean of ratios is ruined by a few times near the timer's tick; quantiles of a histogram are not.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

from advisor.domain.observations import Columns
from advisor.engine import Advisor
from advisor.errors import AdvisorError
from advisor.service.measures import Histogram

# |t - predicted| / t: half of them below 0.1 is good advice, above 1 it is none.
ERROR_BOUNDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0, 10.0)
EVERY_S = 0.05  # at most twenty rows a second: three figures of a quantile within a minute
SELDOM_S = 1.0  # and at least one row so often: a look that took long on a busy machine is not the rule
TIME_SHARE = 0.01  # of the service's time; interpreted kernels take milliseconds a row

Row = tuple[str, Any, Any, float]


class Sampled:
    """The histogram, and when the next row is looked at."""

    def __init__(self, advisor: Advisor, clock: Callable[[], float] = time.perf_counter) -> None:
        # of |t - predicted| / t, counted as `ERROR_BOUNDS[-1]` where it is more, so that the sum is bounded too
        self.errors = Histogram(ERROR_BOUNDS)
        self.covered = 0  # rows within their interval at 0.9
        self._advisor = advisor
        self._clock = clock
        self._random = random.Random(0)  # noqa: S311 - which rows are looked at is no secret
        self._next = 0.0

    def columns(self, columns: Columns) -> None:
        """Look at a row of a batch, where it is time, before the batch is folded. Cost O(1)."""
        if len(columns) == 0 or columns.misread is not None or self._clock() < self._next:
            return
        row = self._random.randrange(len(columns))
        if (columns.ok is not None and not columns.ok[row]) or any(
            marked is not None and marked[row] for marked in (columns.running, columns.killed)
        ):
            return
        machine = -1 if columns.machine is None else int(columns.machine[row])
        predictor = [float(columns.predictor[row])]
        absent = columns.absent is not None and bool(columns.absent[row])
        if columns.further is not None:
            predictor += [value for value in columns.further[row].tolist() if not math.isnan(value)]
        self._look(
            columns.components.names[int(columns.index[row])],
            None if absent else predictor if len(predictor) > 1 else predictor[0],
            float(columns.cores[row]), float(columns.elapsed_s[row]), columns.machines[machine] if machine >= 0 else None,
        )  # fmt: skip

    def rows(self, rows: Sequence[Any]) -> None:
        """As `columns`, of rows (component, predictor, cores, elapsed_s) whose form nobody has looked at."""
        if not rows or self._clock() < self._next:
            return
        row = cast("list[Any]", self._random.choice(rows))
        if type(row) is list and len(row) == 4 and type(row[3]) in (float, int):
            self._look(*cast("Row", tuple(row)), None)

    def _look(self, component: str, predictor: Any, cores: Any, elapsed_s: float, machine: str | None) -> None:
        began = self._clock()
        try:
            x = None if predictor is None else [predictor]
            reported = self._advisor.predict(component, predictor=x, cores=[cores], machine=machine)
        except AdvisorError:
            return  # it is new, or the row will be refused: nobody would have been answered
        finally:
            taken = self._clock() - began
            self._next = began + min(max(EVERY_S, taken / TIME_SHARE), SELDOM_S)
        if not 0.0 < elapsed_s < math.inf:
            return
        low_s, high_s, reported_s = (
            float(column[0]) for column in (reported.low_s, reported.high_s, reported.elapsed_s)
        )
        self.errors.count_value(min(abs(elapsed_s - reported_s) / elapsed_s, ERROR_BOUNDS[-1]))
        self.covered += low_s <= elapsed_s <= high_s
