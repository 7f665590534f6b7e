"""A batch of rows, or one of them, folded into the tables of components; bad rows are refused one by one.

A row is plain where nothing about it can be refused: its component is known and has one predictor, and its three numbers lie
in their domains. So it is answered when it is taken, and nothing of it is looked at again when it is folded: to fold a
hundred together costs little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.answers import Receipt, Refusals
from advisor.domain.observations import UNRESOLVED, Columns, bad_rows, refusals_of
from advisor.domain.vectors import Bools, Floats, Ints
from advisor.engine.components import Components
from advisor.engine.learners import ABSENT, machine_number
from advisor.engine.rows import SEPARATOR, Rows, cut_short, first_rows, widths_of, with_internal_names
from advisor.engine.slots import MEASURE_SCALES
from advisor.models import contention
from advisor.models.fold import KERNELS
from advisor.models.layout import AT

DIMENSIONS, ROWS = AT["dimensions"].start, AT["rows"].start
PLAIN_ROWS_MAX = 1_024  # taken before they are folded; more would save nothing
FEW_ROWS = 8  # plain rows that are folded one by one: 3 microseconds each, where a fold of columns begins at 25
ARRAY_ROWS = 32  # a batch of so many rows is looked at as columns: arrays of fewer cost more than a loop
_X, _P_LOW, _P_HIGH = limits.PREDICTOR_MAX, limits.CORES_MIN, limits.CORES_MAX
_T_LOW, _T_HIGH = limits.ELAPSED_MIN_S, limits.ELAPSED_MAX_S
_NUMBERS = frozenset((int, float))


class PlainRows:
    """Plain rows taken and not folded yet, in the order of their coming."""

    def __init__(self, components: Components) -> None:
        self.components = components  # whose slots they are
        self.count = 0  # rows that wait
        self._rows: list[tuple[int, float, float, float]] = []  # the last of them: (slot, predictor, cores, elapsed_s)
        self._parts: list[tuple[Ints, Floats, Floats, Floats]] = []  # those before, as columns
        self._find_components_anew()

    def append_plain_rows(self, rows: Sequence[Any]) -> bool:
        """Take rows ``[component, predictor, cores, elapsed_s]``, all or none; False where one is not plain. Cost O(rows)."""
        if self._renames != self.components.slots.renames:
            self._find_components_anew()
        if len(rows) >= ARRAY_ROWS:
            return self._append_as_columns(rows)
        slots, taken = self._slots, self._rows
        before = len(taken)
        try:
            for component, x, p, t in rows:
                slot = slots.get(component)
                if slot is None:
                    slot = self._slot_of_plain(component)
                numbers = type(x) in _NUMBERS and type(p) in _NUMBERS and type(t) in _NUMBERS
                if not (numbers and 0.0 <= x <= _X and _P_LOW <= p <= _P_HIGH and _T_LOW <= t <= _T_HIGH):
                    break
                taken.append((slot, x, p, t))
            else:
                self.count += len(rows)
                return True
        except (TypeError, ValueError, KeyError):  # no row of four, no name, no such component
            pass
        del taken[before:]
        return False

    def _append_as_columns(self, rows: Sequence[Any]) -> bool:
        try:
            names, x, p, t = zip(*rows, strict=True)
            for name in set(names).difference(self._slots):
                self._slot_of_plain(name)
            if not _NUMBERS.issuperset(map(type, chain(x, p, t))):
                return False
            slots = np.fromiter(map(self._slots.__getitem__, names), np.int64, len(rows))
            return self._append_arrays(slots, *np.array((x, p, t), np.float64))
        except (TypeError, ValueError, KeyError, OverflowError):  # as above; an integer that no float holds
            return False

    def _append_arrays(self, slots: Ints, x: Floats, p: Floats, t: Floats) -> bool:
        # min and max find NaN as well: a comparison with NaN is False.
        if not (x.min() >= 0.0 and x.max() <= _X and p.min() >= _P_LOW and p.max() <= _P_HIGH):
            return False
        if not (t.min() >= _T_LOW and t.max() <= _T_HIGH):
            return False
        if self._rows:
            self._close_part()
        self._parts.append((slots, x, p, t))
        self.count += len(slots)
        return True

    def _close_part(self) -> None:
        """Let the rows that wait be columns."""
        table = np.fromiter(chain.from_iterable(self._rows), np.float64, 4 * len(self._rows)).reshape(-1, 4)
        slots, x, p, t = np.ascontiguousarray(table.T)
        self._parts.append((slots.astype(np.int64), x, p, t))
        self._rows.clear()

    def _slot_of_plain(self, component: Any) -> int:
        """Return the slot of a component that has one predictor; KeyError for all else."""
        slot = self.components.slots.by_name[component]
        if SEPARATOR in component or self.components.table.records_whole[slot, DIMENSIONS] != 1:
            raise KeyError(component)
        self._slots[component] = slot
        return slot

    def pop_columns(self) -> Columns:
        """Return the rows in their order, numbered by their slots, and hold none. Cost O(rows)."""
        if self._rows:
            self._close_part()
        parts = self._parts
        index, x, p, t = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        self._parts, self.count = [], 0
        return Columns(self.components.slots.as_numbered_names(), index, x, p, t)

    def _find_components_anew(self) -> None:
        """Forget what components are: one may have got another number of predictors, or another one's slot."""
        self._slots: dict[str, int] = {}  # of components found to have one predictor
        self._renames = self.components.slots.renames


