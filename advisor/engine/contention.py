"""Contention of an engine's components: rows that tell `active_cores` are corrected before anything learns from them."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from advisor.domain.vectors import Floats, Ints
from advisor.engine.rows import Rows
from advisor.models import contention, weighting
from advisor.models.contention import Contention
from advisor.models.table import Table

TABLE = "contention"  # its name in snapshots and state bytes
NONE = -1


class Folds(Protocol):
    """What learns from corrected rows: the engine's components."""

    table: Table

    def fold_rows(self, rows: Rows) -> None:
        """Fold rows."""
        ...

    def carry(self, slot: int, factor: float) -> None:
        """Carry a component to a new level."""
        ...


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

    def fold(self, rows: Rows, active: Floats, components: Folds) -> None:
        """Fold rows as an idle machine would have run them.

        Parameters
        ----------
        active : float64 array (n,)
            Cores busy meanwhile, NaN where nobody knows: such a row is taken as it is.
        components : Folds
            What folds corrected rows, and carries a component where rows were corrected too little.

        Notes
        -----
        Rows go in rounds: a round takes, of every component, the rows up to the end of its epoch, where the weighting model is
        copied just as it is after that row.
        """
        others = np.maximum(active - rows.cores, 0.0)
        known = ~np.isnan(others)
        places = np.full(len(others), NONE, np.int64)
        places[known] = self._places(rows.slots[known])
        x = rows.product()
        rest = np.arange(len(others))
        while len(rest):
            ordinal = self._ordinals(places[rest])
            ends = np.flatnonzero(ordinal == contention.epoch_ends(self.table, places[rest]))
            stops, now = rest[ends], np.ones(len(rest), np.bool_)
            if len(stops):
                first = np.full(len(components.table.records), len(others), np.int64)
                np.minimum.at(first, rows.slots[stops], stops)
                stops = stops[first[rows.slots[stops]] == stops]
                now = rest <= first[rows.slots[rest]]
            ready = rest[now]
            told, ordinal = ready[known[ready]], ordinal[now & known[rest]]
            elapsed = rows.elapsed_s.copy()
            if len(told):
                elapsed[told] /= contention.correction(self.table, places[told], others[told])
                some = told[contention.gathered(ordinal)]
                count = None if rows.count is None else rows.count[some]
                contention.gather(
                    self.table, places[some], x[some], rows.cores[some], rows.elapsed_s[some], others[some], count
                )
            components.fold_rows(rows.timed(elapsed).take(ready))
            for row in stops.tolist():
                self._end_epoch(components, int(rows.slots[row]), int(places[row]))
            rest = rest[~now]

    def _end_epoch(self, components: Folds, slot: int, place: int) -> None:
        """End a component's epoch; where its rows were corrected too little or too much, carry what they taught."""
        factor = contention.end_epoch(self.table, place)
        if factor != 1.0:
            components.carry(slot, factor)
        contention.begin_epoch(self.table, place, components.table.records[slot, weighting.FEATURES])

    def _ordinals(self, places: Ints) -> Ints:
        """Return the how many-th row of its component each row (n,) is, of those that told; 0 of the others."""
        told = np.flatnonzero(places != NONE)
        at = places[told]
        order = np.argsort(at, kind="stable")
        ordered = at[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=NONE))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
        found = np.zeros(len(places), np.int64)
        found[told[order]] = self.table.count("rows")[ordered] + rank + 1
        return found

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

    def free(self, slot: int) -> None:
        """Take a component's record away; its place serves the next one that is copied."""
        place = self.place(slot)
        if place != NONE:
            self.table.words[place] = self.table.empty_record()
            self.table.count("component")[place] = NONE
            self.table.changed[place] = True
            self._place[slot] = NONE

    def copy(self, other: Contentions, theirs: Ints, mine: Ints) -> None:
        """Take copies of the records of another's components `theirs` (n,) for ours, which have none. Cost O(n)."""
        wanted = theirs < len(other._place)
        wanted[wanted] = other._place[theirs[wanted]] != NONE
        if wanted.any():
            slots = mine[wanted]
            self._reserve(int(slots.max()) + 1)
            self._place[slots] = self.table.copy_from(other.table, other._place[theirs[wanted]], slots)

    def merge(self, theirs: Ints, mine: Ints, other: Contentions) -> None:
        """Add what another has of its components `theirs` (n,) to ours."""
        for there, slot in zip(theirs.tolist(), mine.tolist(), strict=True):
            place = other.place(there)
            if place != NONE:
                own = self.place(slot)
                contention.merge(self.table, self._give(slot) if own == NONE else own, other.table, place)

    def restore(self) -> None:
        """Find each component's record again, from what the records say."""
        owners = self.table.count("component")[: self.table.size]
        taken = np.flatnonzero(owners >= 0)
        self.table.size = int(taken[-1]) + 1 if len(taken) else 0
        self._place = np.full(int(owners.max(initial=NONE)) + 1, NONE, np.int64)
        self._place[owners[taken]] = taken
