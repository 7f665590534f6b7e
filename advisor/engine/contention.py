"""Contention of an engine's components: rows that tell `active_cores` are corrected before anything learns from them."""

from __future__ import annotations

import numpy as np

from advisor.domain.vectors import Floats, Ints
from advisor.engine.rows import Rows
from advisor.models import contention, fold, weighting
from advisor.models.contention import Contention
from advisor.models.fold import Changes
from advisor.models.table import Table

TABLE = "contention"  # its name in snapshots and state bytes
NONE = -1


class Contentions:
    """The contention factors of components, one record each that told `active_cores`."""

    def __init__(self) -> None:
        self.table = contention.new_table()
        self._place: Ints = np.full(0, NONE, np.int64)  # by base slot

    def place(self, slot: int) -> int:
        """Return where a component's record is, NONE where it has none."""
        return int(self._place[slot]) if slot < len(self._place) else NONE

    def of(self, slot: int) -> Contention:
        """Return what is known of a component."""
        place = self.place(slot)
        return Contention() if place == NONE else contention.told(self.table, place)

    def fold(self, table: Table, rows: Rows, active: Floats, timer_noise_s: float) -> tuple[Rows, Changes]:
        """Fold rows into the base table as an idle machine would have run them; return them so, and the changes found.

        Parameters
        ----------
        active : float64 array (n,)
            Cores busy meanwhile, NaN where nobody knows: such a row is taken as it is.

        Notes
        -----
        Rows go in rounds: a round takes, of every component, the rows up to the end of its epoch, where the weighting model is
        copied just as it is after that row.
        """
        others = np.maximum(active - rows.cores, 0.0)
        known = ~np.isnan(others)
        places = np.full(len(others), NONE, np.int64)
        places[known] = self._places(rows.slots[known])
        elapsed = rows.elapsed_s.copy()
        x = rows.product()
        found: list[tuple[Ints, Ints, Floats]] = []
        rest = np.arange(len(others))
        while len(rest):
            ends = self._ends(places[rest])
            first = np.full(table.words.shape[1], len(others), np.int64)
            np.minimum.at(first, rows.slots[rest[ends]], rest[ends])
            ready = rest[rest <= first[rows.slots[rest]]]
            told = ready[known[ready]]
            if len(told):
                count = None if rows.count is None else rows.count[told]
                elapsed[told] = contention.correct(
                    self.table, places[told], x[told], rows.cores[told], rows.elapsed_s[told], others[told], count
                )
            part = rows.take(ready)
            changes = fold.fold(table, part.slots, x[ready], part.cores, elapsed[ready], part.count, timer_noise_s)
            if len(changes):
                found.append((changes.slots, ready[changes.rows], changes.log2_ratio))
            for row in rest[ends][first[rows.slots[rest[ends]]] == rest[ends]].tolist():
                model = table.words[weighting.FEATURES, int(rows.slots[row])]
                contention.end_epoch(self.table, int(places[row]), model)
            rest = rest[rest > first[rows.slots[rest]]]
        return rows.timed(elapsed), Changes.of(found)

    def _ends(self, places: Ints) -> Ints:
        """Return the rows, of those at places (n,), with which an epoch of their component ends; the first one a component."""
        told = np.flatnonzero(places != NONE)
        order = told[np.argsort(places[told], kind="stable")]
        ordered = places[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=NONE))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        return np.sort(order[rank + 1 == contention.until_epoch(self.table, ordered)])

    def _places(self, slots: Ints) -> Ints:
        """Return the places of the rows' records, giving new ones in the order of the rows."""
        if not len(slots):
            return slots
        self._reserve(int(slots.max()) + 1)
        new, first = np.unique(slots[self._place[slots] == NONE], return_index=True)
        for slot in new[np.argsort(first)].tolist():
            self._give(slot)
        return self._place[slots]

    def _give(self, slot: int) -> int:
        place = self.table.size
        self.table.grow(place + 1)
        self.table.count("component")[place] = slot
        self.table.changed[place] = True
        self._reserve(slot + 1)
        self._place[slot] = place
        return place

    def _reserve(self, slots: int) -> None:
        more = slots - len(self._place)
        if more > 0:
            self._place = np.append(self._place, np.full(max(more, len(self._place) // 8), NONE, np.int64))

    def forget(self, slot: int, keep: float) -> None:
        """Keep the share `keep` of the evidence on a component; at 0 it begins anew, but for its counts of rows."""
        place = self.place(slot)
        if place != NONE:
            contention.forget(self.table, place, keep)

    def merge(self, slots: Ints, other: Contentions) -> None:
        """Add another's; its component i is ours at slots[i]."""
        for there, slot in enumerate(slots.tolist()):
            theirs = other.place(there)
            if theirs != NONE:
                mine = self.place(slot)
                contention.merge(self.table, self._give(slot) if mine == NONE else mine, other.table, theirs)

    def restore(self) -> None:
        """Find each component's record again, from what the records say."""
        owners = self.table.count("component")[: self.table.size]
        taken = np.flatnonzero(owners >= 0)
        self.table.size = int(taken[-1]) + 1 if len(taken) else 0
        self._place = np.full(int(owners.max(initial=NONE)) + 1, NONE, np.int64)
        self._place[owners[taken]] = taken
