"""Batches that would take long, folded in slices, so that whoever folds them can do something else between.

A fold is a strict left fold: the slices leave the same state, and the same receipt, as the whole. What comes between two
slices is learned as if it had come between two batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from advisor.domain import limits
from advisor.domain.answers import Receipt, Refusals
from advisor.domain.observations import Columns

SLICE_ROWS = 512  # the first rows of a component cost up to 15 microseconds each: below 8 ms


class Batch:
    """A batch on its way into an engine.

    Parameters
    ----------
    fold : callable
        What takes a piece in: `Advisor.fold`.
    columns : Columns
    done : callable
        Called with the last slice.
    """

    def __init__(self, fold: Callable[[Columns], Receipt], columns: Columns, done: Callable[[], None]) -> None:
        self._fold = fold
        self._columns = columns
        self._done = done
        self._folded = 0  # rows
        self._accepted = 0
        self._by_code: Counter[str] = Counter()
        self._first: list[tuple[int, str, object]] = []

    def fold_next(self) -> bool:
        """Fold a slice; return whether there is more to fold."""
        start, stop = self._folded, self._folded + SLICE_ROWS
        last = stop >= len(self._columns)
        if last and not start:
            receipt = self._fold(self._columns)
        else:
            part = self._columns.take(slice(start, stop))
            receipt = self._fold(part if start else replace(part, carried=self._columns.carried))
        self._folded = stop
        self._accepted += receipt.accepted
        if receipt.refused.count:
            self._by_code.update(receipt.refused.by_code)
            room = limits.FIRST_REFUSALS - len(self._first)
            self._first += [(start + row, code, value) for row, code, value in receipt.refused.first[:room]]
        if last:
            self._done()
        return not last

    def receipt(self, sequence: int | None = None) -> Receipt:
        """Return what became of the rows folded so far."""
        refused = (
            Refusals(self._by_code.total(), dict(self._by_code), tuple(self._first)) if self._first else Refusals()
        )
        return Receipt(self._accepted, refused, sequence)
