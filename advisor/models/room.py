"""Memory that a table grows in: address space behind it is kept free, so that its rows stay where they are.

A table of 14 MiB that moves when it grows keeps everybody waiting for 18 ms: new pages, a copy, and the old pages given
back. Address space that nobody has written to costs nothing: the system gives memory page by page when it is first written.
"""

from __future__ import annotations

import mmap
import sys
from typing import Final

import numpy as np

from advisor.domain.vectors import Floats

FROM_BYTES: Final = 2**20  # smaller tables are copied: half a millisecond
SPACE_BYTES: Final = 2**32  # of address space for one table: three million components fit; beyond, it moves once more
# Where the system counts what might be written, what is only kept free shall not count. Python names this flag from 3.13 on.
_FLAGS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000


class RowRoom:
    """Rows of one width, in one place as long as there is room behind them."""

    __slots__ = ("_whole",)

    def __init__(self) -> None:
        self._whole: Floats | None = None

    def grown(self, rows: Floats, used: int, capacity: int) -> Floats:
        """Return `capacity` rows of which the first `used` are those of `rows`.

        Cost O(1), or O(used) where they have to move.
        """
        whole = self._whole
        if whole is None or capacity > len(whole) or whole.ctypes.data != rows.ctypes.data:
            self._whole = _space(capacity, rows.shape[1])
            more = np.empty((capacity, rows.shape[1])) if self._whole is None else self._whole[:capacity]
            more[:used] = rows[:used]
            return more
        return whole[:capacity]


def _space(rows: int, width: int) -> Floats | None:
    """Return at least so many rows of which none is written yet; None for few, and where the system gives none."""
    row_bytes = 8 * width
    if rows * row_bytes < FROM_BYTES or sys.platform != "linux":
        return None
    n = max(SPACE_BYTES, 2 * rows * row_bytes) // row_bytes
    try:
        space = mmap.mmap(-1, n * row_bytes, flags=_FLAGS)
        space.madvise(mmap.MADV_HUGEPAGE)  # the rows of a batch lie far apart: small pages would miss each time
        return np.frombuffer(space, np.float64).reshape(n, width)
    except (OSError, ValueError):  # a limit of address space
        return None
