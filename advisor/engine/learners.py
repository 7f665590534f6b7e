"""Which components have a learner's record, under a budget of bytes, and their solutions, kept until rows come.

A component is given a record with its first learned row as long as the budget lasts, in the order of first rows; the others
stay with the exact sums, and say so. A record is changed in the same fold, so the same commit, as the sums of its rows.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from advisor.models.fold import ABSENT, KERNELS, Room, room_of, solution_of
from advisor.models.layout import AT
from advisor.models.learner_layout import AXES_MAX, LANES, LEVELS, WIDTHS, LearnerTable
from advisor.models.table import Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MODEL_MEMORY_BYTES = 16 * 2**20  # by default: 5,000 components with one predictor; their sums are not counted in it
PROMOTIONS = "promotions"  # records given; with _refused behind it, those for which there was no room
SOLUTIONS_KEPT = (
    256  # of components that are asked for, 55 KB each; the oldest is dropped and solved again when asked for
)
ONE_CELL = ("one setting seen: how time depends on predictor and cores is assumed",)
ANY_MACHINE, OTHER_MACHINE = -1, 0  # whom a question is about: any of those seen, one that was not
ROWS, EXTRA_RUNS, UNFINISHED = (AT[name].start for name in ("rows", "extra_runs", "unfinished"))
NORMAL = NormalDist()
LEVEL_QUANTILES = [NORMAL.inv_cdf(0.5 + 0.5 * level) for level in LEVELS.tolist()]


def machine_number(name: str) -> int:
    """Return the number that stands for a machine's name in the state: 62 bits of its hash, the same everywhere."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 2


def reach_at(widths: Sequence[float], level: float) -> float:
    """Return the half-width, in standard deviations, of an interval that holds the share `level` of runs.

    Between the tracked levels, linear in the normal quantile; beyond the outer ones, in proportion to it.
    """
    wanted = NORMAL.inv_cdf(0.5 + 0.5 * level)
    ordered = np.maximum.accumulate(widths).tolist() if widths[0] > 0.0 else WIDTHS.tolist()
    for i in range(1, len(ordered)):
        if wanted <= LEVEL_QUANTILES[i] or i == len(ordered) - 1:
            low, high = LEVEL_QUANTILES[i - 1], LEVEL_QUANTILES[i]
            if wanted > high:
                return ordered[i] * wanted / high
            if wanted < low:
                return ordered[i - 1] * wanted / low
            return ordered[i - 1] + (ordered[i] - ordered[i - 1]) * (wanted - low) / (high - low)
    return ordered[-1]


class Solved(NamedTuple):
    """A record's solution, for questions.

    Attributes
    ----------
    rows : int
        Rows of the component when it was solved, unfinished ones with them.
    table, place
        Where the record is.
    solution : tuple of arrays
        See `advisor.models.process`.
    pin : int
        0, or 1 + the place of the model that it is held to.
    runs : int
        Learned runs, exactly.
    longest : float
        Seconds that a run was seen running, where no run that ended took so long; else 0.
    room : Room
        To ask in.
    reach : dict of float to float
        Half-widths of intervals, by level, as far as they were asked for.
    """

    rows: int
    table: LearnerTable
    place: int
    solution: tuple[Floats, Floats, Floats, Floats]
    notes: tuple[str, ...]
    pin: int
    runs: int
    longest: float
    room: Room
    reach: dict[float, tuple[float, float]]

    def reach_at(self, level: float) -> tuple[float, float]:
        """Return the half-width of an interval inside what was seen, and the least outside: that before any score."""
        found = self.reach.get(level)
        if found is None:
            tracked = self.table.floats("width")[self.place].tolist()
            found = self.reach[level] = reach_at(tracked, level), reach_at(WIDTHS.tolist(), level)
        return found

    def machine(self, name: str | None) -> int:
        """Return the place of a machine, ANY_MACHINE where none is named, OTHER_MACHINE for one that was not seen."""
        if name is None:
            return ANY_MACHINE
        known = self.table.integers("machine")[self.place].tolist()
        number = machine_number(name)
        return known.index(number) if number in known else OTHER_MACHINE


