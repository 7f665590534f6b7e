"""The components that an engine knows: names, slots and the table of what they have learned."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from heapq import heappop, heappush
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.answers import Receipt, Refusals
from advisor.domain.names import checked_name
from advisor.domain.observations import (
    UNRESOLVED,
    Bools,
    Columns,
    ComponentNames,
    Floats,
    Ints,
    bad_rows,
    refusals_of,
)
from advisor.engine import widths
from advisor.engine.flows import Flows
from advisor.engine.learners import ABSENT, MODEL_MEMORY_BYTES, Learners, machine_number
from advisor.engine.records_by_slot import RecordsBySlot
from advisor.engine.rows import Rows, ended_well, first_rows, widths_of
from advisor.errors import InvalidValue, NotEnoughData, TooLarge, UnknownComponent
from advisor.models import contention
from advisor.models.contention import Contention
from advisor.models.fold import KERNELS
from advisor.models.layout import empty_record
from advisor.models.learner_layout import SETTLED_EVERY
from advisor.models.records import RecordTable
from advisor.models.table import Table

# What is learned beside time goes through the same tables as a component of its own, whose name nobody can send: no name may
# hold a control character. Values are scaled, by powers of two, into the domain of elapsed times.
SEPARATOR = "\x1f"
MEASURE_SCALES: Mapping[str, float] = {"peak_bytes": 2.0**-30, "energy_j": 2.0**-20}
TIME = "elapsed_s"
EVIDENCE_LEAST = 1e-6  # rows: a component left with fewer when it forgets, forgets all, for sums that underflow lie
NAMES_SCANNED, NAMES_COMPARED = 10_000, 200  # for one that is not known: some milliseconds
NAMES_TOLD = 3
# EVENTS_KEPT: latest changes, promotions and pins, for the log: a reader that is slower misses some, and the counts tell
EVENTS_KEPT = 256


@dataclass(frozen=True, slots=True)
class ModelEvent:
    """Something that happened to a component's model, and why: for the log."""

    kind: str
    component: str
    rows: int
    reason: str


