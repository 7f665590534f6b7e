"""How predictions have fared over a life: samples of all records' ledgers, in constant space.

A sample is about what was scored since the one before. At `POINTS_MAX` samples neighbours are joined, so that the whole life
is shown, ever more coarsely.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.domain.vectors import Floats
from advisor.engine.advisor import Advisor
from advisor.engine.learners import Learners

POINTS_MAX = 240  # of a line on a page; as JSON about 20 KB
EMPTY = np.zeros((0, 3))
RECORDS_SLICE = 2_048  # looked at in a turn: a cache miss each, about a millisecond


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """What happened up to a place `at` of the axis, since the point before."""

    at: float
    # rows, scores, covered: rows accepted, predictions scored, and of these those whose 90 % interval held the run
    rows: int
    scores: int
    covered: int
    # median over the components that were scored of each one's mean |t - predicted| / t: a few components with times
    # near the timer's step do not move it, as they would a mean
    error: float | None

    def joined(self, later: TrendPoint) -> TrendPoint:
        """Return this point and the one behind it as one; the medians are averaged, each by its scores."""
        scores = self.scores + later.scores
        parts = [(point.error, point.scores) for point in (self, later) if point.error is not None]
        weight = sum(part for _, part in parts)
        error = sum(value * part for value, part in parts) / weight if weight else None
        return TrendPoint(later.at, self.rows + later.rows, scores, self.covered + later.covered, error)

    def as_list(self) -> list[Any]:
        """Return the shape on a page: at, rows, scores, covered, error."""
        return [self.at, self.rows, self.scores, self.covered, self.error]


class Trend:
    """The samples of one life of an advisor.

    `scores`, `covered`: over the whole life, at the last sample.
    """

    def __init__(self, advisor: Advisor) -> None:
        self._advisor = advisor
        self.points: list[TrendPoint] = []
        self.scores = self.covered = 0
        self.joined = 1  # samples that a point stands for
        self.under_way: list[TrendPoint] = []  # samples that do not make a whole point yet
        self._before: dict[str, Floats] = {}
        self._rows = int(advisor.components.totals["rows_accepted"])
        for _ in self._ledgers():
            pass

    def sample(self, at: float) -> Iterator[None]:
        """Take a sample, slice by slice: others may have their turn at each yield, and rows may come meanwhile."""
        before, rows = self._before, int(self._advisor.components.totals["rows_accepted"])
        yield from self._ledgers()
        self.scores, self.covered = (
            int(sum(table[:, column].sum() for table in self._before.values())) for column in (0, 1)
        )
        new = np.concatenate([_news(before.get(name), now) for name, now in self._before.items()] or [EMPTY])
        scored = new[:, 0] > 0.0
        error = float(np.median(new[scored, 2] / new[scored, 0])) if scored.any() else None
        self._add(TrendPoint(at, max(rows - self._rows, 0), int(new[:, 0].sum()), int(new[:, 1].sum()), error))
        self._rows = rows

    def _add(self, point: TrendPoint) -> None:
        self.under_way.append(point)
        if len(self.under_way) < self.joined:
            return
        whole = self.under_way[0]
        for each in self.under_way[1:]:
            whole = whole.joined(each)
        self.under_way.clear()
        self.points.append(whole)
        if len(self.points) >= POINTS_MAX:
            self.points = [a.joined(b) for a, b in zip(self.points[::2], self.points[1::2], strict=True)]
            self.joined *= 2

    def _ledgers(self) -> Iterator[None]:
        """Take down (scores, covered, error) of all records of elapsed times, in slices."""
        learners: Learners = self._advisor.components.learners
        found: dict[str, Floats] = {}
        for name, table in list(learners.tables.items()):
            if name.count("-") > 1:
                continue  # of a measure
            parts = [EMPTY]
            for start in range(0, table.size, RECORDS_SLICE):
                part = slice(start, min(start + RECORDS_SLICE, table.size))
                columns = (table.int_field("scores"), table.int_field("covered"), table.column("error"))
                parts.append(np.stack([column[part].astype(np.float64) for column in columns], axis=1))
                yield
            found[name] = np.concatenate(parts)
        self._before = found


def _news(before: Floats | None, now: Floats) -> Floats:
    """Return what came to the ledgers (n, 3) of a table; a component that began anew has fewer scores: all of them are new."""
    if before is None:
        return now
    known = min(len(before), len(now))
    new = now.copy()
    new[:known] -= np.where(now[:known, :1] >= before[:known, :1], before[:known], 0.0)
    return new
