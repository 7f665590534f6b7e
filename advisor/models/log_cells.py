"""Cells of equal width in log2 of a value, a bounded number of them: the width doubles as the range grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats, Ints

LEVEL: Final = 0  # words of a range: cells are 2^level / resolution wide in log2
LOW: Final = 1  # least key
HIGH: Final = 2
SEEN: Final = 3  # 1 once a value came
RANGE_WORDS: Final = 4


def keys_of(values: Floats, resolution: int) -> Ints:
    """Return floor(resolution * log2(value)), for values above 0."""
    return np.floor(elementary.log2(values) * resolution).astype(np.int64)


def places_of(words: Floats, keys: Ints, cells: int) -> Ints:
    """Return in which cell each key lies: cells lie in a ring, so that none moves when the range grows."""
    return (keys >> int(words[LEVEL])) % cells


def absolute(words: Floats, cells: int) -> Ints:
    """Return the number on the log axis of each cell in use, ascending; its place is that modulo `cells`."""
    level = int(words[LEVEL])
    if not words[SEEN]:
        return np.zeros(0, np.int64)
    return np.arange(int(words[LOW]) >> level, (int(words[HIGH]) >> level) + 1)


def widening(words: Floats, keys: Ints, cells: int) -> Iterator[tuple[slice, bool]]:
    """Yield parts of the keys that lie in the cells as they are then; True before those for which the width must double first.

    The range is widened as parts are yielded: whoever takes a part with True must halve its cells before, by `halved`.
    """
    start = 0
    if not len(keys):
        return
    if not words[SEEN]:
        words[LOW] = words[HIGH] = keys[0]
        words[SEEN] = 1.0
    lows = np.minimum(np.minimum.accumulate(keys), int(words[LOW]))
    highs = np.maximum(np.maximum.accumulate(keys), int(words[HIGH]))
    while start < len(keys):
        level = int(words[LEVEL])
        over = (highs[start:] >> level) - (lows[start:] >> level) >= cells
        stop = start + int(over.argmax()) if over.any() else len(keys)
        if stop > start:
            words[LOW], words[HIGH] = lows[stop - 1], highs[stop - 1]
            yield slice(start, stop), False
        start = stop
        if start < len(keys):
            yield slice(start, start), True
            words[LEVEL] += 1.0


def joining(words: Floats, other: Floats, cells: int) -> Iterator[None]:
    """Widen a range to hold another one; yield before each doubling of the width, for the cells to be halved by `halved`.

    Afterwards the other's cells have their places by `places_in`.
    """
    if not other[SEEN]:
        return
    low, high = int(other[LOW]), int(other[HIGH])
    if words[SEEN]:
        low, high = min(low, int(words[LOW])), max(high, int(words[HIGH]))
    while words[LEVEL] < other[LEVEL] or (high >> int(words[LEVEL])) - (low >> int(words[LEVEL])) >= cells:
        yield
        words[LEVEL] += 1.0
    words[LOW], words[HIGH], words[SEEN] = low, high, 1.0


def places_in(words: Floats, other: Floats, cells: int) -> tuple[Ints, Ints]:
    """Return from which places of another range to which of this one its cells go, once `joining` has made room."""
    numbers = absolute(other, cells)
    return numbers % cells, (numbers >> int(words[LEVEL] - other[LEVEL])) % cells


def halved(words: Floats, cells: int) -> tuple[Ints, Ints]:
    """Return from which places to which the cells go when the width doubles, in ascending order of cells."""
    numbers = absolute(words, cells)
    return numbers % cells, (numbers >> 1) % cells
