"""The rich tier: which components have support points, under a budget of bytes, and the fold of rows into them.

A component is given a record with its first learned row as long as the budget lasts, in the order of first rows; the others stay
in the base tier, and say so. A record is made and changed in the same fold, so the same commit, as the base words of its rows.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from advisor.models import process, support, support_fold
from advisor.models.logarithm import log2
from advisor.models.support import SupportTable
from advisor.models.support_fold import ZERO_Z, Credit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MODEL_MEMORY_BYTES = 32 * 2**20  # by default: 8,000 components with one predictor; the base tier is not counted in it
NONE = -1
DIRECT_ROWS = 64  # rows up to which the points hold every one of them, and the base tier's own fit adds nothing


def machine_number(name: str) -> int:
    """Return the number that stands for a machine's name in the state: 62 bits of its hash, the same everywhere."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 2


class Supports:
    """Support tables by number of axes, and the record of each component.

    Attributes
    ----------
    memory_bytes : int
        Budget of all records together.
    tables : dict of int to SupportTable
    axes, place : int64 arrays (capacity,)
        Per base slot, the axes of its record's table and its place there; 0 and -1 where it has none.
    """

    def __init__(self, memory_bytes: int, totals: Counter[str]) -> None:
        self.memory_bytes = memory_bytes
        self.totals = totals
        self.tables: dict[int, SupportTable] = {}
        self.axes: Ints = np.zeros(0, np.int64)
        self.place: Ints = np.full(0, NONE, np.int64)

    # -- records ----------------------------------------------------------------------------------------------------------

    def find(self, slot: int) -> tuple[SupportTable, int] | None:
        """Return the table and place of a component's record, or None."""
        if slot >= len(self.place) or self.place[slot] == NONE:
            return None
        return self.tables[int(self.axes[slot])], int(self.place[slot])

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.bytes for table in self.tables.values())

    @property
    def used_bytes(self) -> int:
        """Bytes of the records in use, which the budget bounds."""
        return sum(table.size * table.words_a_record * 8 for table in self.tables.values())

    def promote(self, slot: int, axes: int) -> bool:
        """Give a component a record; False when the budget does not allow it."""
        table = self.tables.get(axes) or SupportTable(axes)
        if self.used_bytes + table.words_a_record * 8 > self.memory_bytes:
            self.totals["promotions_refused"] += 1
            return False
        self.tables[axes] = table
        place = table.size
        table.grow(place + 1)
        table.count("component")[place] = slot
        table.changed[place] = True
        self._reserve(slot + 1)
        self.axes[slot], self.place[slot] = axes, place
        self.totals["promotions"] += 1
        return True

    def _reserve(self, slots: int) -> None:
        more = slots - len(self.place)
        if more > 0:
            more = max(more, len(self.place) // 8)
            self.axes = np.concatenate([self.axes, np.zeros(more, np.int64)])
            self.place = np.concatenate([self.place, np.full(more, NONE, np.int64)])

    # -- learning ---------------------------------------------------------------------------------------------------------

    def wrong_axes(self, slots: Ints, axes: Ints) -> NDArray[np.bool_]:
        """Return the rows (n,) whose number of predictors is not that of their component's first row."""
        self._reserve(int(slots.max()) + 1 if len(slots) else 0)
        known = self.axes[slots]
        return (known > 0) & (known != axes)

    def fold(
        self,
        slots: Ints,
        predictors: Floats,
        cores: Floats,
        elapsed: Floats,
        count: Ints | None,
        machine: Ints | None,
        first_rows: Ints,
    ) -> None:
        """Fold rows into the records of their components; components that come for the first time are promoted.

        Parameters
        ----------
        predictors : float64 array (n, d)
            NaN where a row has fewer.
        first_rows : int64 array
            The rows, ascending, of components that learn for the first time.
        """
        if not len(slots):
            return
        self._reserve(int(slots.max()) + 1)
        axes = 1 + np.count_nonzero(~np.isnan(predictors), axis=1) if predictors.shape[1] > 1 else None
        for row in first_rows.tolist():
            slot = int(slots[row])
            if self.place[slot] == NONE:
                self.promote(slot, 2 if axes is None else int(axes[row]))
        for number, table in self.tables.items():
            rows = np.flatnonzero((self.axes[slots] == number) & (self.place[slots] != NONE))
            if not len(rows):
                continue
            z = coordinates(predictors[rows, : number - 1], cores[rows])
            self._fold_table(
                table, self.place[slots[rows]], z, elapsed[rows],
                None if count is None else count[rows].astype(np.float64), None if machine is None else machine[rows],
            )  # fmt: skip

    def _fold_table(
        self, table: SupportTable, place: Ints, z: Floats, elapsed: Floats, count: Floats | None, machine: Ints | None
    ) -> None:
        rows_key, spent_key = f"scores.credit_rows.{table.axes}", f"scores.spent.{table.axes}"
        credit = Credit(spent=self.totals[spent_key])
        if rows_key in self.totals:
            credit.rows = self.totals[rows_key]
        support_fold.fold(table, place, z, log2(elapsed), count, machine, credit, predicted)
        self.totals[rows_key], self.totals[spent_key] = credit.rows, credit.spent

    def shift_level(self, slot: int, log2_ratio: float) -> None:
        """Carry a component's points to a new level: it has changed."""
        found = self.find(slot)
        if found is not None:
            support.shift_level(*found, log2_ratio)

    def forget(self, slot: int, keep: float) -> None:
        """Keep the share `keep` of a component's points."""
        found = self.find(slot)
        if found is not None:
            support.forget(*found, keep)

    def merge(self, slots: Ints, other: Supports) -> None:
        """Add another's records; its component i is ours at slots[i]."""
        for there, slot in enumerate(slots.tolist()):
            theirs = other.find(there)
            if theirs is None:
                continue
            table, place = theirs
            if self.find(slot) is None and not self.promote(slot, table.axes):
                continue
            mine = self.find(slot)
            if mine is not None and mine[0].axes == table.axes:
                support.merge(*mine, table, place)

    def restore(self) -> None:
        """Find each component's record again, from what the records say. A record that was lost is left empty and free."""
        for axes, table in self.tables.items():
            owners = table.count("component")[: table.size]
            taken = np.flatnonzero(owners >= 0)
            if not len(taken):
                continue
            self._reserve(int(owners.max()) + 1)
            self.axes[owners[taken]], self.place[owners[taken]] = axes, taken


def coordinates(predictors: Floats, cores: Floats) -> Floats:
    """Return z (n, axes): log2 of predictors (n, d) and cores (n,)."""
    z = np.empty((len(cores), predictors.shape[1] + 1))
    for axis in range(predictors.shape[1]):
        x = np.ascontiguousarray(predictors[:, axis])
        z[:, axis] = np.where(x > 0, np.maximum(log2(np.where(x > 0, np.maximum(x, TINY), 1.0)), ZERO_Z), ZERO_Z)
    z[:, -1] = log2(cores)
    return z


TINY = 2.0**-1022  # the least number that `log2` takes


def predicted(table: SupportTable, place: int, z: Floats, machine: int) -> tuple[float, float]:
    """Return (mean, sd) of log2 time of a row to be scored, from the points alone: the same whatever was asked before."""
    posterior = process.solve(process.points_of(table, place))
    mean, variance, noise = posterior.at(z[None, :] * process.LN2, machine)
    return float(mean[0]) / process.LN2, float(np.sqrt(variance[0] + noise[0])) / process.LN2


def latest_scores(table: SupportTable, place: int) -> Floats:
    """Return the scores that are kept."""
    made = min(int(table.count("scores")[place]), support.SCORES)
    return table.floats("score")[place, :made]


