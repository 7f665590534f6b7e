"""Batches that would take long, folded in slices, so that whoever folds them can do something else between.

A fold is a strict left fold: the slices leave the same state, and the same answer, as the whole. What comes between two
slices is learned as if it had come between two batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from advisor.domain import limits
from advisor.domain.observations import Columns
from advisor.domain.vectors import Bools

# A slice takes one to two milliseconds: a component's first rows cost up to 15 microseconds each, later ones about one.
SLICE_ROWS = 128
KNOWN_FOR_YOUNG = 8  # rows of well-known components that cost as much as one of a young one


class Batch:
    """A batch on its way into an engine.

    `fold`: takes a piece in, and answers for it. `young`: tells which of the batch's rows, by a slice of them, are of young
    components. `done`: called with the last slice. `sequence`: its number.
    """

    def __init__(
        self,
        fold: Callable[[Columns], dict[str, Any]],
        young: Callable[[Columns, slice], Bools],
        columns: Columns,
        done: Callable[[], None],
        sequence: int | None,
    ) -> None:
        self._fold = fold
        self._young = young
        self._columns = columns
        self._done = done
        self._sequence = sequence
        self._folded = 0  # rows
        self._accepted = 0
        self._by_code: Counter[str] = Counter()
        self._first: list[list[Any]] = []

    @property
    def left(self) -> int:
        """Rows not folded yet."""
        return len(self._columns) - self._folded

    def _rows_at_once(self, start: int) -> int:
        """Return how many rows the next slice has: by what they cost, for known components need no more than one."""
        most = SLICE_ROWS * KNOWN_FOR_YOUNG
        young = self._young(self._columns, slice(start, start + most))
        return max(1, int(np.searchsorted(np.cumsum(np.where(young, KNOWN_FOR_YOUNG, 1)), most, "right")))

    def fold_next(self) -> bool:
        """Fold a slice; return whether there is more to fold."""
        start = self._folded
        stop = start + self._rows_at_once(start)
        last = stop >= len(self._columns)
        if last and not start:
            answer = self._fold(self._columns)
        else:
            part = self._columns.take(slice(start, stop))
            answer = self._fold(part if start else replace(part, carried=self._columns.carried))
        self._folded = stop
        self._accepted += answer["accepted"]
        refused = answer["refused"]
        self._by_code.update(refused["by_code"])
        room = limits.FIRST_REFUSALS - len(self._first)
        self._first += [[start + row, *why] for row, *why in refused["first"][:room]]
        if last:
            self._done()
        return not last

    def answer(self) -> dict[str, Any]:
        """Return what became of the rows folded so far, as `Engine.apply` answers."""
        refused = {"count": self._by_code.total(), "by_code": dict(self._by_code), "first": self._first}
        numbered = {} if self._sequence is None else {"sequence": self._sequence}
        return {"accepted": self._accepted, "refused": refused} | numbered
