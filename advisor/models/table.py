"""A table of components' sums: one record of words a component."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.domain.vectors import Floats, Ints
from advisor.models.layout import AT, INTEGERS, WORDS, empty_record
from advisor.models.room import RowRoom

GROWTH_SLOTS = 64  # capacity grows by whole pages of 64 slots ...
GROWTH_SHARE = 16  # ... and by 1/16 of itself, so that copies stay O(1) a slot and waste below 7 %


class Table:
    """Words of `size` components. Fields are views: `table["gram"]` is (21, capacity), `table["rows"]` is (capacity,).

    `records` is (capacity, WORDS), as the fold wants it, `records_whole` the same memory as int64; `words` is the same memory
    the other way round, (WORDS, capacity), as solvers of many components want it. Views are valid until the table grows. Cost
    of a component: WORDS * 8 bytes.
    """

    __slots__ = ("_integers", "_room", "changed", "records", "records_whole", "size", "words")

    def __init__(self, size: int = 0) -> None:
        self.size = 0
        self.changed: NDArray[np.bool_] = np.zeros(0, np.bool_)  # since the last snapshot
        self._room = RowRoom()
        self._hold(np.empty((0, WORDS)))
        self.grow(size)

    def _hold(self, records: Floats) -> None:
        self.records = records
        self.records_whole: Ints = records.view(np.int64)
        self.words: Floats = records.T
        self._integers: Ints = self.records_whole.T

    def __getitem__(self, field: str) -> Floats:
        """Return the view of one field."""
        at = AT[field]
        source = self._integers if field in INTEGERS else self.words
        return source[at.start] if at.stop - at.start == 1 else source[at]  # type: ignore[return-value]

    def integers(self, field: str) -> Ints:
        """Return the view of one integer field (capacity,)."""
        return self._integers[AT[field].start]

    def grow(self, size: int, capacity_max: int | None = None) -> None:
        """Make room for `size` components; new ones are empty."""
        capacity = len(self.records)
        if size > capacity:
            wanted = max(size, capacity + capacity // GROWTH_SHARE)
            if capacity_max is not None:
                wanted = max(size, min(wanted, capacity_max))
            wanted = -(-wanted // GROWTH_SLOTS) * GROWTH_SLOTS
            records = self._room.grown(self.records, self.size, wanted)
            records[self.size :] = empty_record()
            changed = np.zeros(wanted, np.bool_)
            changed[: self.size] = self.changed[: self.size]
            self.changed = changed
            self._hold(records)
        self.size = max(self.size, size)

    def gather(self, slots: Ints) -> Table:
        """Return a table of copies of the given slots, in order. Cost O(WORDS * n)."""
        part = Table.__new__(Table)
        part._room = RowRoom()
        part._hold(self.records.take(slots, axis=0))
        part.changed = np.zeros(len(slots), np.bool_)
        part.size = len(slots)
        return part

    @property
    def bytes(self) -> int:
        """Return the bytes that the table holds."""
        return self.records.nbytes + self.changed.nbytes
