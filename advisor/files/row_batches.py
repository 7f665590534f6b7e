"""Rows of a file in batches, whatever its format: what a reader of tables reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BadCell:
    """A row that was refused, by the first of its cells that is no legal value."""

    line: int
    column: str
    value: str
    bound: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.value!r} is not {self.bound}"


class Batch(NamedTuple):
    """Rows of a file: their lines, the texts and the numbers of a column by its place, and lines that are no rows."""

    lines: Sequence[int]
    texts: Callable[[int], list[str]]
    numbers: Callable[[int], NDArray[np.float64]]  # NaN where a cell has none; the array is the caller's
    refused: Sequence[BadCell] = ()