def learn_columns(components: Components, columns: Columns) -> Receipt:
    """Learn the good rows of a batch, count the others. Cost O(rows); constant space a component."""
    bad = bad_rows(columns)
    good = ~np.logical_or.reduce(list(bad.values())) if bad else None
    entered = with_internal_names(columns)
    slots, full = _resolve(components, entered, good)
    if full is not None:
        bad["too_many_components"] = full
        good = ~full if good is None else good & ~full
    if columns.further is not None or components.vectors:
        wrong = _wrong_dimensions(components, columns, slots, good)
        if wrong.any():
            bad["invalid_dimensions"] = wrong
            good = ~wrong if good is None else good & ~wrong
    refused = refusals_of(bad, columns) if bad else Refusals()
    accepted = len(columns) - refused.count
    _learn(components, entered, slots, good)
    cut = cut_short(columns)  # for the flow of records they have failed: others may repeat them
    components.flows.count_flow_rows(
        columns if cut is None else replace(columns, ok=~cut if columns.ok is None else columns.ok & ~cut), bad
    )
    components.totals["rows_accepted"] += accepted
    if refused.count:
        components.totals["rows_refused"] += refused.count
        components.totals.update({f"refused.{code}": n for code, n in refused.by_code.items()})
    return Receipt(accepted, refused)


def fold_plain_rows(components: Components, columns: Columns) -> None:
    """Learn plain rows, numbered by their slots: as `learn_columns` does."""
    slots = columns.index
    if len(slots) <= FEW_ROWS:
        for slot, x, p, t in zip(
            slots.tolist(), columns.predictor.tolist(), columns.cores.tolist(), columns.elapsed_s.tolist(), strict=True
        ):
            fold_one(components, slot, (x, p), t, 1)
        return
    rows = Rows(np.arange(len(slots)), slots, columns.predictor, None, columns.cores, columns.elapsed_s, None, None)
    known = components.table.records_whole[:, ROWS]
    if not known[slots].all():
        for slot, _ in first_rows(known, [rows]):
            if components.learners.find_record(slot) is None:
                components.learners.promote(slot, 2, "")
    _fold(components, rows, "", None)
    components.totals["rows_accepted"] += len(slots)


def _wrong_dimensions(components: Components, columns: Columns, slots: Ints, good: Bools | None) -> Bools:
    """Return the rows (n,) with another number of predictors than their component, which has that of its first good row."""
    wrong = np.zeros(len(slots), np.bool_)
    rows = np.arange(len(slots)) if good is None else np.flatnonzero(good)
    wrong[rows] = components.table.int_field("dimensions")[slots[rows]] != widths_of(columns, rows)
    return wrong


