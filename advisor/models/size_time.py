"""What a task type's instances take, by their size (paper 2): a record of constant size, of sums in cells.

Answers about a type are made of the cells at the question: see `type_verdict`. A fold is a strict left fold: cut the instances
anywhere, the words are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from advisor.domain import elementary
from advisor.domain.vectors import Floats, Ints
from advisor.models.log_cells import LEVEL, RANGE_WORDS, absolute, add_cells, add_values, keys_of
from advisor.models.records import offsets

GATHERED_MAX: Final = 32_768  # instances gathered before they are learned
CELLS: Final = 128
RESOLUTION: Final = 16  # cells of size an octave, at first: 4 % wide
RATE_CELLS: Final = 96
RATE_RESOLUTION: Final = 16
BUCKETS: Final = 10  # of running workers: 1, 2-3, 4-7, …, 512 and more
# Of a cell: count, sums of size, time, log time and its square.
N, SIZE, TIME, LOG, LOG2 = range(5)

# Instances, and those with a size: `rows` were looked at, fewer than `count` where they are a sample. `first`: a time.
_HEAD = (
    "count", "total", "logs", "log_squares", "sized", "sized_total", "rows", "sized_rows", "first", "size_low", "size_high",
)  # fmt: skip
_PARTS: Final = {
    "range": (RANGE_WORDS,), "cells": (5, CELLS), "rate_range": (RANGE_WORDS,), "rates": (BUCKETS, RATE_CELLS),
}  # fmt: skip
_BLOCKS: Final = offsets(
    [(name, 1, "f", 0.0) for name in _HEAD] + [(name, int(np.prod(shape)), "f", 0.0) for name, shape in _PARTS.items()]
)
_AT: Final = {name: at.start for name, at in _BLOCKS.items()}
WORDS: Final[int] = max(at.stop for at in _BLOCKS.values())
_SUMS: Final = _HEAD[:8]


class SizeTime:
    """A view of a type's record, words (WORDS,), changed by `fold`; zeros have learned nothing."""

    def __init__(self, words: Floats) -> None:
        self.words = words

    @property
    def share(self) -> float:
        """Instances looked at over those that they stand for."""
        count = self.head_field("count")
        return self.head_field("rows") / count if count else 1.0

    @property
    def sized_share(self) -> float:
        """The same of those with a size."""
        sized = self.head_field("sized")
        return self.head_field("sized_rows") / sized if sized else 1.0

    def head_field(self, name: str) -> float:
        """Return a field of the head."""
        return float(self.words[_AT[name]])

    def field_array(self, name: str) -> Floats:
        """Return an array of the record, a view."""
        return self.words[_BLOCKS[name]].reshape(_PARTS[name])

    @property
    def cells(self) -> Floats:
        """The cells in use with something in them (5, c), by size."""
        found = self.field_array("cells")[:, absolute(self.field_array("range"), CELLS) % CELLS]
        return found[:, found[N] > 0.0]

    @property
    def rates(self) -> tuple[Floats, Floats]:
        """Rates size / time of the cells in use (c,), and how many instances had them by running workers (BUCKETS, c)."""
        numbers = absolute(self.field_array("rate_range"), RATE_CELLS)
        values: Floats = elementary.exp2((numbers + 0.5) * self.rate_width)
        return values, self.field_array("rates")[:, numbers % RATE_CELLS]

    @property
    def rate_width(self) -> float:
        """Width of a cell of rates, in log2."""
        return 2.0 ** float(self.field_array("rate_range")[LEVEL]) / RATE_RESOLUTION

    # -- learning ---------------------------------------------------------------------------------------------------------

    def learn_instances(self, sizes: Floats, times: Floats, running: Ints, stands: Floats | None = None) -> None:
        """Learn n instances in order: sizes, 0 where none was given, times, and the workers that ran a task when each ended.

        `stands`, whole: for so many instances each stands, 1 over the chance that it had to be looked at (Horvitz and Thompson
        1952). Sums over what is looked at are then, in the mean, those over all instances. Cost O(n), some hundred ns each.
        """
        if not len(times):
            return
        weights = np.ones(len(times)) if stands is None else stands
        if not self.head_field("first"):
            self.words[_AT["first"]] = times[0]
        logs = elementary.log(times)
        self._add("rows", np.ones(len(times)))
        for name, values in (("count", 1.0), ("total", times), ("logs", logs), ("log_squares", logs * logs)):
            self._add(name, values * weights)
        buckets = np.minimum(elementary.log2(np.maximum(running, 1)).astype(np.int64), BUCKETS - 1)
        rates = keys_of(np.where(sizes > 0.0, sizes, 1.0) / times, RATE_RESOLUTION)
        add_values(
            self.field_array("rate_range"),
            self.field_array("rates"),
            rates,
            (buckets == np.arange(BUCKETS)[:, None]) * weights,
        )
        sized = np.flatnonzero(sizes > 0.0)
        if not len(sized):
            return
        sizes, times, logs, weights = sizes[sized], times[sized], logs[sized], weights[sized]
        low, high = float(sizes.min()), float(sizes.max())
        self.words[_AT["size_low"]] = min(self.head_field("size_low"), low) if self.head_field("sized_rows") else low
        self.words[_AT["size_high"]] = max(self.head_field("size_high"), high)
        self._add("sized_rows", np.ones(len(times)))
        self._add("sized", weights)
        self._add("sized_total", times * weights)
        values = np.stack([np.ones(len(times)), sizes, times, logs, logs * logs]) * weights
        add_values(self.field_array("range"), self.field_array("cells"), keys_of(sizes, RESOLUTION), values)

    def _add(self, name: str, values: Floats) -> None:
        """Add values to a field of the head, one after the other."""
        self.words[_AT[name]] = np.add.accumulate(np.append(self.head_field(name), values))[-1]

    # -- several records --------------------------------------------------------------------------------------------------

    def merge(self, other: SizeTime) -> None:
        """Add what another record has learned: counts exact, sums to rounding, cells at the coarser width. Cost O(WORDS)."""
        if not self.head_field("rows"):
            self.words[:] = other.words
            return
        low = self.head_field("size_low"), other.head_field("size_low")
        self.words[_AT["size_low"]] = min(each for each in low if each) if any(low) else 0.0
        self.words[_AT["size_high"]] = max(self.head_field("size_high"), other.head_field("size_high"))
        for name in _SUMS:
            self.words[_AT[name]] += other.head_field(name)
        for where, cells in (("range", "cells"), ("rate_range", "rates")):
            add_cells(
                self.field_array(where), self.field_array(cells), other.field_array(where), other.field_array(cells)
            )


