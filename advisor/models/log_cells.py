"""Sums by cells of equal width in log2 of a value, a bounded number of them: the width doubles as the range grows.

Cells (rows, n) lie in a ring, so that none moves when the range grows; the words of their range say which are in use.
"""

from __future__ import annotations

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


def absolute(words: Floats, cells: int) -> Ints:
    """Return the number on the log axis of each cell in use, ascending; its place is that modulo `cells`."""
    level = int(words[LEVEL])
    if not words[SEEN]:
        return np.zeros(0, np.int64)
    return np.arange(int(words[LOW]) >> level, (int(words[HIGH]) >> level) + 1)


def add_values(words: Floats, cells: Floats, keys: Ints, values: Floats) -> None:
    """Add values (rows, k) to the cells of their keys (k,), one after the other."""
    n, start = cells.shape[1], 0
    if not len(keys):
        return
    if not words[SEEN]:
        words[LOW], words[HIGH], words[SEEN] = keys[0], keys[0], 1.0
    lows = np.minimum(np.minimum.accumulate(keys), int(words[LOW]))
    highs = np.maximum(np.maximum.accumulate(keys), int(words[HIGH]))
    while start < len(keys):
        level = int(words[LEVEL])
        over = (highs[start:] >> level) - (lows[start:] >> level) >= n
        stop = start + int(over.argmax()) if over.any() else len(keys)
        if stop > start:
            words[LOW], words[HIGH] = lows[stop - 1], highs[stop - 1]
            _add_at(cells, (keys[start:stop] >> level) % n, values[:, start:stop])
        if stop < len(keys):
            _double_width(words, cells)
        start = stop


def add_cells(words: Floats, cells: Floats, other: Floats, added: Floats) -> None:
    """Add the cells of another range; the width is then the coarser one, or more where the ranges are far apart."""
    if not other[SEEN]:
        return
    low, high, n = int(other[LOW]), int(other[HIGH]), cells.shape[1]
    if words[SEEN]:
        low, high = min(low, int(words[LOW])), max(high, int(words[HIGH]))
    while words[LEVEL] < other[LEVEL] or (high >> int(words[LEVEL])) - (low >> int(words[LEVEL])) >= n:
        _double_width(words, cells)
    words[LOW], words[HIGH], words[SEEN] = low, high, 1.0
    numbers = absolute(other, n)
    _add_at(cells, (numbers >> int(words[LEVEL] - other[LEVEL])) % n, added[:, numbers % n])


def _add_at(cells: Floats, places: Ints, values: Floats) -> None:
    for row, each in zip(cells, values, strict=True):
        np.add.at(row, places, each)


def _double_width(words: Floats, cells: Floats) -> None:
    n = cells.shape[1]
    numbers = absolute(words, n)
    before = cells[:, numbers % n]
    cells[:] = 0.0
    _add_at(cells, (numbers >> 1) % n, before)
    words[LEVEL] += 1.0
