"""A batch of rows, or one of them, folded into the tables of components; bad rows are refused one by one.

A row is plain where nothing about it can be refused: its component is known and has one predictor, and its three numbers lie
in their domains. So it is answered when it is taken, and nothing of it is looked at again when it is folded: to fold a
hundred together costs little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.domain import limits
from advisor.domain.answers import Receipt, Refusals
from advisor.domain.observations import UNRESOLVED, Columns, bad_rows, refusals_of
from advisor.domain.vectors import Bools, Floats, Ints
from advisor.engine.components import Components
from advisor.engine.learners import ABSENT, machine_number
from advisor.engine.rows import SEPARATOR, cut_short, widths_of, with_internal_names
from advisor.engine.slots import MEASURE_SCALES
from advisor.models import contention
from advisor.models.fold import KERNELS
from advisor.models.layout import AT

ROWS = AT["rows"].start
DIMENSIONS = AT["dimensions"].start
PLAIN_ROWS_MAX = 1_024  # taken before they are folded; more would save nothing


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    """A batch of plain rows ``[component, predictor, cores, elapsed_s]``."""

    rows: list[
        tuple[
            str,
            Annotated[float, msgspec.Meta(ge=0.0, le=limits.PREDICTOR_MAX)],
            Annotated[float, msgspec.Meta(ge=limits.CORES_MIN, le=limits.CORES_MAX)],
            Annotated[float, msgspec.Meta(ge=limits.ELAPSED_MIN_S, le=limits.ELAPSED_MAX_S)],
        ]
    ]


class PlainRows:
    """Plain rows taken and not folded yet, in the order of their coming."""

    def __init__(self) -> None:
        self.count = 0  # rows that wait
        self._columns: tuple[list[Any], ...] = ([], [], [], [])  # of them: slots, predictors, cores, elapsed_s

    def append_plain_rows(self, components: Components, rows: Sequence[Any]) -> bool:
        """Take rows ``[component, predictor, cores, elapsed_s]``, all or none; False where one is not plain. Cost O(rows)."""
        try:
            names, *numbers = zip(*msgspec.convert((rows,), _Batch).rows, strict=True)
            slots = [*map(components.slots.by_name.__getitem__, names)]
        except (msgspec.ValidationError, KeyError):
            return False
        if SEPARATOR in "".join(names):
            return False
        if components.vectors and (components.table.records_whole[slots, DIMENSIONS] != 1).any():
            return False
        for column, values in zip(self._columns, (slots, *numbers), strict=True):
            column.extend(values)
        self.count += len(slots)
        return True

    def pop_columns(self, components: Components) -> Columns:
        """Return the rows in their order, numbered by their slots, and hold none. Cost O(rows)."""
        slots, *numbers = self._columns
        x, p, t = (np.array(values, np.float64) for values in numbers)
        self._columns, self.count = ([], [], [], []), 0
        return Columns(components.slots.as_numbered_names(), np.array(slots, np.int64), x, p, t)


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
    _learn(components, columns, columns.index, None)
    components.totals["rows_accepted"] += len(columns)


def _wrong_dimensions(components: Components, columns: Columns, slots: Ints, good: Bools | None) -> Bools:
    """Return the rows (n,) with another number of predictors than their component, which has that of its first good row."""
    wrong = np.zeros(len(slots), np.bool_)
    rows = np.arange(len(slots)) if good is None else np.flatnonzero(good)
    wrong[rows] = components.table.int_field("dimensions")[slots[rows]] != widths_of(columns, rows)
    return wrong


def _learn(components: Components, columns: Columns, slots: Ints, good: Bools | None) -> None:
    """Learn the good rows of components `slots` (n,)."""
    learned = good
    if columns.killed is not None:
        columns = _with_bounds(components, columns, slots, good)
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
    rows = replace(columns, index=slots)
    at = np.arange(len(slots)) if learned is None else np.flatnonzero(learned)
    batches = {"": (at, rows if learned is None else rows.select_rows(at))}
    for measure, values in columns.measures.items():
        batches[measure] = _of_measure(components, measure, rows, at[~np.isnan(values[at])])
    kinds = [*batches]
    for slot, batch in _first_rows(components.table.records_whole[:, ROWS], [*batches.values()]):
        if components.learners.find_record(slot) is None:
            components.learners.promote(slot, 1 + components.dimensions(slot), kinds[batch])
    for kind, (_, part) in batches.items():
        if len(part):
            _fold(components, part, kind)


def _first_rows(known: Ints, batches: Sequence[tuple[Ints, Columns]]) -> list[tuple[int, int]]:
    """Return (slot, batch) of the components that learn for the first time, in the order in which single rows would come.

    `known`: int64 array, rows learned so far, by slot. `batches`: rows numbered by slots, with their places.
    """
    found: list[tuple[int, int, int]] = []
    for batch, (at, rows) in enumerate(batches):
        new: NDArray[np.int64] = np.flatnonzero(known[rows.index] == 0)
        if len(new):
            slots, first = np.unique(rows.index[new], return_index=True)
            found += zip(at[new[first]].tolist(), [batch] * len(slots), slots.tolist(), strict=True)
    return [(slot, batch) for _, batch, slot in sorted(found)]


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


def _fold(components: Components, rows: Columns, kind: str) -> None:
    """Fold rows, numbered by slots, in their order into the sums and the records of their components. Cost O(n).

    Where they tell `active_cores`, NaN where nobody knows, they are folded as an idle machine would have run them.
    """
    homes, others = np.full(len(rows), ABSENT, np.int64), np.zeros(len(rows))
    if rows.active_cores is not None:
        others = np.maximum(rows.active_cores - rows.cores, 0.0)
        homes = _contentions_of(components, rows.index, ~np.isnan(others))
    axes = 1 + components.table.int_field("dimensions")[rows.index] if components.vectors else None
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


def _fold_alike(components: Components, rows: Columns, axes: int, kind: str, homes: Ints, others: Floats) -> None:
    """Fold rows of components over the same axes; `homes`: the places of their contentions, beside `others` busy cores."""
    n, learners = len(rows), components.learners
    if not KERNELS.ready:
        KERNELS.count(n)
    slots = _own(rows.index)
    points = _own(rows.predictor)[:, None]
    if axes > 2 and rows.further is not None:
        points = np.ascontiguousarray(np.concatenate([points, rows.further[:, : axes - 2]], axis=1))
    table, room = learners.table(axes, kind), learners.room(axes)
    places = learners.places_of_slots(slots)
    found, ratios = np.empty(n, np.int64), np.empty(n)
    count = np.ones(n) if rows.count is None else rows.count.astype(np.float64)
    machine = np.full(n, ABSENT, np.int64)
    if rows.machine is not None:
        machine = np.array([*map(machine_number, rows.machines), ABSENT], np.int64)[rows.machine]
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


def _of_measure(components: Components, measure: str, rows: Columns, at: Ints) -> tuple[Ints, Columns]:
    """Return what rows at places `at` have of one measure as the times of a component of their own, and their places."""
    distinct, inverse = np.unique(rows.index[at], return_inverse=True)
    found = [components.slots.of_measure(slot, measure) for slot in distinct.tolist()]
    slots = np.array([UNRESOLVED if slot is None else slot for slot in found], np.int64)[inverse]
    if (full := slots == UNRESOLVED).any():
        components.totals["measures_dropped"] += int(np.count_nonzero(full))
        at, slots = at[~full], slots[~full]
    times = rows.measures[measure][at] * MEASURE_SCALES[measure]
    np.maximum.at(components.table["running_high"], slots[times < 0.0], -times[times < 0.0])
    return at, replace(rows.select_rows(at), index=slots, elapsed_s=times, active_cores=None)


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
