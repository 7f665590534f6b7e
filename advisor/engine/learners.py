"""Which components have a learner's record, under a budget of bytes, and their solutions, kept until rows come.

A component is given a record with its first learned row as long as the budget lasts, in the order of first rows; the others
stay with the exact sums, and say so. A record is changed in the same fold, so the same commit, as the sums of its rows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from advisor.domain.vectors import Bools, Floats, Ints
from advisor.engine.cache import Cache
from advisor.engine.records_by_slot import RecordsBySlot
from advisor.models.asked_points import QuestionRoom, room_of, solution_of
from advisor.models.cells import COUNT
from advisor.models.fold import ABSENT, KERNELS
from advisor.models.layout import AT
from advisor.models.learner_layout import AT as PLACES
from advisor.models.learner_layout import AXES_MAX, CELLS, LANES, LEVELS, WIDTHS, LearnerTable
from advisor.models.siblings import YIELDED, Leaning
from advisor.models.table import Table

MODEL_MEMORY_BYTES = 64 * 2**20  # by default: 16,000 components with one predictor; their sums are not counted in it
PROMOTIONS = "promotions"  # records given; with _refused behind it, those for which there was no room
# SOLUTIONS_CACHED: of components that are asked for, 55 KB each; the oldest is dropped and solved again when asked for
SOLUTIONS_CACHED = 256
KILLED = "a killed run had used more than any that ended"  # of memory
ONE_CELL = ("one setting seen: how time depends on predictor and cores is assumed",)
ANY_MACHINE, OTHER_MACHINE = -1, 0  # whom a question is about: any of those seen, one that was not
ROWS, EXTRA_RUNS, UNFINISHED, RUNNING_HIGH = (
    AT[name].start for name in ("rows", "extra_runs", "unfinished", "running_high")
)
PIN, WIDTH = PLACES["pin"], slice(PLACES["width"], PLACES["width"] + LANES)
NORMAL = NormalDist()
BEFORE_SCORES: list[float] = WIDTHS.tolist()
LEVEL_QUANTILES = [NORMAL.inv_cdf(0.5 + 0.5 * level) for level in LEVELS.tolist()]


def machine_number(name: str) -> int:
    """Return the number that stands for a machine's name in the state: 62 bits of its hash, the same everywhere."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 2


def reach_at(widths: Sequence[float], level: float) -> float:
    """Return the half-width, in standard deviations, of an interval that holds the share `level` of runs.

    Between the tracked levels, linear in the normal quantile; beyond the outer ones, in proportion to it.
    """
    wanted, i = _among_levels(level)
    ordered = [*accumulate(widths if widths[0] > 0.0 else BEFORE_SCORES, max)]
    low, high = LEVEL_QUANTILES[i - 1], LEVEL_QUANTILES[i]
    if wanted > high:
        return ordered[i] * wanted / high
    if wanted < low:
        return ordered[i - 1] * wanted / low
    return ordered[i - 1] + (ordered[i] - ordered[i - 1]) * (wanted - low) / (high - low)


@lru_cache(64)
def _among_levels(level: float) -> tuple[float, int]:
    """Return the normal quantile of an interval's upper end, and the first tracked level that is above it, as a place."""
    wanted = NORMAL.inv_cdf(0.5 + 0.5 * level)
    return wanted, min(max(bisect_left(LEVEL_QUANTILES, wanted), 1), len(LEVEL_QUANTILES) - 1)


