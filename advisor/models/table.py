"""A table of components: a matrix of words, one row a statistic, one column (slot) a component."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from advisor.models.layout import AT, INTEGERS, WORDS, empty_record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GROWTH_SLOTS = 64  # capacity grows by whole pages of 64 slots ...
# Rows of the matrix lie an odd number of cache lines apart: at a power of two the 60 words that a row of data touches would
# fall on the same few sets of a cache (measured: 190 instead of 28 ns a row at 1000 components).
STAGGER_SLOTS = 8
GROWTH_SHARE = 16  # ... and by 1/16 of itself, so that copies stay O(1) a slot and waste below 7 %


class Table:
    """Words of `size` components. Fields are views: `table["gram"]` is (21, capacity), `table["rows"]` is (capacity,).

    Views are valid until the table grows. Cost of a component: WORDS * 8 bytes.
    """

    __slots__ = ("_integers", "changed", "size", "tally", "words")

    def __init__(self, size: int = 0) -> None:
        self.size = 0
        self.words: Floats = np.empty((WORDS, 0))
        self._integers: Ints = self.words.view(np.int64)
        self.changed: NDArray[np.bool_] = np.zeros(0, np.bool_)  # since the last snapshot
        self.tally: NDArray[np.int32] = np.zeros(0, np.int32)  # scratch of the fold, all zero between calls
        self.grow(size)

    def __getitem__(self, field: str) -> NDArray[np.float64]:
        """Return the view of one field."""
        at = AT[field]
        source = self._integers if field in INTEGERS else self.words
        return source[at.start] if at.stop - at.start == 1 else source[at]  # type: ignore[return-value]

    def integers(self, field: str) -> Ints:
        """Return the view of one integer field (capacity,)."""
        return self._integers[AT[field].start]

    def grow(self, size: int, capacity_max: int | None = None) -> None:
        """Make room for `size` components; new ones are empty."""
        if size > self.words.shape[1] - STAGGER_SLOTS:
            capacity = max(size, self.words.shape[1] + self.words.shape[1] // GROWTH_SHARE)
            if capacity_max is not None:
                capacity = max(size, min(capacity, capacity_max))
            capacity = -(-capacity // GROWTH_SLOTS) * GROWTH_SLOTS + STAGGER_SLOTS
            words = np.empty((WORDS, capacity))
            words[:, : self.size] = self.words[:, : self.size]
            words[:, self.size :] = empty_record()[:, None]
            changed = np.zeros(capacity, np.bool_)
            changed[: self.size] = self.changed[: self.size]
            self.words, self.changed = words, changed
            self._integers = words.view(np.int64)
            self.tally = np.zeros(capacity, np.int32)
        self.size = max(self.size, size)

    def gather(self, slots: Ints) -> Table:
        """Return a table of copies of the given slots, in order. Cost O(WORDS * n)."""
        part = Table.__new__(Table)
        part.words = self.words.take(slots, axis=1)
        part._integers = part.words.view(np.int64)
        part.changed = np.zeros(len(slots), np.bool_)
        part.tally = np.zeros(len(slots), np.int32)
        part.size = len(slots)
        return part

    def scatter(self, slots: Ints, part: Table) -> None:
        """Write back what `gather` gave."""
        self.words[:, slots] = part.words
        self.changed[slots] = True

    @property
    def bytes(self) -> int:
        """Return the bytes that the table holds."""
        return self.words.nbytes + self.changed.nbytes + self.tally.nbytes


def by_slot(slots: Ints) -> Ints:
    """Return the stable order of rows by slot: 16 bits at a time, which numpy sorts in linear time."""
    order = np.argsort(slots.astype(np.uint16), kind="stable")
    for shift in range(16, int(slots.max(initial=0)).bit_length(), 16):
        order = order[np.argsort((slots[order] >> shift).astype(np.uint16), kind="stable")]
    return order
