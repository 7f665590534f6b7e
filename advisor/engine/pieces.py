"""Batches that would take long, folded piece by piece, so that whoever folds them can do something else between.

A row that is predicted before it is learned costs as much as a thousand others; which ones those are depends on counts
alone, so a batch is cut before it is folded. A fold is a strict left fold: the pieces leave the same state, and the same
receipt, as the whole. What comes between two pieces is learned as if it had come between two batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.answers import Receipt, Refusals
from advisor.domain.observations import UNRESOLVED, Columns, bad_rows
from advisor.engine.components import Components
from advisor.engine.rows import ended_well, widths

Ints = NDArray[np.int64]

PIECE_SCORES = (
    2  # predictions of rows in a piece: two or three milliseconds; as much again would be lost to more pieces
)
SPARED_ROWS = (
    2**12
)  # a prediction more is let pass for so many rows: to look for them would cost as much as folding a tenth of the batch
PIECE_ROWS = 2**14  # rows of a piece: some ten milliseconds in plain Python


def cuts(components: Components, columns: Columns) -> list[int]:
    """Return the rows at which the pieces of a batch end, the last being its length. Cost O(n), nothing is changed.

    It is an estimate where rows have measures, reveal that a component changed, find no room, or other batches come between:
    pieces may then hold more predictions.
    """
    n = len(columns)
    stops = [*range(PIECE_ROWS, n, PIECE_ROWS), n]
    supports = components.supports
    axes: list[int] = [2] if columns.further is None else np.unique(1 + widths(columns, slice(None))).tolist()
    if n <= PIECE_SCORES or supports.scores_most(n, axes) <= PIECE_SCORES + n // SPARED_ROWS:
        return stops
    bad = bad_rows(columns)
    good = ~np.logical_or.reduce(list(bad.values())) if bad else None
    learned = np.flatnonzero(ended_well(columns, np.ones(n, np.bool_), good))
    slots, known = _slots(components, columns, learned)
    weight = np.ones(len(learned), np.int64)
    for values in columns.measures.values():
        weight += ~np.isnan(values[learned])
    scored = supports.scores_ahead(slots, 1 + widths(columns, learned), known)
    rows, weight = learned[scored], weight[scored]
    found: list[int] = []
    taken = 0
    for row, scores in zip(rows.tolist(), weight.tolist(), strict=True):
        if taken and taken + scores > PIECE_SCORES:
            found.append(row)
            taken = 0
        taken += scores
    return sorted({*found, *stops})


def _slots(components: Components, columns: Columns, rows: Ints) -> tuple[Ints, int]:
    """Return the slots of rows, numbers from the second value up for components that have learned nothing yet."""
    names, known, index = columns.components, len(components), columns.index[rows]
    slots = names.slots_of(components)[index]
    missing = slots == UNRESOLVED
    if missing.any():
        found: Any = np.unique(index[missing], return_inverse=True)
        numbers: list[int] = found[0].tolist()
        given = [components.slot_of.get(names.names[number], 2 * known + number) for number in numbers]
        slots[missing] = np.array(given, np.int64)[found[1]]
    old = np.flatnonzero(slots < known)
    learned = components.table.integers("rows")[slots[old]] > 0
    slots[old] = np.where(learned, slots[old], slots[old] + known)
    return slots, known


class Batch:
    """A batch on its way into an engine.

    Parameters
    ----------
    fold : callable
        What takes a piece in: `Advisor.fold`.
    columns : Columns
    stops : sequence of int
        Where pieces end, from `cuts`.
    done : callable
        Called with the last piece.
    """

    def __init__(
        self, fold: Callable[[Columns], Receipt], columns: Columns, stops: Sequence[int], done: Callable[[], None]
    ) -> None:
        self._fold = fold
        self._columns = columns
        self._stops = [*stops]
        self._done = done
        self._folded = 0  # pieces
        self._accepted = 0
        self._by_code: Counter[str] = Counter()
        self._first: list[tuple[int, str, object]] = []

    def fold_next(self) -> bool:
        """Fold a piece; return whether there is more to fold."""
        start = self._stops[self._folded - 1] if self._folded else 0
        last = self._folded + 1 == len(self._stops)
        if last and not start:
            receipt = self._fold(self._columns)
        else:
            piece = self._columns.take(slice(start, self._stops[self._folded]))
            receipt = self._fold(piece if start else replace(piece, carried=self._columns.carried))
        self._folded += 1
        self._accepted += receipt.accepted
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
