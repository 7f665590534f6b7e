"""Tables of records: one row of words a record, its fields by name, each with the domain of its words.

A checksum tells that words are those that were written, not by whom. A word outside its domain would end in an overflow, a NaN
or a place that is none, some rows or questions later and inside a kernel. Domains are wide: what a legal stream of rows can
lead to passes, whatever its order, merges and forgetting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.limits import COUNT_MAX, ELAPSED_MAX_S, PREDICTOR_MAX
from advisor.domain.vectors import Floats, Ints
from advisor.models.room import RowRoom

INF = float("inf")
ROWS_MOST = 2.0**53  # schedules double them
SUM = 1e70  # of terms: products of four still are numbers, and no stream comes near
LEAST = 1e-40  # of what is divided by
LOG = 100.0  # of what is a logarithm of a legal value, or a sum of some of them

Domain = tuple[float, float, tuple[float, ...]]  # least, largest, further legal values; NaN is reported as such
ANY: Domain = (-(2.0**63), 2.0**63, ())  # of packed words
PACKED: Domain = (0.0, 2.0**63, ())
COUNT: Domain = (0.0, ROWS_MOST, ())
POSITIVE: Domain = (0.0, SUM, ())
SIGNED: Domain = (-SUM, SUM, ())
LOGS: Domain = (-LOG, LOG, ())
RUNS: Domain = (LEAST, ROWS_MOST * COUNT_MAX, (0.0,))
TIME: Domain = (1e-20, 1e20, (0.0,))  # seconds, carried from a cell's runs to its centre
RATE: Domain = (LEAST, SUM, (0.0,))
PREDICTOR: Domain = (0.0, PREDICTOR_MAX, ())
LOW_PREDICTOR: Domain = (0.0, PREDICTOR_MAX, (INF,))
HIGH_PREDICTOR: Domain = (0.0, PREDICTOR_MAX, (-INF,))
SECONDS: Domain = (0.0, ELAPSED_MAX_S, ())
SCALE: Domain = (2.0**-70, 2.0 * PREDICTOR_MAX, (0.0,))
MOMENT: Domain = (0.0, 1e150, ())

Field = tuple[str, int, str, float, Domain | None]  # name, words, kind "f" float64 or "i" int64, empty value, domain


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
    parts = [np.full(words, value, np.int64 if kind == "i" else np.float64) for _, words, kind, value, _ in fields]
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

    def outside(self, size: int) -> tuple[int, str, float] | None:
        """Return (record, field, value) of the first word of `size` records outside its domain; None: all are in."""
        for name, _, kind, _, domain in self.fields:
            if domain is None:
                continue
            low, high, further = domain
            values = (self.integers(name) if kind == "i" else self.floats(name))[:size]
            good = (values >= low) & (values <= high)
            if not good.all():
                for value in further:
                    good |= np.isnan(values) if value != value else values == value  # noqa: PLR0124 - NaN
                if not good.all():
                    at = int(np.flatnonzero(~good.all(axis=1))[0])
                    return at, name, values[at][~good[at]].tolist()[0]
        return None