def _learn(components: Components, columns: Columns, slots: Ints, good: Bools | None) -> None:
    """Learn the good rows of components `slots` (n,)."""
    columns, learned = _with_bounds(components, columns, slots, good), good
    for field, counted, mark in (("failed", columns.ok, False), ("unfinished", columns.running, True)):
        if counted is None:
            continue
        rows = counted == mark if learned is None else (counted == mark) & learned
        if rows.any():
            np.add.at(components.table.int_field(field), slots[rows], 1)
            if field == "unfinished":
                np.maximum.at(components.table["running_high"], slots[rows], columns.elapsed_s[rows])
            components.totals[f"rows_{field}"] += int(np.count_nonzero(rows))
            learned = ~rows if learned is None else learned & ~rows
    rows = Rows(
        np.arange(len(slots)), slots, columns.predictor, columns.further, columns.cores, columns.elapsed_s,
        columns.count, _machines(columns),
    )  # fmt: skip
    batches = {"": rows if learned is None else rows.select_rows(learned)}
    for measure, values in columns.measures.items():
        given = ~np.isnan(values) if learned is None else learned & ~np.isnan(values)
        batches[measure] = _of_measure(components, measure, values, rows.select_rows(given), given)
    kinds = [*batches]
    for slot, batch in first_rows(components.table.int_field("rows"), [*batches.values()]):
        if components.learners.find_record(slot) is None:
            components.learners.promote(slot, 1 + components.dimensions(slot), kinds[batch])
    for kind, part in batches.items():
        if len(part.slots):
            active = None if kind else columns.active_cores
            _fold(components, part, kind, None if active is None else active[part.at])


def _with_bounds(components: Components, columns: Columns, slots: Ints, good: Bools | None) -> Columns:
    """Return columns with the times and measures of killed runs negative, as kernels take lower bounds; note the largest."""
    cut = cut_short(columns)
    if cut is None:
        return columns
    bounds = cut if good is None else cut & good
    np.maximum.at(components.table["running_high"], slots[bounds], columns.elapsed_s[bounds])
    if bounds.any():
        components.totals["rows_killed"] += int(np.count_nonzero(bounds))
    return replace(
        columns,
        elapsed_s=np.where(cut, -columns.elapsed_s, columns.elapsed_s),
        measures={name: np.where(cut, -values, values) for name, values in columns.measures.items()},
        ok=None if columns.ok is None else columns.ok | cut,
        running=None if columns.running is None else columns.running & ~cut,
        active_cores=None if columns.active_cores is None else np.where(cut, np.nan, columns.active_cores),
        killed=None,
    )


def _fold(components: Components, rows: Rows, kind: str, active: Floats | None) -> None:
    """Fold rows in their order into the sums and the records of their components. Cost O(n).

    Where they tell `active_cores`, NaN where nobody knows, they are folded as an idle machine would have run them.
    """
    homes, others = np.full(len(rows.slots), ABSENT, np.int64), np.zeros(len(rows.slots))
    if active is not None:
        others = np.maximum(active - rows.cores, 0.0)
        homes = _contentions_of(components, rows.slots, ~np.isnan(others))
    axes = 1 + components.table.int_field("dimensions")[rows.slots] if components.vectors else None
    for width in (2,) if axes is None else np.unique(axes).tolist():
        part: Any = slice(None) if axes is None else axes == width
        alike = rows if axes is None or part.all() else rows.select_rows(part)
        _fold_alike(components, alike, int(width), kind, homes[part], others[part])


def _contentions_of(components: Components, slots: Ints, known: Bools) -> Ints:
    """Return the place (n,) of each row's contention, given in the order of the rows; ABSENT where nothing is known."""
    places = components.contentions.places_of_slots(slots)
    new, first = np.unique(slots[known & (places == ABSENT)], return_index=True)
    for slot in new[np.argsort(first)].tolist():
        components.contentions.give(slot, components.contentions.named(contention.NAME))
    return np.where(known, components.contentions.places_of_slots(slots), ABSENT)


def _fold_alike(components: Components, rows: Rows, axes: int, kind: str, homes: Ints, others: Floats) -> None:
    """Fold rows of components over the same axes; `homes`: the places of their contentions, beside `others` busy cores."""
    n, learners = len(rows.slots), components.learners
    if not KERNELS.ready:
        KERNELS.count(n)
    slots = _own(rows.slots)
    points = _own(rows.predictor)[:, None] if axes == 2 else rows.predictors(axes - 1)
    table, room = learners.table(axes, kind), learners.room(axes)
    places = learners.places_of_slots(slots)
    found, ratios = np.empty(n, np.int64), np.empty(n)
    count = np.ones(n) if rows.count is None else rows.count.astype(np.float64)
    machine = np.full(n, ABSENT, np.int64) if rows.machine is None else rows.machine
    given = (
        components.table.records, slots, table.words, places, axes, points, _own(rows.cores), _own(rows.elapsed_s), count,
        _own(machine), components.contentions.named(contention.NAME).words, homes, others,
    )  # fmt: skip
    changes = KERNELS.fold_rows(*given, *room, found, ratios)
    if changes:
        components.totals["changes"] += int(changes)