class Components:
    """Names to slots, and the base table. Slots are given once, in the order of first accepted rows."""

    def __init__(self, components_max: int, model_memory_bytes: int = MODEL_MEMORY_BYTES) -> None:
        self.components_max = components_max
        self.names: list[str] = []
        self.slot_of: dict[str, int] = {}
        self.measures = 0  # slots of what is learned beside time, and free ones
        self.free: list[int] = []  # slots whose components were dropped, a heap: the least serves the next new name
        self.renamed: dict[int, None] = {}  # slots that got another name, or a free one's: since somebody took note
        self.dropped: dict[str, None] = {}  # names of those that are no more: since somebody took note
        self.renames = 0  # how often a slot got another name
        self.era = object()  # a list of names resolved before another one began is resolved anew
        self.vectors = False  # whether some component has more than one predictor
        self.forgotten = False  # whether some was wholly forgotten: its next row sets its number of predictors
        self.table = Table()
        # exact counts over all components: `rows_accepted`, `rows_refused`, `refused.CODE`, `rows_failed`,
        # `rows_unfinished`, `carried.FIELD`, `forgets`; and what the engine counts of its producers:
        # `batches_replayed`, `gaps`, `producers_resumed`. They never go back.
        self.totals: Counter[str] = Counter()
        self.learners = Learners(model_memory_bytes, self.totals)
        self.contentions = RecordsBySlot(lambda _: RecordTable(contention.FIELDS, contention.LAYOUT))
        self.flows = Flows(self.totals)
        self.events: deque[ModelEvent] = deque(maxlen=EVENTS_KEPT)

    def __len__(self) -> int:
        """Return how many slots are taken: components, and their measures."""
        return len(self.names)

    @property
    def components(self) -> list[str]:
        """Names of the components, without what is learned of them beside time."""
        return [name for name in self.names if SEPARATOR not in name] if self.measures else self.names

    @property
    def records(self) -> dict[str, RecordTable]:
        """Tables of records beside the base table, by name."""
        return {**self.learners.tables, contention.NAME: self.contentions.named(contention.NAME)}

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return self.table.bytes + self.learners.bytes + self.contentions.bytes

    def kind(self, slot: int) -> str:
        """Return what a slot learns: a measure, or "" for elapsed times."""
        return self.names[slot].partition(SEPARATOR)[2]

    def dimensions(self, slot: int) -> int:
        """Return how many values a component's predictors have: those of its first accepted row."""
        return max(int(self.table.count("dimensions")[slot]) & widths.WIDTH, 1)

    def known(self, component: str) -> int | None:
        """Return the slot of a component, None where it was never observed; raises InvalidValue for what is no name."""
        found = self.slot_of.get(component) if isinstance(component, str) else None
        return found if found is not None else self.slot_of.get(checked_name("component", component))

    def nearest(self, component: str) -> tuple[str, ...]:
        """Return the known names most like one that is not known, the most alike first. Cost: a few milliseconds at most."""
        likely = [name for name in islice(self.slot_of, NAMES_SCANNED) if SEPARATOR not in name]
        if len(likely) > NAMES_COMPARED:  # those that begin and end alike, then those that do either
            begin, end = component[:3], component[-3:]
            likely.sort(key=lambda name: (name[:3] != begin) + (name[-3:] != end))
        return tuple(get_close_matches(component, likely[:NAMES_COMPARED], NAMES_TOLD))

    def slot(self, component: str, measure: str = TIME) -> int:
        """Return the slot of a known component, or of a measure of it; raises UnknownComponent, InvalidValue."""
        if measure != TIME and measure not in MEASURE_SCALES:
            raise InvalidValue("measure", measure, f"one of {TIME}, {', '.join(MEASURE_SCALES)}")
        found = self.known(component)
        if found is None:
            raise UnknownComponent(component, self.nearest(component))
        if measure != TIME:
            found = self.slot_of.get(self.names[found] + SEPARATOR + measure)
            if found is None:
                raise NotEnoughData(
                    f"component {component!r} has no learned run with {measure}", field="measure", value=measure,
                    hint=f"observe runs with measures={{{measure!r}: ...}}",
                )  # fmt: skip
        return found

    def contention(self, slot: int) -> Contention:
        """Return what is known of how a component slows down beside others."""
        record = self.contentions.find(slot)
        return Contention() if record is None else contention.told(*record)

    def measure_slot(self, slot: int, measure: str) -> int | None:
        """Return the slot of a measure of a component, None where it is not learned."""
        return self.slot_of.get(self.names[slot] + SEPARATOR + measure) if self.measures else None

    def fold(self, columns: Columns) -> Receipt:
        """Learn the good rows of a batch, count the others. Cost O(rows); constant space a component."""
        receipt, done = self._fold_some(columns)
        while done < len(columns):
            more, n = self._fold_some(columns.take(slice(done, done + widths.SLICE_ROWS)))
            receipt, done = receipt.then(more, done), done + n
        return receipt

    def fold_plain(self, columns: Columns) -> None:
        """Learn rows of components with one predictor, numbered by their slots, that are known to be good: as `fold` does."""
        self._learn(columns, columns.index, None)
        self.totals["rows_accepted"] += len(columns)

    def _fold_some(self, columns: Columns) -> tuple[Receipt, int]:
        """Fold a batch up to the first row that makes a component begin anew; return how many rows those are."""
        bad = bad_rows(columns)
        if bad:
            good = ~np.logical_or.reduce(list(bad.values()))
            slots, full = self._resolve(columns, good)
        else:
            good = None
            slots, full = self._resolve(columns, None)
        if full is not None:
            bad["too_many_components"] = full
            good = ~full if good is None else good & ~full
        if columns.further is not None or self.vectors or self.forgotten:
            self._begin_again(columns, slots, good)
            wrong, stop = self._wrong_dimensions(columns, slots, good)
            if stop is not None:
                return self._fold_some(replace(columns.take(slice(stop)), carried=columns.carried))
            if wrong.any():
                bad["invalid_dimensions"] = wrong
                good = ~wrong if good is None else good & ~wrong
        refused = refusals_of(bad, columns) if bad else Refusals()
        accepted = len(columns) - refused.count
        self._learn(columns, slots, good)
        self.flows.fold(columns, bad)
        self.totals["rows_accepted"] += accepted
        if refused.count:
            self.totals["rows_refused"] += refused.count
            self.totals.update({f"refused.{code}": n for code, n in refused.by_code.items()})
        if columns.carried:
            self.totals.update({f"carried.{name}": n for name, n in columns.carried.items()})
        return Receipt(accepted, refused), len(columns)

    def _begin_again(self, columns: Columns, slots: Ints, good: Bools | None) -> None:
        """Give components that were wholly forgotten the number of predictors of their first good row since."""
        rows = np.arange(len(slots)) if good is None else np.flatnonzero(good)
        dimensions = self.table.count("dimensions")
        bare = rows[dimensions[slots[rows]] == 0]
        if len(bare):
            fresh, first = np.unique(slots[bare], return_index=True)
            dimensions[fresh] = widths_of(columns, bare[first])
            for slot in fresh.tolist():
                self._fit_records(slot)
            self.vectors = self.vectors or bool((dimensions[fresh] > 1).any())

    def _with_measures(self, slot: int) -> list[int]:
        """Return the slots of a component and of its measures."""
        return [slot, *(s for m in MEASURE_SCALES if (s := self.measure_slot(slot, m)) is not None)]

    def _fit_records(self, slot: int) -> None:
        """Give the measures of a forgotten component its new number of predictors; records of another number are taken away."""
        dimensions = self.table.count("dimensions")
        for one in self._with_measures(slot):
            if one != slot:
                dimensions[one] = dimensions[slot] & widths.WIDTH
            self.table.changed[one] = True
            record = self.learners.find(one)
            if record is not None and record[0].axes != 1 + self.dimensions(one):
                self.learners.free(one)
                self.learners.promote(one, 1 + self.dimensions(one), self.kind(one))

    def _wrong_dimensions(self, columns: Columns, slots: Ints, good: Bools | None) -> tuple[Bools, int | None]:
        """Return the rows (n,) with another number of predictors than their component, and count their votes against it.

        Where such a row makes its component begin anew, and rows come before it, nothing is counted, and its place is returned.
        """
        wrong = np.zeros(len(slots), np.bool_)
        rows = np.arange(len(slots)) if good is None else np.flatnonzero(good)
        dimensions, given = self.table.count("dimensions"), widths_of(columns, rows)
        taught = rows[ended_well(columns, np.ones(len(slots), np.bool_), good)[rows]]
        while True:
            wrong[rows] = np.maximum(widths.of(dimensions[slots[rows]]), 1) != given
            if not wrong.any():
                return wrong, None
            learned = self.table.count("rows") - self.table.count("start")
            voted, words, first = widths.counted(dimensions, learned, slots, taught, wrong)
            if first is None:
                dimensions[voted] = words
                self.table.changed[voted] = True
                return wrong, None
            if first > 0:
                return wrong, first
            self._begin_with(int(slots[0]), int(given[0]), int(learned[slots[0]]))

    def _begin_with(self, slot: int, width: int, learned: int) -> None:
        """Let a component begin anew with rows of another width: more came than it has learned."""
        own, dimensions = self._with_measures(slot), self.table.count("dimensions")
        before = dimensions[slot] & widths.WIDTH
        for one in own:
            self._weaken(one, 0.0)
        dimensions[slot] = widths.anew(int(dimensions[slot]), learned, width)
        self._fit_records(slot)
        self.vectors = self.vectors or width > 1
        self.renames += 1  # whoever has noted its width looks again
        reason = f"most rows have {width} predictor{'s' * (width > 1)}, and not {before}"
        self.events.append(ModelEvent("forget", self.names[slot], int(self.table.count("rows")[slot]), reason))

    def _weaken(self, slot: int, keep: float) -> None:
        """Keep the share `keep` of what a slot has learned."""
        KERNELS.forget_sums(self.table.records, slot, keep)
        self.table.changed[slot] = True
        self.learners.forget(slot, keep)
        record = self.contentions.find(slot)
        if record is not None:
            contention.forget(*record, keep)

    def _charge(self, columns: Columns, slots: Ints, good: Bools | None) -> None:
        """Charge what explored rows put at risk: those of runs that ended, well or not."""
        at_risk = columns.at_risk_s
        if at_risk is None:
            return
        rows = at_risk > 0.0 if good is None else (at_risk > 0.0) & good
        if columns.running is not None:
            rows &= ~columns.running
        np.add.at(self.table["explored_s"], slots[rows], at_risk[rows])
        self.table.changed[slots[rows]] = True

    def _learn(self, columns: Columns, slots: Ints, good: Bools | None) -> None:
        self._charge(columns, slots, good)
        learned = good
        for field, counted, mark in (("failed", columns.ok, False), ("unfinished", columns.running, True)):
            if counted is None:
                continue
            rows = counted == mark if learned is None else (counted == mark) & learned
            if rows.any():
                np.add.at(self.table.count(field), slots[rows], 1)
                if field == "unfinished":
                    np.maximum.at(self.table["running_high"], slots[rows], columns.elapsed_s[rows])
                self.table.changed[slots[rows]] = True
                self.totals[f"rows_{field}"] += int(np.count_nonzero(rows))
                learned = ~rows if learned is None else learned & ~rows
        rows = Rows(
            np.arange(len(slots)), slots, columns.predictor, columns.further, columns.cores, columns.elapsed_s,
            columns.count, self._machines(columns),
        )  # fmt: skip
        batches = {"": rows if learned is None else rows.take(learned)}
        for measure, values in columns.measures.items():
            given = ~np.isnan(values) if learned is None else learned & ~np.isnan(values)
            batches[measure] = self._of_measure(measure, values, rows.take(given), given)
        kinds = list(batches)
        for slot, batch in first_rows(self.table.count("rows"), list(batches.values())):
            if self.learners.find(slot) is None:
                self.learners.promote(slot, 1 + self.dimensions(slot), kinds[batch])
        for kind, part in batches.items():
            if len(part.slots):
                active = None if kind else columns.active_cores
                self._fold(part, kind, None if active is None else active[part.at])

    def _fold(self, rows: Rows, kind: str, active: Floats | None) -> None:
        """Fold rows in their order into the sums and the records of their components. Cost O(n).

        Where they tell `active_cores`, NaN where nobody knows, they are folded as an idle machine would have run them.
        """
        beside: tuple[Any, ...] = ()
        if active is not None and not np.isnan(active).all():
            others = np.maximum(active - rows.cores, 0.0)
            beside = self._contentions_of(rows.slots, ~np.isnan(others)), others
        axes = 1 + np.maximum(widths.of(self.table.count("dimensions")[rows.slots]), 1) if self.vectors else None
        for width in (2,) if axes is None else np.unique(axes).tolist():
            part: Any = slice(None) if axes is None else axes == width
            alike = rows if axes is None or part.all() else rows.take(part)
            self._fold_alike(alike, int(width), kind, *(column[part] for column in beside))

    def _contentions_of(self, slots: Ints, known: Bools) -> Ints:
        """Return the place (n,) of each row's contention, given in the order of the rows; ABSENT where nothing is known."""
        places = self.contentions.places(slots)
        new, first = np.unique(slots[known & (places == ABSENT)], return_index=True)
        for slot in new[np.argsort(first)].tolist():
            self.contentions.give(slot, self.contentions.named(contention.NAME))
        return np.where(known, self.contentions.places(slots), ABSENT)

    def _fold_alike(
        self, rows: Rows, axes: int, kind: str, homes: Ints | None = None, others: Floats | None = None
    ) -> None:
        """Fold rows of components over the same axes; `homes`: the places of their contentions, beside `others` busy cores."""
        n, slots = len(rows.slots), _own(rows.slots)
        KERNELS.expect(n)
        learners = self.learners
        table, room = learners.table(axes, kind), learners.room(axes)
        places = learners.places(slots)
        found, ratios = np.empty(n, np.int64), np.empty(n)
        count = np.ones(n) if rows.count is None else rows.count.astype(np.float64)
        machine = np.full(n, ABSENT, np.int64) if rows.machine is None else rows.machine
        given = (
            self.table.records, slots, table.words, places, axes, rows.predictors(axes - 1), _own(rows.cores),
            _own(rows.elapsed_s), count, _own(machine),
        )  # fmt: skip
        if homes is None:
            changes = KERNELS.fold_rows(*given, *room, found, ratios)
        else:
            contentions = self.contentions.named(contention.NAME)
            changes = KERNELS.fold_beside(*given, contentions.words, homes, others, *room, found, ratios)
            contentions.changed[homes[homes != ABSENT]] = True
        self.table.changed[slots] = True
        table.changed[places[places != ABSENT]] = True
        if changes:
            self._tell_changes(slots[found[:changes]].tolist(), ratios[:changes].tolist())

    def fold_one(self, slot: int, point: Sequence[float], t: float, count: int, machine: int) -> None:
        """Fold one run of a known component, all of whose values are checked: what `fold` does, in plain numbers.

        Parameters
        ----------
        point : sequence of float
            Predictors, then cores.
        machine : int
            Its number, negative where none is named.
        """
        learners, axes = self.learners, len(point)
        record = learners.find(slot)
        if record is None and not self.table.count("rows")[slot]:
            learners.promote(slot, axes, "")
            record = learners.find(slot)
        table, place = (learners.table(axes, ""), ABSENT) if record is None else record
        room = learners.room(axes)
        for axis, value in enumerate(point):
            room.point[axis] = value
        ratio = KERNELS.fold_one(
            self.table.records, slot, table.words, place, axes, room.point, t, float(count), machine,
            room.solution, room.scratch, room.out,
        )  # fmt: skip
        self.table.changed[slot] = True
        if place != ABSENT:
            table.changed[place] = True
        self.totals["rows_accepted"] += 1
        if ratio != 0.0:
            self._tell_changes([slot], [ratio])

    def _tell_changes(self, slots: Sequence[int], ratios: Sequence[float]) -> None:
        self.totals["changes"] += len(slots)
        for slot, ratio in zip(slots, ratios, strict=True):
            rows = int(self.table.count("rows")[slot])
            self.events.append(
                ModelEvent("change", self.names[slot], rows, f"runs take {2.0**ratio:.3g} times as long as before")
            )

    def _of_measure(self, measure: str, values: Floats, rows: Rows, given: Bools) -> Rows:
        """Return the values of one measure as the times of a component of their own."""
        distinct, inverse = np.unique(rows.slots, return_inverse=True)
        numbers: list[int] = distinct.tolist()
        keys = [self.names[slot] + SEPARATOR + measure for slot in numbers]
        slots = np.array([self.slot_of.get(key, UNRESOLVED) for key in keys], np.int64)[inverse]
        rows = replace(rows, slots=slots, elapsed_s=values[given] * MEASURE_SCALES[measure])
        full = slots == UNRESOLVED
        if full.any():
            self.totals["measures_dropped"] += int(np.count_nonzero(full))
            rows = rows.take(~full)
        return rows

    @staticmethod
    def _machines(columns: Columns) -> Ints | None:
        """Return the machines' numbers of the state (n,), -1 where none is named."""
        if columns.machine is None:
            return None
        numbers = np.array([*map(machine_number, columns.machines), UNRESOLVED], np.int64)
        return numbers[columns.machine]

    def _resolve(self, columns: Columns, good: Bools | None) -> tuple[Ints, Bools | None]:
        """Return the slot of each row, and the mask of rows whose component finds no room (None when all do)."""
        slots = self._looked_up(columns.components, columns.index)
        missing = slots == UNRESOLVED
        if not columns.measures and not missing.any():
            return slots, None
        if good is not None:
            missing &= good
        if missing.any() or columns.measures:
            self._give_slots(columns, missing, good)
            slots = columns.components.slots_of(self.era)[columns.index]
        full = slots == UNRESOLVED
        if good is not None:
            full &= good
        return slots, full if full.any() else None

    def _looked_up(self, known: ComponentNames, index: Ints) -> Ints:
        """Return the slots of names by number (n,), UNRESOLVED of those that have none. A look-up is quicker than a sort."""
        cache = known.slots_of(self.era)
        slots = cache[index]
        if (missing := slots == UNRESOLVED).any():
            numbers: list[int] = list(set(index[missing].tolist()))
            valid: list[bool] = known.valid[numbers].tolist()
            cache[numbers] = [
                self.slot_of.get(known.names[number], UNRESOLVED) if ok else UNRESOLVED
                for number, ok in zip(numbers, valid, strict=True)
            ]
            slots = cache[index]
        return slots

    def young(self, columns: Columns, rows: slice) -> Bools:
        """Return which of the rows are of components that have learned few: they cost several times as much."""
        slots = self._looked_up(columns.components, columns.index[rows])
        if not self.names:
            return np.ones(len(slots), np.bool_)
        return (slots == UNRESOLVED) | (self.table.count("rows")[slots] < SETTLED_EVERY)

    def _give_slots(self, columns: Columns, missing: Bools, good: Bools | None) -> None:
        """Give slots in the order of first rows, a component before its measures, so that a cut batch gives the same slots."""
        known = columns.components
        cache = known.slots_of(self.era)
        wanted: list[tuple[int, int, int, str]] = []
        numbers, first = np.unique(columns.index[missing], return_index=True)
        rows = np.flatnonzero(missing)[first]
        wanted += [(row, 0, number, "") for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)]
        for rank, measure in enumerate(MEASURE_SCALES, 1):
            if measure in columns.measures:
                given = ended_well(columns, ~np.isnan(columns.measures[measure]), good)
                numbers, first = np.unique(columns.index[given], return_index=True)
                rows = np.flatnonzero(given)[first]
                wanted += [(row, rank, n, measure) for row, n in zip(rows.tolist(), numbers.tolist(), strict=True)]
        began: dict[
            int, int
        ] = {}  # the row with which each new slot begins; measures have the width of their component's
        for row, rank, number, measure in sorted(wanted):
            name = known.names[number] + (SEPARATOR + measure) * bool(rank)
            if rank and known.names[number] not in self.slot_of:
                continue
            slot = self._give_slot(name, began, row)
            if not rank:
                cache[number] = slot
        self.table.grow(len(self.names), self.components_max)
        dimensions = self.table.count("dimensions")
        given = list(began)
        dimensions[given] = widths_of(columns, list(began.values()))
        for slot in given if self.measures else ():
            dimensions[slot] = dimensions[self.slot_of[self.names[slot].partition(SEPARATOR)[0]]] & widths.WIDTH
        self.table.changed[given] = True
        self.vectors = self.vectors or bool((dimensions[given] > 1).any())

    def _give_slot(self, name: str, given: dict[int, int] | None = None, row: int = 0) -> int:
        """Return the slot of a name, a new one where it has none, noted in `given`; UNRESOLVED where there is no room."""
        found = self.slot_of.get(name)
        if found is not None:
            return found
        if self.full:
            return UNRESOLVED
        if self.free:
            found = heappop(self.free)
            self._rename(found, name)
        else:
            found = self.slot_of[name] = len(self.names)
            self.names.append(name)
            self.measures += SEPARATOR in name
        if given is not None:
            given[found] = row
        return found

    @property
    def full(self) -> bool:
        """Whether no new name finds a slot."""
        return not self.free and len(self.names) >= self.components_max

    def _rename(self, slot: int, name: str) -> None:
        former = self.names[slot]
        self.measures += (SEPARATOR in name) - (SEPARATOR in former)
        del self.slot_of[former]
        self.names[slot], self.slot_of[name], self.renamed[slot] = name, slot, None
        self.renames += 1

    def drop(self, names: Iterable[str]) -> list[str]:
        """Take components away with all that was learned of them; return those that were known. Cost O(names).

        Their slots are free: each has a name that no component can have, until it serves another one.
        """
        found = [name for name in dict.fromkeys(names) if name in self.slot_of and SEPARATOR not in name]
        for name in found:
            for slot in self._with_measures(self.slot_of[name]):
                self.learners.free(slot)
                self.contentions.free(slot)
                self.table.records[slot] = empty_record()
                self.table.changed[slot] = True
                self._rename(slot, f"{SEPARATOR}{slot}")
                heappush(self.free, slot)
            self.dropped[name] = None
        self.era = object()
        return found

    def part(self, names: Iterable[str]) -> Components:
        """Return copies of components that are known, in the order of names: equal ones give equal bytes. Cost O(names)."""
        slots: list[int] = []
        for name in sorted(dict.fromkeys(names)):
            slot = self.slot_of.get(name) if SEPARATOR not in name else None
            slots += [] if slot is None else self._with_measures(slot)
        return self._copies(np.array(slots, np.int64))

    def compact(self) -> Components:
        """Return all components without free slots between: these ones, where there are none."""
        return self._copies(np.setdiff1d(np.arange(len(self)), self.free)) if self.free else self

    def _copies(self, slots: Ints) -> Components:
        made = Components(self.components_max, self.learners.memory_bytes)
        made.restore(dict(enumerate(map(self.names.__getitem__, slots.tolist()))), {})
        made.table.records[: len(slots)] = self.table.records[slots]
        made.copy_records(self, slots, np.arange(len(slots)))
        made.resume()
        return made

    def copy_records(self, other: Components, theirs: Ints, mine: Ints) -> None:
        """Take copies of the records of another's slots (n,) for ours, which have none."""
        self.learners.copy(other.learners, theirs, mine)
        self.contentions.copy(other.contentions, theirs, mine)

    def add_names(self, names: Sequence[str]) -> Ints:
        """Return the slots of names, giving new ones where needed.

        Raises TooLarge when there is no room for all of them; nothing is changed then.
        """
        new = {name for name in names if name not in self.slot_of}
        if len(self.names) - len(self.free) + len(new) > self.components_max:
            raise TooLarge(
                "components", len(self.names) + len(new), self.components_max, "raise components_max, or merge fewer"
            )
        slots = np.array([self._give_slot(name) for name in names], np.int64)
        self.table.grow(len(self.names), self.components_max)
        return slots

    def forget(self, component: str, keep: float) -> int:
        """Forget all but the share `keep` of what a component learned; return its slot.

        Raises UnknownComponent, InvalidValue.
        """
        if isinstance(keep, bool) or not isinstance(keep, (int, float)) or not 0.0 <= keep < 1.0:
            raise InvalidValue("keep", keep, "a share from 0 (forget all) to below 1")
        slot = self.slot(component)
        own = self._with_measures(slot)
        bare = keep * self.table.evidence(slot) < EVIDENCE_LEAST  # its measures then go with it
        for one in own:
            left = 0.0 if bare or keep * self.table.evidence(one) < EVIDENCE_LEAST else float(keep)
            self._weaken(one, left)
        if bare:  # the next row may have another number of predictors
            self.table.count("dimensions")[own] = 0
            self.forgotten = True
        self.totals["forgets"] += 1
        self.events.append(
            ModelEvent("forget", component, int(self.table.count("rows")[slot]), f"asked to keep the share {keep:g}")
        )
        return slot

    def merge(self, other: Components, *, replacing: bool = False) -> None:
        """Add another's learned state to this one's; raises TooLarge when the components do not fit together.

        With `replacing` its components stand in the place of ours of the same names, in our slots; flows and totals stay ours.
        """
        other = other.compact()
        if replacing:
            theirs = set(other.names)
            self.drop([
                name for name in other.names if (slot := self.slot_of.get(name)) is not None
                and not theirs.issuperset(self.names[each] for each in self._with_measures(slot))
            ])  # fmt: skip
        known = np.array([name in self.slot_of and not replacing for name in other.names], np.bool_)
        slots = self.add_names(other.names)
        for slot in slots.tolist() if replacing else ():
            self.learners.free(slot)
            self.contentions.free(slot)
        new, both = np.flatnonzero(~known), np.flatnonzero(known)
        self.table.records[slots[new]] = other.table.records[new]
        self.table.changed[slots] = True
        self.copy_records(other, new, slots[new])
        if len(both):
            self._merge_known(both, slots[both], other)
        self.vectors = self.vectors or other.vectors
        self.forgotten = self.forgotten or other.forgotten
        if not replacing:
            self.flows.merge(other.flows)
            self.totals.update(other.totals)
        self.learners.drop()

    def _merge_known(self, places: Ints, slots: Ints, other: Components) -> None:
        """Add what another has learned of its components `places` (n,) to ours."""
        dimensions = self.table.count("dimensions")
        bare = slots[dimensions[slots] == 0]
        theirs = other.table.records[places]  # copies: a merge spoils what it reads
        for there, slot in enumerate(slots.tolist()):
            if any(self.table.count(field)[slot] for field in ("rows", "failed", "unfinished")):
                KERNELS.merge_sums(self.table.records, slot, theirs, there)
            else:
                self.table.records[slot] = theirs[there]
        for slot in bare[dimensions[bare] > 0].tolist():
            self._fit_records(slot)
        for there, slot in zip(places.tolist(), slots.tolist(), strict=True):
            their = other.contentions.find(there)
            if their is not None:
                table = self.contentions.named(contention.NAME)
                mine = self.contentions.find(slot)
                contention.merge(table, self.contentions.give(slot, table) if mine is None else mine[1], *their)
        kinds = [other.kind(place) for place in places.tolist()]
        axes = 1 + np.maximum(widths.of(self.table.count("dimensions")[slots]), 1)
        self.learners.merge(places, slots, other.learners, kinds, axes)

    def restore(self, names: Mapping[int, str], totals: Mapping[str, int]) -> None:
        """Set names and totals of an empty instance from a stored state whose slots are 0 .. n - 1 without gaps.

        Raises InvalidValue when slots are missing or doubled.
        """
        if sorted(names) != list(range(len(names))) or len(set(names.values())) != len(names):
            raise InvalidValue("names", len(names), "slots from 0 without gaps, each with a name of its own")
        self.components_max = max(self.components_max, len(names))
        self.names = [names[slot] for slot in range(len(names))]
        self.slot_of = {name: slot for slot, name in enumerate(self.names)}
        self.table.grow(len(self.names), self.components_max)
        self.measures = sum(SEPARATOR in name for name in self.names)
        self.free = [slot for slot, name in enumerate(self.names) if name.startswith(SEPARATOR)]
        self.totals.clear()
        self.totals.update(dict(totals))

    def resume(self) -> None:
        """Find again what the restored words of all tables say."""
        self.learners.restore()
        self.contentions.restore()
        dimensions = self.table.count("dimensions")
        for table, owners in self.learners.owners():
            # Of a component whose base words were lost, and of those of an older layout.
            owners = owners[owners >= 0]  # noqa: PLW2901
            unknown = owners[(dimensions[owners] == 0) & (self.table.count("rows")[owners] == 0)]
            dimensions[unknown] = table.axes - 1
            self.table.changed[unknown] = True
        self.vectors = bool((widths.of(dimensions[: len(self)]) > 1).any())
        self.forgotten = bool((dimensions[: len(self)] == 0).any())

    def error(self) -> tuple[float, int]:
        """Return the mean of |t - m| / max(t, m) over all scored rows, m being what weighs them, and their number."""
        timed: Any = slice(None)
        if self.measures:
            timed = [slot for slot, name in enumerate(self.names) if SEPARATOR not in name]
        rows = int(self.table.scored(timed).sum())
        return (float(self.table["error"][timed].sum()) / rows if rows else float("nan"), rows)

    def worst(self, k: int) -> list[tuple[str, float, int]]:
        """Return the k components with the largest mean error among the scored: (name, error, rows). Cost O(components)."""
        scored = self.table.scored(slice(len(self.names))).copy()
        if self.measures:
            scored[[slot for slot, name in enumerate(self.names) if SEPARATOR in name]] = 0
        mean = np.where(scored > 0, self.table["error"][: len(self.names)] / np.maximum(scored, 1), -1.0)
        count = min(k, int(np.count_nonzero(scored)))
        if count <= 0:
            return []
        top: NDArray[np.int64] = np.argpartition(-mean, count - 1)[:count]
        ordered = top[np.argsort(-mean[top], kind="stable")]
        return [(self.names[slot], float(mean[slot]), int(scored[slot])) for slot in ordered.tolist()]


def _own(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column as kernels take it: contiguous, and writeable, which a view of a message's bytes is not."""
    return column if column.flags.writeable and column.flags.c_contiguous else column.copy()
