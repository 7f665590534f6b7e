"""Tables of records: one row of words a record, its fields by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.vectors import Floats, Ints
from advisor.models.room import RowRoom

Field = tuple[str, int, str, float]  # name, words, kind "f" float64 or "i" int64, empty value


def offsets(fields: Iterable[Field]) -> dict[str, slice]:
    """Return where the words of each field are."""
    found: dict[str, slice] = {}
    start = 0
    for name, words, *_ in fields:
        found[name] = slice(start, start + words)
        start += words
    return found


def empty_words(fields: Sequence[Field]) -> Floats:
    """Return the words of a record that has seen nothing."""
    parts = [np.full(words, value, np.int64 if kind == "i" else np.float64) for _, words, kind, value in fields]
    return np.concatenate([part.view(np.float64) for part in parts])


class RecordTable:
    """Records of `size` owners: words (capacity, words_a_record). Cost of one: `words_a_record` * 8 bytes.

    Views are valid until the table grows, by whole steps of `STEP` records and by 1/`SHARE`.
    """

    STEP, SHARE = 16, 8
    __slots__ = ("_kinds", "_room", "at", "changed", "fields", "layout", "size", "words", "words_a_record")

    def __init__(self, fields: Sequence[Field], layout: str, size: int = 0) -> None:
        self.fields = tuple(fields)
        self.layout = layout  # fingerprint of the meaning of the words
        self.at: Mapping[str, slice] = offsets(self.fields)
        self._kinds = {name: kind for name, _, kind, *_ in self.fields}
        self.words_a_record = sum(words for _, words, *_ in self.fields)
        self.size = 0
        self._room = RowRoom()
        self._hold(np.empty((0, self.words_a_record)))
        self.grow(size)

    def _hold(self, words: Floats) -> None:
        self.words = words

    @property
    def bytes(self) -> int:
        """Bytes that the table holds."""
        return self.words.nbytes

    def floats(self, field: str) -> Floats:
        """Return the view (capacity, words) of a field of float64."""
        return self.words[:, self.at[field]]

    def integers(self, field: str) -> Ints:
        """Return the view (capacity, words) of a field of int64."""
        return self.words.view(np.int64)[:, self.at[field]]

    def int_field(self, field: str) -> Ints:
        """Return the view (capacity,) of a field of one int64."""
        return self.words.view(np.int64)[:, self.at[field].start]

    def column(self, field: str) -> NDArray[Any]:
        """Return the view (capacity,) of a field of one word, of its own type."""
        return self.int_field(field) if self._kinds[field] == "i" else self.words[:, self.at[field].start]

    def empty_record(self) -> Floats:
        """Return the words of a component that has seen nothing."""
        return empty_words(self.fields)

    def copy_from(self, other: RecordTable, theirs: Ints, owners: Ints) -> Ints:
        """Take copies (n,) of another's records, for these owners; return their places: free ones first. Cost O(n)."""
        free = np.flatnonzero(self.int_field("component")[: self.size] < 0)[: len(theirs)]
        more = len(theirs) - len(free)
        places = np.concatenate([free, np.arange(self.size, self.size + more)])
        self.grow(self.size + more)
        self.words[places] = other.words[theirs]
        self.int_field("component")[places] = owners
        return places

    def grow(self, size: int, capacity_max: int = 2**62) -> None:
        """Make room for `size` records; new ones are empty."""
        capacity = len(self.words)
        if size > capacity:
            wanted = max(size, min(capacity + capacity // self.SHARE, capacity_max))
            self.grow_capacity(-(-wanted // self.STEP) * self.STEP)
        self.size = max(self.size, size)

    def grow_capacity(self, capacity: int) -> None:
        """Hold `capacity` records, those beyond `size` empty."""
        if capacity > len(self.words):
            words = self._room.grown(self.words, self.size, capacity)
            words[self.size :] = self.empty_record()
            self._hold(words)