def fold_one(components: Components, slot: int, point: Sequence[float], t: float, count: int) -> bool:
    """Fold one run of a known component on no named machine, all of whose values are checked: what `fold` does, in numbers.

    `point`: the predictor, then cores. Returns False, and does nothing, where the component has several predictors.
    """
    if components.table.records_whole[slot, DIMENSIONS] != 1:
        return False
    learners, axes = components.learners, len(point)
    record = learners.find_record(slot)
    if record is None and not components.table.int_field("rows")[slot]:
        learners.promote(slot, axes, "")
        record = learners.find_record(slot)
    table, place = (learners.table(axes, ""), ABSENT) if record is None else record
    room = learners.room(axes)
    for axis, value in enumerate(point):
        room.point[axis] = value
    ratio = KERNELS.fold_one(
        components.table.records, slot, table.words, place, axes, room.point, t, float(count), ABSENT,
        room.solution, room.scratch, room.out,
    )  # fmt: skip
    components.totals["rows_accepted"] += 1
    if ratio != 0.0:
        components.totals["changes"] += 1
    return True


def _of_measure(components: Components, measure: str, values: Floats, rows: Rows, given: Bools) -> Rows:
    """Return the values of one measure as the times of a component of their own."""
    distinct, inverse = np.unique(rows.slots, return_inverse=True)
    found = [components.slots.of_measure(slot, measure) for slot in distinct.tolist()]
    slots = np.array([UNRESOLVED if slot is None else slot for slot in found], np.int64)[inverse]
    rows = replace(rows, slots=slots, elapsed_s=values[given] * MEASURE_SCALES[measure])
    bounds = (slots != UNRESOLVED) & (rows.elapsed_s < 0.0)
    np.maximum.at(components.table["running_high"], slots[bounds], -rows.elapsed_s[bounds])
    full = slots == UNRESOLVED
    if full.any():
        components.totals["measures_dropped"] += int(np.count_nonzero(full))
        rows = rows.select_rows(~full)
    return rows


def _machines(columns: Columns) -> Ints | None:
    """Return the machines' numbers of the state (n,), -1 where none is named."""
    if columns.machine is None:
        return None
    numbers = np.array([*map(machine_number, columns.machines), UNRESOLVED], np.int64)
    return numbers[columns.machine]


def _resolve(components: Components, columns: Columns, good: Bools | None) -> tuple[Ints, Bools | None]:
    """Return the slot of each row, and the mask of rows whose component finds no room (None when all do)."""
    slots = components.slots.among(columns.components, columns.index)
    missing = slots == UNRESOLVED
    if not (columns.measures or missing.any()):
        return slots, None
    if good is not None:
        missing &= good
    if missing.any() or columns.measures:
        _begin(components, columns, components.slots.give(columns, missing, good))
        slots = columns.components.slots_of(components.slots.generation)[columns.index]
    full = slots == UNRESOLVED
    if good is not None:
        full &= good
    return slots, full if full.any() else None


def _begin(components: Components, columns: Columns, began: Mapping[int, int]) -> None:
    """Give new slots, each with its first row, their number of predictors; measures have that of their component."""
    table, slots = components.table, components.slots
    table.grow(len(slots), slots.components_max)
    dimensions, given = table.int_field("dimensions"), list(began)
    dimensions[given] = widths_of(columns, list(began.values()))
    for slot in given if slots.hidden else ():
        if slots.kind(slot):
            dimensions[slot] = dimensions[slots.by_name[slots.names[slot].rpartition(SEPARATOR)[0]]]
    components.vectors = components.vectors or bool((dimensions[given] > 1).any())


def _own(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column as kernels take it: contiguous, and writeable, which a view of a message's bytes is not."""
    return column if column.flags.writeable and column.flags.c_contiguous else column.copy()