class Solved(NamedTuple):
    """A record's solution, for questions."""

    rows: int  # rows of the component when it was solved, unfinished ones with them
    # table, place: where the record is
    table: LearnerTable
    place: int
    solution: tuple[Floats, Floats, Floats, Floats]  # tuple of arrays: see `advisor.models.process`
    notes: tuple[str, ...]
    pin: int  # 0, or 1 + the place of the model that it is held to
    runs: int  # learned runs, exactly
    longest: float  # seconds that a run was seen running, where no run that ended took so long; else 0
    room: QuestionRoom  # to ask in
    reach: dict[float, tuple[float, float]]  # half-widths of intervals, by level, as far as they were asked for
    leaning: Leaning | None = None  # what its first rows lean on

    @property
    def noise(self) -> float:
        """Variance of ln t of a run."""
        return KERNELS.noise_of(self.table.words, self.place)

    def reach_at(self, level: float) -> tuple[float, float]:
        """Return the half-width of an interval inside what was seen, and the least outside: that before any score."""
        found = self.reach.get(level)
        if found is None:
            tracked = self.table.words[self.place, WIDTH].tolist()
            found = self.reach[level] = reach_at(tracked, level), reach_at(BEFORE_SCORES, level)
        return found

    def machine(self, name: str | None) -> int:
        """Return the place of a machine, ANY_MACHINE where none is named, OTHER_MACHINE for one that was not seen."""
        if name is None:
            return ANY_MACHINE
        known = self.table.integers("machine")[self.place].tolist()
        number = machine_number(name)
        return known.index(number) if number in known else OTHER_MACHINE

    def answers(
        self, predictors: Floats, cores: Floats, level: float, machine: int
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (elapsed, low, high, octaves outside), each (n,), at predictors (n, d) and cores (n,)."""
        out = np.empty((len(cores), 4))
        KERNELS.answer_points(
            *self._at(predictors, cores), machine, *self.reach_at(level), self.longest, self.solution, self.room.scratch,
            self.room.point, out,
        )  # fmt: skip
        value, low, high, outside = out.T
        return value, low, high, outside

    def curve(self, predictors: Floats, cores: Floats) -> Floats:
        """Return mean and variance (n, 2) of ln t at predictors (n, d) and cores (n,), on any machine."""
        out = np.empty((len(cores), 2))
        KERNELS.predict_points(
            *self._at(predictors, cores), ANY_MACHINE, True, self.solution, self.room.scratch, self.room.point, out
        )
        return out

    def covariance(self, one: tuple[Floats, Floats], two: tuple[Floats, Floats]) -> Floats:
        """Return the covariances (n, m) of ln t's mean at two sets of predictors and cores. Cost O((n + m) cells**2)."""
        n, m = len(one[1]), len(two[1])
        out, white = np.empty((n, m)), np.empty((n + m, CELLS, LANES))
        KERNELS.cross_covariance(
            *self._at(*one), *self._at(*two)[3:], self.solution, self.room.scratch, self.room.point, white, out
        )
        return out

    def _at(self, predictors: Floats, cores: Floats) -> tuple[Floats, int, int, Floats, Floats]:
        """Return where the record is, and points as kernels take them."""
        points = np.array(predictors, np.float64, order="C"), np.array(cores, np.float64)
        return self.table.words, self.place, self.table.axes, *points


class Learners(RecordsBySlot[LearnerTable]):
    """Records of components, by number of axes and kind, under a budget.

    Tables are ``learner-2`` for one predictor and the cores, ``learner-2-peak_bytes`` for what is measured beside time.
    """

    def __init__(self, memory_bytes: int, totals: Counter[str]) -> None:
        super().__init__(lambda name: LearnerTable(int(name.split("-")[1])))
        self.memory_bytes = memory_bytes  # budget of all records together
        self.totals = totals
        self._rooms: dict[int, QuestionRoom] = {}
        self._solved = Cache[Solved](SOLUTIONS_CACHED)
        self.forgotten = 0  # how often all solutions were forgotten
        self.leaning_of: Callable[[int], Leaning | None] = lambda _: None  # what a slot's first rows lean on

    # -- records ----------------------------------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """Bytes of the records in use, which the budget bounds."""
        return sum(table.size * table.words_a_record * 8 for table in self.tables.values())

    def table(self, axes: int, kind: str) -> LearnerTable:
        """Return the table of components over `axes` axes of a kind ("" for time), made where there is none."""
        return self.named(f"learner-{axes}-{kind}" if kind else f"learner-{axes}")

    def room(self, axes: int) -> QuestionRoom:
        """Return the room in which records over `axes` axes are folded and asked."""
        found = self._rooms.get(axes)
        if found is None:
            found = self._rooms[axes] = room_of(axes)
        return found

    def promote(self, slot: int, axes: int, kind: str) -> bool:
        """Give a component a record; False when the budget does not allow it."""
        table = self.table(axes, kind)
        if not self.free_places(table) and self.used_bytes + table.words_a_record * 8 > self.memory_bytes:
            self.totals[f"{PROMOTIONS}_refused"] += 1
            return False
        self.give(slot, table)
        self.totals[PROMOTIONS] += 1
        return True

    def ledger(self) -> dict[str, Any]:
        """Return the sums over all scored predictions of elapsed times. Cost O(records)."""
        tables = [table for name, table in self.tables.items() if name.count("-") == 1]
        found: dict[str, Any] = {
            field: sum(int(table.int_field(field)[: table.size].sum()) for table in tables)
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
        leaning = None if rows >= YIELDED else self.leaning_of(slot)
        if found is not None and found.rows == rows and found.leaning == leaning:
            return found
        record = self.find_record(slot)
        if record is None:
            return None
        table, place = record
        words = table.words[place]
        cells = words.view(np.int64)[COUNT]
        if not cells:
            return None
        arrays = solution_of(table.axes) if found is None or found.table is not table else found.solution
        room = self.room(table.axes)
        if leaning is None:
            KERNELS.refresh_one(table.words, place, table.axes, arrays, room.scratch)
        else:
            slopes = np.array(leaning.slopes)
            KERNELS.refresh_leaning(table.words, place, table.axes, slopes, arrays, room.scratch)
        notes = ONE_CELL if cells == 1 else ()
        notes = notes if leaning is None else (leaning.note,)
        running = float(base.records[slot, RUNNING_HIGH])
        longest = running if running > 0.0 and running > words[table.at["mean"]].max() else 0.0
        if longest > 0.0:
            of_time = table is self.tables.get(f"learner-{table.axes}")
            known = f"a run was still running after {longest:.3g} s, longer than any that ended" if of_time else KILLED
            notes = (*notes, known)
        pin, runs = int(words.view(np.int64)[PIN]), int(whole[ROWS] + whole[EXTRA_RUNS])
        found = self._solved[slot] = Solved(rows, table, place, arrays, notes, pin, runs, longest, room, {}, leaning)
        if len(self._solved) > SOLUTIONS_CACHED:
            self._solved.trim()
        return found

    def clear_solutions(self) -> None:
        """Forget all solutions: components changed otherwise than by rows."""
        self._solved.clear()
        self.forgotten += 1

    # -- changes ----------------------------------------------------------------------------------------------------------

    def forget(self, slot: int) -> None:
        """Let a component's record begin anew, but for its pin."""
        found = self.find_record(slot)
        if found is not None:
            table, place = found
            kept = {field: int(table.int_field(field)[place]) for field in ("component", "pin")}
            table.words[place] = table.empty_record()
            for field, value in kept.items():
                table.int_field(field)[place] = value

    def free(self, slot: int) -> None:
        """Take a component's record away; its place serves the next one."""
        super().free(slot)
        self._solved.pop(slot, None)

    def _room_for(self, home: Ints, own: Mapping[int, LearnerTable]) -> Bools:
        """Return which records the budget allows; a free place costs nothing."""
        cost = np.zeros(len(home), np.int64)
        for number, table in own.items():
            cost[np.flatnonzero(home == number)[len(self.free_places(table)) :]] = table.words_a_record * 8
        room = np.cumsum(cost) + self.used_bytes <= self.memory_bytes
        refused = int(np.count_nonzero(~room))
        if refused:
            self.totals[f"{PROMOTIONS}_refused"] += refused
            self.totals[PROMOTIONS] -= refused  # the other's totals, which are added, count them
        return room

    def merge(self, places: Ints, slots: Ints, other: Learners, kinds: Sequence[str], axes: Ints) -> None:
        """Add another's records of its components `places` (n,), of the given kind and axes here, to ours at `slots`.

        A record that is new here is copied; cells of both are merged, and their settings chosen anew.
        """
        for there, slot, kind, width in zip(places.tolist(), slots.tolist(), kinds, axes.tolist(), strict=True):
            theirs = other.find_record(there)
            self.totals[PROMOTIONS] -= theirs is not None  # counted there, and no record more here, or counted anew
            if theirs is None or theirs[0].axes != width:
                continue
            table, place = theirs
            if self.find_record(slot) is None and not self.promote(slot, table.axes, kind):
                continue
            mine = self.find_record(slot)
            if mine is None:
                continue
            into, at = mine
            if not into.int_field("cells")[at]:
                pin = int(into.int_field("pin")[at]) or int(table.int_field("pin")[place])
                into.words[at] = table.words[place]
                into.int_field("component")[at] = slot
                into.int_field("pin")[at] = pin
            elif table.int_field("cells")[place]:
                KERNELS.merge_cells_of(into.words, at, table.words, place, width)
                room = self.room(width)
                KERNELS.settle_one(into.words, at, width, room.solution, room.scratch)

    def restore(self) -> None:
        """Find each component's record again, from what the records say."""
        super().restore()
        self.clear_solutions()


__all__ = ["ABSENT", "AXES_MAX", "LANES", "Learners", "Solved", "machine_number", "reach_at"]
