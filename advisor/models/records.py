"""Tables of records: one row of words a record, its fields by name; for state that one fold touches most of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.vectors import Floats, Ints
from advisor.models.room import RowRoom

SLOTS_GROWN = 16  # records grow by whole steps of 16 and by 1/8
Field = tuple[str, int, str, float]  # name, words, kind "f" float64 or "i" int64, empty value


class RecordTable:
    """Records of `size` owners. Cost of one: `words_a_record` * 8 bytes."""

    __slots__ = ("_room", "at", "changed", "fields", "layout", "size", "words", "words_a_record")

    def __init__(self, fields: Sequence[Field], layout: str, size: int = 0) -> None:
        self.fields = tuple(fields)
        self.layout = layout  # fingerprint of the meaning of the words
        found: dict[str, slice] = {}
        start = 0
        for name, words, _, _ in self.fields:
            found[name] = slice(start, start + words)
            start += words
        self.at: Mapping[str, slice] = found
        self.words_a_record = start
        self.size = 0
        self._room = RowRoom()
        self.words: Floats = np.empty((0, start))
        self.changed: NDArray[np.bool_] = np.zeros(0, np.bool_)  # since the last snapshot
        self.grow(size)

    @property
    def bytes(self) -> int:
        """Bytes that the table holds."""
        return self.words.nbytes + self.changed.nbytes

    def floats(self, field: str) -> Floats:
        """Return the view (capacity, words) of a field of float64."""
        return self.words[:, self.at[field]]

    def integers(self, field: str) -> Ints:
        """Return the view (capacity, words) of a field of int64."""
        return self.words.view(np.int64)[:, self.at[field]]

    def count(self, field: str) -> Ints:
        """Return the view (capacity,) of a field of one int64."""
        return self.words.view(np.int64)[:, self.at[field].start]

    def column(self, field: str) -> NDArray[Any]:
        """Return the view (capacity,) of a field of one word, of its own type."""
        kind = next(kind for name, _, kind, _ in self.fields if name == field)
        return self.count(field) if kind == "i" else self.words[:, self.at[field].start]

    def empty_record(self) -> Floats:
        """Return the words of a component that has seen nothing."""
        record = np.zeros(self.words_a_record)
        for name, _, kind, value in self.fields:
            if kind == "i":
                record.view(np.int64)[self.at[name]] = int(value)
            else:
                record[self.at[name]] = value
        return record

    def copy_from(self, other: RecordTable, theirs: Ints, owners: Ints) -> Ints:
        """Take copies (n,) of another's records, for these owners; return their places: free ones first. Cost O(n)."""
        free = np.flatnonzero(self.count("component")[: self.size] < 0)[: len(theirs)]
        more = len(theirs) - len(free)
        places = np.concatenate([free, np.arange(self.size, self.size + more)])
        self.grow(self.size + more)
        self.words[places] = other.words[theirs]
        self.count("component")[places] = owners
        self.changed[places] = True
        return places

    def grow(self, size: int) -> None:
        """Make room for `size` records; new ones are empty."""
        capacity = len(self.words)
        if size > capacity:
            self.grow_capacity(-(-max(size, capacity + capacity // 8) // SLOTS_GROWN) * SLOTS_GROWN)
        self.size = max(self.size, size)

    def grow_capacity(self, capacity: int) -> None:
        """Hold `capacity` records, those beyond `size` empty."""
        if capacity > len(self.words):
            words = self._room.grown(self.words, self.size, capacity)
            words[self.size :] = self.empty_record()
            changed = np.zeros(capacity, np.bool_)
            changed[: self.size] = self.changed[: self.size]
            self.words, self.changed = words, changed