class Gathered:
    """Instances in columns that wait to be learned together, for what a call of numpy costs."""

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[tuple[Ints, Floats, Floats, Ints, Floats]] = []

    def add_instances(self, types: Ints, sizes: Floats, times: Floats, running: Ints, stands: Floats) -> None:
        """Take instances in columns (n,), as of `SizeTime.learn_instances`, with the numbers of their types."""
        self._parts.append((types, sizes, times, running, stands))
        self.count += len(types)

    def pop_by_type(self) -> Iterator[tuple[int, tuple[Floats, Floats, Ints, Floats]]]:
        """Yield the number of each type and its columns, in their order, and hold none."""
        if not self._parts:
            return
        types, sizes, times, running, stands = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts, self.count = [], 0
        for number, rows in rows_by_type(types):
            yield number, (sizes[rows], times[rows], running[rows], stands[rows])


def rows_by_type(types: Ints) -> list[tuple[int, Ints]]:
    """Return the rows of each type in order, the type that came first first."""
    if not len(types):
        return []
    order = np.argsort(types, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(types[order]) != 0))
    groups = np.split(order, starts[1:])
    return sorted(((int(types[rows[0]]), rows) for rows in groups), key=lambda group: int(group[1][0]))


def within_cells(cells: Floats) -> float:
    """Return the standard deviation of log time within cells; 0 where no cell has two instances.

    Of the logarithm, so that the few instances which a machine interrupts do not hide how the others depend on size.
    """
    n = cells[N]
    several = n > 1.0
    squares = np.maximum(cells[LOG2] - cells[LOG] ** 2 / n, 0.0)[several]
    return float(np.sqrt(squares.sum() / (n[several] - 1.0).sum())) if several.any() else 0.0
