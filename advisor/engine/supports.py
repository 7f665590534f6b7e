"""The rich tier: which components have support points, under a budget of bytes, and the fold of rows into them.

A component is given a record with its first learned row as long as the budget lasts, in the order of first rows; the others
stay in the base tier, and say so. A record is made and changed in the same fold, so the same commit, as the base words of its
rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.models import process, support, support_fold
from advisor.models.logarithm import log2, log2_of
from advisor.models.support import SupportTable
from advisor.models.support_fold import ZERO_Z, Credit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MODEL_MEMORY_BYTES = 16 * 2**20  # by default: 4,000 components with one predictor; the base tier is not counted in it
NONE = -1
PROMOTIONS = "promotions"  # records given; with _refused behind it, those for which there was no room
ACCOUNTS = "scores."  # totals that begin so are the credit's books: they also go down
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
    tables : dict of str to SupportTable
        By name: ``support-2`` for one predictor and the cores, ``support-2-peak_bytes`` for what is measured beside time. What
        shares no table shares no credit and no places, so the order in which a batch is worked through does not show.
    """

    def __init__(self, memory_bytes: int, totals: Counter[str], timer_noise_s: float) -> None:
        self.memory_bytes = memory_bytes
        self.timer_noise_s = timer_noise_s
        self.totals = totals
        self.tables: dict[str, SupportTable] = {}
        self._ordered: list[SupportTable] = []
        # By base slot: the table of its record, as a number in the order above, its axes, and its place there.
        self._home: Ints = np.full(0, NONE, np.int64)
        self._place: Ints = np.full(0, NONE, np.int64)

    # -- records ----------------------------------------------------------------------------------------------------------

    def find(self, slot: int) -> tuple[SupportTable, int] | None:
        """Return the table and place of a component's record, or None."""
        if slot >= len(self._place) or self._place[slot] == NONE:
            return None
        return self._ordered[int(self._home[slot])], int(self._place[slot])

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.bytes for table in self.tables.values())

    @property
    def used_bytes(self) -> int:
        """Bytes of the records in use, which the budget bounds."""
        return sum(table.size * table.words_a_record * 8 for table in self.tables.values())

    def table(self, axes: int, kind: str) -> SupportTable:
        """Return the table of components over `axes` axes of a kind ("" for time), made where there is none."""
        name = f"support-{axes}-{kind}" if kind else f"support-{axes}"
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = SupportTable(axes)
            self._ordered.append(found)
        return found

    def promote(self, slot: int, axes: int, kind: str) -> bool:
        """Give a component a record; False when the budget does not allow it."""
        table = self.table(axes, kind)
        if self.used_bytes + table.words_a_record * 8 > self.memory_bytes:
            self.totals[f"{PROMOTIONS}_refused"] += 1
            return False
        place = table.size
        table.grow(place + 1)
        table.count("component")[place] = slot
        table.changed[place] = True
        self._adopt(table, np.array([slot]), np.array([place]))
        self.totals[PROMOTIONS] += 1
        return True

    def _adopt(self, table: SupportTable, slots: Ints, places: Ints) -> None:
        self._reserve(int(slots.max()) + 1)
        self._home[slots] = next(i for i, one in enumerate(self._ordered) if one is table)
        self._place[slots] = places

    def _reserve(self, slots: int) -> None:
        more = slots - len(self._place)
        if more > 0:
            more = max(more, len(self._place) // 8)
            self._home = np.concatenate([self._home, np.full(more, NONE, np.int64)])
            self._place = np.concatenate([self._place, np.full(more, NONE, np.int64)])

    def ledger(self) -> dict[str, Any]:
        """Return the sums over all scored predictions of elapsed times. Cost O(records)."""
        tables = [table for name, table in self.tables.items() if name.count("-") == 1]
        found: dict[str, Any] = {"scores": sum(int(table.count("scores")[: table.size].sum()) for table in tables)}
        found["covered"] = sum(int(table.count("covered")[: table.size].sum()) for table in tables)
        for field in ("error", "bias"):
            found[field] = sum(float(table.column(field)[: table.size].sum()) for table in tables)
        return found

    # -- learning ---------------------------------------------------------------------------------------------------------

    def fold(
        self,
        slots: Ints,
        predictors: Floats,
        cores: Floats,
        elapsed: Floats,
        count: Ints | None,
        machine: Ints | None,
        kind: str = "",
    ) -> None:
        """Fold rows into the records of those components that have one.

        Parameters
        ----------
        predictors : float64 array (n, d)
            NaN where a row has fewer.
        """
        if not len(slots):
            return
        self._reserve(int(slots.max()) + 1)
        home = self._home[slots]
        for number, table in enumerate(self._ordered):
            rows = np.flatnonzero(home == number)
            if not len(rows):
                continue
            whole = len(rows) == len(slots)
            columns = [
                None if v is None else v if whole else v[rows]
                for v in (slots, predictors, cores, elapsed, count, machine)
            ]
            self._fold_table(table, kind, *columns)  # type: ignore[arg-type]

    def _fold_table(
        self, table: SupportTable, kind: str, slots: Ints, predictors: Floats, cores: Floats, elapsed: Floats,
        count: Ints | None, machine: Ints | None,
    ) -> None:  # fmt: skip
        def of_rows(rows: Ints) -> tuple[Floats, Floats]:
            return coordinates(predictors[rows, : table.axes - 1], cores[rows]), log2(elapsed[rows])

        rows_key, spent_key = _books(table.axes, kind)
        credit = self._credit(table.axes, kind)
        runs = None if count is None else count.astype(np.float64)
        timer = 0.0 if kind else self.timer_noise_s

        def predict(table: SupportTable, place: int, z: Floats, machine: int) -> tuple[float, float]:
            return predicted(table, place, z, machine, timer)

        support_fold.fold(table, self._place[slots], of_rows, runs, machine, credit, predict)
        self.totals[rows_key], self.totals[spent_key] = credit.rows, credit.spent

    def _credit(self, axes: int, kind: str = "") -> Credit:
        """Return what a table may spend on scoring."""
        rows_key, spent_key = _books(axes, kind)
        credit = Credit(spent=self.totals[spent_key])
        if rows_key in self.totals:
            credit.rows = self.totals[rows_key]
        return credit

    def scores_most(self, rows: int, axes: Sequence[int]) -> int:
        """Return a bound of how many of so many rows, of the given numbers of axes, are scored. Cost O(1)."""
        found = 0
        for credit in map(self._credit, axes):
            found += rows if credit.price == support_fold.ROWS_EARLY else (credit.rows + rows) // credit.price
        return found

    def scores_ahead(self, slots: Ints, axes: Ints, known: int) -> Ints:
        """Return which rows (ascending) will be scored when a batch is folded. Cost O(n log n), nothing is changed.

        Parameters
        ----------
        slots : int64 array (n,)
            From `known` up: numbers of components that have no slot yet.
        axes : int64 array (n,)
            Of the rows of those components.
        """
        self._reserve(known)
        old = slots < known
        place = np.full(len(slots), NONE, np.int64)
        place[old] = self._place[slots[old]]
        found = [np.zeros(0, np.int64)]
        for width in range(2, support.AXES_MAX + 1):
            table = self.tables.get(f"support-{width}")
            number = next((i for i, one in enumerate(self._ordered) if one is table), NONE)
            mine = axes == width
            record = 8 * sum(words for _, words, _, _ in support.fields_of(width))
            mine &= ~old & (self.used_bytes + record <= self.memory_bytes)
            if number != NONE:
                mine[old] = (self._home[slots[old]] == number) & (place[old] != NONE)
            rows = np.flatnonzero(mine)
            if not len(rows):
                continue
            seen = np.zeros(len(rows), np.int64)
            if table is not None:
                counted = place[rows] != NONE
                seen[counted] = table.count("seen")[place[rows[counted]]]
            candidates = support_fold.candidates(slots[rows], seen)
            found.append(rows[self._credit(width).spend(candidates, len(rows))])
        return np.sort(np.concatenate(found))

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

    def merge(self, slots: Ints, other: Supports, kinds: Sequence[str], axes: Ints) -> None:
        """Add another's records; its component i, of the given kind and axes (n,) here, is ours at slots[i]."""
        for there, (slot, kind, width) in enumerate(zip(slots.tolist(), kinds, axes.tolist(), strict=True)):
            theirs = other.find(there)
            if theirs is None:
                continue
            table, place = theirs
            if table.axes != width:
                continue
            if self.find(slot) is None and not self.promote(slot, table.axes, kind):
                continue
            mine = self.find(slot)
            if mine is not None:
                support.merge(*mine, table, place)

    def restore(self) -> None:
        """Find each component's record again, from what the records say. A record that was lost is empty and nobody's."""
        for table in self._ordered:
            owners = table.count("component")[: table.size]
            taken = np.flatnonzero(owners >= 0)
            table.size = int(taken[-1]) + 1 if len(taken) else 0  # a page holds places that were never given
            if len(taken):
                self._adopt(table, owners[taken], taken)

    def owners(self) -> Iterator[tuple[SupportTable, Ints]]:
        """Yield each table with records, and the base slots of those in the order of their places."""
        for table in self._ordered:
            owners = table.count("component")[: table.size]
            if (owners >= 0).any():
                yield table, owners[owners >= 0]


def _books(axes: int, kind: str) -> tuple[str, str]:
    """Return the totals in which a table's credit is kept: rows saved, scores made."""
    name = f"{axes}{kind and '.'}{kind}"
    return f"{ACCOUNTS}saved.{name}", f"{ACCOUNTS}spent.{name}"


def coordinates(predictors: Floats, cores: Floats) -> Floats:
    """Return z (n, axes): log2 of predictors (n, d) and cores (n,)."""
    z = np.empty((len(cores), predictors.shape[1] + 1))
    for axis in range(predictors.shape[1]):
        x = np.ascontiguousarray(predictors[:, axis])
        z[:, axis] = np.where(x > 0, np.maximum(log2(np.where(x > 0, np.maximum(x, TINY), 1.0)), ZERO_Z), ZERO_Z)
    z[:, -1] = log2(cores)
    return z


def coordinates_of(predictors: Sequence[float], cores: float) -> list[float]:
    """Return what `coordinates` gives for one point, to the bit."""
    return [*(max(log2_of(max(x, TINY)), ZERO_Z) if x > 0 else ZERO_Z for x in predictors), log2_of(cores)]


TINY = 2.0**-1022  # the least number that `log2` takes


def predicted(table: SupportTable, place: int, z: Floats, machine: int, timer_noise_s: float) -> tuple[float, float]:
    """Return (mean, sd) of log2 time of a row to be scored, from the points alone: the same whatever was asked before."""
    posterior = process.solve(process.points_of(table, place, timer_noise_s))
    mean, variance, noise = posterior.at(z[None, :] * process.LN2, machine)
    return float(mean[0]) / process.LN2, float(np.sqrt(variance[0] + noise[0])) / process.LN2


def latest_scores(table: SupportTable, place: int) -> Floats:
    """Return the scores that are kept."""
    made = min(int(table.count("scores")[place]), support.SCORES)
    return table.floats("score")[place, :made]
