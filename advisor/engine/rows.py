"""Rows to be learned, taken apart by what they teach: elapsed times, and each measure beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import Bools, Columns, Floats, Ints


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one kind, as columns of one length."""

    at: Ints  # int64 array (n,): their places in the batch
    slots: Ints
    predictor: Floats
    further: Floats | None
    cores: Floats
    elapsed_s: Floats
    count: Ints | None
    machine: Ints | None

    def take(self, rows: Any) -> Rows:
        """Return the given ones (indices, mask or slice)."""
        return Rows(*(None if (v := getattr(self, f.name)) is None else v[rows] for f in fields(self)))  # type: ignore[arg-type]

    def predictors(self, dimensions: int) -> Floats:
        """Return the first `dimensions` values (n, d) of the predictors."""
        if dimensions == 1 or self.further is None:
            return np.array(self.predictor, np.float64)[:, None]
        return np.ascontiguousarray(
            np.concatenate([self.predictor[:, None], self.further[:, : dimensions - 1]], axis=1)
        )


def ended_well(columns: Columns, rows: Bools, good: Bools | None) -> Bools:
    """Return those of `rows` that are learned: accepted, of runs that ended well."""
    if good is not None:
        rows = rows & good
    if columns.ok is not None:
        rows = rows & columns.ok
    return rows & ~columns.running if columns.running is not None else rows


def widths_of(columns: Columns, rows: Any) -> Ints:
    """Return how many values the predictors of the given rows have."""
    if columns.further is None:
        return np.ones(len(columns), np.int64)[rows]
    return 1 + np.count_nonzero(~np.isnan(columns.further[rows]), axis=1)


def first_rows(known: Ints, batches: Sequence[Rows]) -> list[tuple[int, int]]:
    """Return (slot, batch) of the components that learn for the first time, in the order in which single rows would come.

    Parameters
    ----------
    known : int64 array
        Rows learned so far, by slot.
    """
    found: list[tuple[int, int, int]] = []
    for batch, rows in enumerate(batches):
        new: NDArray[np.int64] = np.flatnonzero(known[rows.slots] == 0)
        if not len(new):
            continue
        slots, first = np.unique(rows.slots[new], return_index=True)
        places = rows.at[new[first]].tolist()
        found += [(at, batch, slot) for at, slot in zip(places, slots.tolist(), strict=True)]
    return [(slot, batch) for _, batch, slot in sorted(found)]