class Learners:
    """Records of components, by number of axes and kind, and where each component's is.

    Attributes
    ----------
    memory_bytes : int
        Budget of all records together.
    tables : dict of str to LearnerTable
        By name: ``learner-2`` for one predictor and the cores, ``learner-2-peak_bytes`` for what is measured beside time.
    """

    def __init__(self, memory_bytes: int, totals: Counter[str]) -> None:
        self.memory_bytes = memory_bytes
        self.totals = totals
        self.tables: dict[str, LearnerTable] = {}
        self._ordered: list[LearnerTable] = []
        # By base slot: the table of its record, as a number in the order above, and its place there.
        self._home: Ints = np.full(0, ABSENT, np.int64)
        self._place: Ints = np.full(0, ABSENT, np.int64)
        self._freed = False  # whether some table may have free places before its last
        self._rooms: dict[int, Room] = {}
        self._solved: OrderedDict[int, Solved] = OrderedDict()

    # -- records ----------------------------------------------------------------------------------------------------------

    def find(self, slot: int) -> tuple[LearnerTable, int] | None:
        """Return the table and place of a component's record, or None."""
        if slot >= len(self._place) or self._place[slot] == ABSENT:
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

    def table(self, axes: int, kind: str) -> LearnerTable:
        """Return the table of components over `axes` axes of a kind ("" for time), made where there is none."""
        name = f"learner-{axes}-{kind}" if kind else f"learner-{axes}"
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = LearnerTable(axes)
            self._ordered.append(found)
        return found

    def room(self, axes: int) -> Room:
        """Return the room in which records over `axes` axes are folded and asked."""
        found = self._rooms.get(axes)
        if found is None:
            found = self._rooms[axes] = room_of(axes)
        return found

    def promote(self, slot: int, axes: int, kind: str) -> bool:
        """Give a component a record; False when the budget does not allow it."""
        table = self.table(axes, kind)
        free: list[int] = np.flatnonzero(table.count("component")[: table.size] < 0).tolist() if self._freed else []
        if not free and self.used_bytes + table.words_a_record * 8 > self.memory_bytes:
            self.totals[f"{PROMOTIONS}_refused"] += 1
            return False
        place = free[0] if free else table.size
        table.grow(place + 1)
        table.count("component")[place] = slot
        table.changed[place] = True
        self._adopt(table, np.array([slot]), np.array([place]))
        self.totals[PROMOTIONS] += 1
        return True

    def _adopt(self, table: LearnerTable, slots: Ints, places: Ints) -> None:
        self._reserve(int(slots.max()) + 1)
        self._home[slots] = next(i for i, one in enumerate(self._ordered) if one is table)
        self._place[slots] = places

    def _reserve(self, slots: int) -> None:
        more = slots - len(self._place)
        if more > 0:
            more = max(more, len(self._place) // 8)
            self._home = np.concatenate([self._home, np.full(more, ABSENT, np.int64)])
            self._place = np.concatenate([self._place, np.full(more, ABSENT, np.int64)])

    def places(self, slots: Ints) -> Ints:
        """Return the places (n,) of components' records, ABSENT where they have none."""
        if not len(slots):
            return slots
        self._reserve(int(slots.max()) + 1)
        return self._place[slots]

    def ledger(self) -> dict[str, Any]:
        """Return the sums over all scored predictions of elapsed times. Cost O(records)."""
        tables = [table for name, table in self.tables.items() if name.count("-") == 1]
        found: dict[str, Any] = {
            field: sum(int(table.count(field)[: table.size].sum()) for table in tables)
            for field in ("scores", "covered")
        }
        for field in ("error", "bias"):
            found[field] = sum(float(table.column(field)[: table.size].sum()) for table in tables)
        return found

    # -- questions --------------------------------------------------------------------------------------------------------

    def solved(self, slot: int, base: Table) -> Solved | None:
        """Return the solution of a component, solved again only when rows came; None: no cells.

        Cost O(1), else O(cells**3): tens of microseconds compiled.
        """
        whole = base.records_whole[slot]
        rows = int(whole[ROWS]) + int(whole[UNFINISHED])
        found = self._solved.get(slot)
        if found is not None and found.rows == rows:
            return found
        record = self.find(slot)
        if record is None or not record[0].count("cells")[record[1]]:
            return None
        table, place = record
        arrays = solution_of(table.axes) if found is None or found.table is not table else found.solution
        room = self.room(table.axes)
        KERNELS.refresh_one(table.words, place, table.axes, arrays, room.scratch)
        notes = ONE_CELL if int(table.count("cells")[place]) == 1 else ()
        running = float(base["running_high"][slot])
        longest = running if running > table.floats("mean")[place].max() else 0.0
        if longest > 0.0:
            notes = (*notes, f"a run was still running after {longest:.3g} s, longer than any that ended")
        pin, runs = int(table.count("pin")[place]), int(whole[ROWS] + whole[EXTRA_RUNS])
        found = self._solved[slot] = Solved(rows, table, place, arrays, notes, pin, runs, longest, room, {})
        if len(self._solved) > SOLUTIONS_KEPT:
            self._solved.popitem(last=False)
        return found

    def drop(self) -> None:
        """Forget all solutions: components changed otherwise than by rows."""
        self._solved.clear()

    # -- changes ----------------------------------------------------------------------------------------------------------

    def forget(self, slot: int, keep: float) -> None:
        """Keep the share `keep` of a component's cells; at 0 the record begins anew, but for its pin."""
        found = self.find(slot)
        if found is None:
            return
        table, place = found
        if keep <= 0.0 or KERNELS.forget_cells(table.words, place, keep):
            kept = {field: int(table.count(field)[place]) for field in ("component", "pin")}
            table.words[place] = table.empty_record()
            for field, value in kept.items():
                table.count(field)[place] = value
        table.changed[place] = True

    def free(self, slot: int) -> None:
        """Take a component's record away; its place serves the next one."""
        found = self.find(slot)
        if found is not None:
            table, place = found
            table.words[place] = table.empty_record()
            table.changed[place] = True
            self._home[slot] = self._place[slot] = ABSENT
            self._freed = True
            while table.size and table.count("component")[table.size - 1] < 0:
                table.size -= 1
        self._solved.pop(slot, None)

    def copy(self, other: Learners, theirs: Ints, mine: Ints) -> None:
        """Take copies of the records of another's components `theirs` (n,) for ours, which have none, within the budget.

        Cost O(n): nothing is solved.
        """
        wanted = theirs < len(other._place)
        wanted[wanted] = other._place[theirs[wanted]] != ABSENT
        theirs, mine = theirs[wanted], mine[wanted]
        home, places = other._home[theirs], other._place[theirs]
        own = {n: self.table(t.axes, name.partition("-")[2].partition("-")[2])
               for n, (name, t) in enumerate(other.tables.items()) if (home == n).any()}  # fmt: skip
        cost = np.zeros(len(mine), np.int64)
        for number, table in own.items():  # a free place costs nothing
            free = int(np.count_nonzero(table.count("component")[: table.size] < 0))
            cost[np.flatnonzero(home == number)[free:]] = table.words_a_record * 8
        room = np.cumsum(cost) + self.used_bytes <= self.memory_bytes
        if not room.all():
            self.totals[f"{PROMOTIONS}_refused"] += int(np.count_nonzero(~room))
            self.totals[PROMOTIONS] -= int(np.count_nonzero(~room))  # the other's totals, which are added, count them
        for number, table in own.items():
            at = np.flatnonzero((home == number) & room)
            if len(at):
                self._adopt(table, mine[at], table.copy_from(other._ordered[number], places[at], mine[at]))

    def merge(self, places: Ints, slots: Ints, other: Learners, kinds: Sequence[str], axes: Ints) -> None:
        """Add another's records of its components `places` (n,), of the given kind and axes here, to ours at `slots`.

        A record that is new here is copied; cells of both are merged, and their settings chosen anew.
        """
        for there, slot, kind, width in zip(places.tolist(), slots.tolist(), kinds, axes.tolist(), strict=True):
            theirs = other.find(there)
            self.totals[PROMOTIONS] -= theirs is not None  # counted there, and no record more here, or counted anew
            if theirs is None or theirs[0].axes != width:
                continue
            table, place = theirs
            if self.find(slot) is None and not self.promote(slot, table.axes, kind):
                continue
            mine = self.find(slot)
            if mine is None:
                continue
            into, at = mine
            into.changed[at] = True
            if not into.count("cells")[at]:
                pin = int(into.count("pin")[at]) or int(table.count("pin")[place])
                into.words[at] = table.words[place]
                into.count("component")[at] = slot
                into.count("pin")[at] = pin
            elif table.count("cells")[place]:
                KERNELS.merge_cells_of(into.words, at, table.words, place, width)
                room = self.room(width)
                KERNELS.settle_one(into.words, at, width, room.solution, room.scratch)

    def restore(self) -> None:
        """Find each component's record again, from what the records say. A record that was lost is empty and nobody's."""
        for table in self._ordered:
            owners = table.count("component")[: table.size]
            taken = np.flatnonzero(owners >= 0)
            self._freed = self._freed or len(taken) < len(owners)
            table.size = int(taken[-1]) + 1 if len(taken) else 0  # a page holds places that were never given
            if len(taken):
                self._adopt(table, owners[taken], taken)
        self.drop()

    def owners(self) -> Iterator[tuple[LearnerTable, Ints]]:
        """Yield each table with records, and the base slots of those in the order of their places."""
        for table in self._ordered:
            owners = table.count("component")[: table.size]
            if (owners >= 0).any():
                yield table, owners[owners >= 0]


__all__ = ["ABSENT", "AXES_MAX", "LANES", "Learners", "Solved", "machine_number", "reach_at"]
