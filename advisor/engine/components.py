"""What is known of components: a table of what each has learned, by slot, and the tables of records beside it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import Ints
from advisor.engine.allowed_sets import AllowedSets
from advisor.engine.flows import Flows
from advisor.engine.learners import MODEL_MEMORY_BYTES, Learners
from advisor.engine.records_by_slot import RecordsBySlot
from advisor.engine.slots import APART, SEPARATOR, Slots
from advisor.errors import InvalidValue, Mismatch
from advisor.models import contention
from advisor.models.contention import Contention
from advisor.models.fold import KERNELS
from advisor.models.layout import empty_record
from advisor.models.learner_layout import FIRST_SCORED
from advisor.models.records import RecordTable
from advisor.models.table import Table

EVIDENCE_LEAST = 1e-6  # rows: a component left with fewer when it forgets, forgets all, for sums that underflow lie
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
    """The tables of components; `advisor.engine.batches` folds rows into them."""

    def __init__(self, components_max: int, model_memory_bytes: int = MODEL_MEMORY_BYTES) -> None:
        self.slots = Slots(components_max)
        self.vectors = False  # whether some component has more than one predictor
        # Whether some has no number of predictors yet: it was wholly forgotten, or none of its rows has a predictor.
        self.forgotten = False
        self.table = Table()
        # exact counts over all components: `rows_accepted`, `rows_refused`, `refused.CODE`, `rows_failed`,
        # `rows_unfinished`, `carried.FIELD`, `forgets`; and what the engine counts of its producers:
        # `batches_replayed`, `gaps`, `producers_resumed`. They never go back.
        self.totals: Counter[str] = Counter()
        self.learners = Learners(model_memory_bytes, self.totals)
        self.contentions = RecordsBySlot(lambda _: RecordTable(contention.FIELDS, contention.LAYOUT))
        self.allowed = AllowedSets()
        self.flows = Flows(self.totals)
        self.events: deque[ModelEvent] = deque(maxlen=EVENTS_KEPT)

    def __len__(self) -> int:
        """Return how many slots are taken: components, and their measures."""
        return len(self.slots)

    @property
    def records(self) -> dict[str, RecordTable]:
        """Tables of records beside the base table, by name."""
        return {**self.learners.tables, **self.contentions.tables, **self.allowed.tables}

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return self.table.bytes + self.learners.bytes + self.contentions.bytes + self.allowed.bytes

    def dimensions(self, slot: int) -> int:
        """Return how many values a component's predictors have: those of its first accepted row that has any; else one."""
        return max(int(self.table.count("dimensions")[slot]), 1)

    # -- rows without predictor, of components that have rows with one ----------------------------------------------------

    def apart(self, slot: int, rows_least: int = 1) -> int | None:
        """Return the slot of a component's rows without predictor beside those with one; None where it has learned fewer."""
        found = self.slots.of_measure(slot, APART)
        return None if found is None or self.table.evidence(found) < rows_least else found

    def answers_without(self, slot: int) -> int:
        """Return the slot that answers for a run without predictor: that of such runs, where a few were learned apart."""
        found = self.apart(slot, FIRST_SCORED)
        return slot if found is None else found

    def set_apart(self, slot: int) -> None:
        """Move what a component has learned, all of it without predictor, to the slot of such rows; it begins anew.

        Where there is no room for such a slot it is forgotten.
        """
        into, table = self.slots.of_measure(slot, APART), self.table
        if into is not None:
            table.records[into] = table.records[slot]
            for field in ("failed", "unfinished", "running_high"):
                table[field][into] = 0
            table.count("dimensions")[into] = 1
            table.changed[into] = True
            if self.learners.find(into) is not None:
                self.learners.free(into)
            self.learners.copy(self.learners, np.array([slot]), np.array([into]))
        for one in self.slots.with_measures(slot):
            if one != into:
                self.weaken(one, 0.0)
        self.learners.drop()
        self.slots.renames += 1  # whoever has noted what it is looks again

    def contention(self, slot: int) -> Contention:
        """Return what is known of how a component slows down beside others."""
        record = self.contentions.find(slot)
        return Contention() if record is None else contention.told(*record)

    def tell(self, kind: str, slot: int, reason: str) -> None:
        """Note for the log what happened to a component's model."""
        self.events.append(ModelEvent(kind, self.slots.names[slot], int(self.table.count("rows")[slot]), reason))

    def fit_records(self, slot: int) -> None:
        """Give the measures of a forgotten component its new number of predictors; records of another number are taken away."""
        dimensions = self.table.count("dimensions")
        for one in self.slots.with_measures(slot):
            if one == self.slots.of_measure(slot, APART):
                continue
            if one != slot:
                dimensions[one] = dimensions[slot]
            self.table.changed[one] = True
            record = self.learners.find(one)
            if record is not None and record[0].axes != 1 + self.dimensions(one):
                self.learners.free(one)
                self.learners.promote(one, 1 + self.dimensions(one), self.slots.kind(one))

    def weaken(self, slot: int, keep: float) -> None:
        """Keep the share `keep` of what a slot has learned."""
        KERNELS.forget_sums(self.table.records, slot, keep)
        self.table.changed[slot] = True
        self.learners.forget(slot, keep)
        record = self.contentions.find(slot)
        if record is not None:
            contention.forget(*record, keep)

    def drop(self, names: Iterable[str]) -> list[str]:
        """Take components away with all that was learned of them; return those that were known. Cost O(names)."""
        found = self.slots.drop(names)
        for slot in chain.from_iterable(found.values()):
            self.learners.free(slot)
            self.contentions.free(slot)
            self.allowed.free(slot)
            self.table.records[slot] = empty_record()
            self.table.changed[slot] = True
        return list(found)

    def part(self, names: Iterable[str]) -> Components:
        """Return copies of components that are known, in the order of names: equal ones give equal bytes. Cost O(names)."""
        slots: list[int] = []
        for name in sorted(dict.fromkeys(names)):
            slot = self.slots.by_name.get(name) if SEPARATOR not in name else None
            slots += [] if slot is None else self.slots.with_measures(slot)
        return self._copies(np.array(slots, np.int64))

    def compact(self) -> Components:
        """Return all components without free slots between: these ones, where there are none."""
        return self._copies(np.setdiff1d(np.arange(len(self)), self.slots.free)) if self.slots.free else self

    def _copies(self, slots: Ints) -> Components:
        made = Components(self.slots.components_max, self.learners.memory_bytes)
        names = self.slots.names
        made.slots.put(0, [names[slot] for slot in cast("list[int]", slots.tolist())])
        made.slots.index()
        made.table.grow(len(made), made.slots.components_max)
        made.table.records[: len(slots)] = self.table.records[slots]
        made.copy_records(self, slots, np.arange(len(slots)))
        made.resume()
        return made

    def copy_records(self, other: Components, theirs: Ints, mine: Ints) -> None:
        """Take copies of the records of another's slots (n,) for ours, which have none."""
        self.learners.copy(other.learners, theirs, mine)
        self.contentions.copy(other.contentions, theirs, mine)
        self.allowed.copy(other.allowed, theirs, mine)

    def forget(self, component: str, keep: float) -> int:
        """Forget all but the share `keep` of what a component learned; return its slot.

        Raises UnknownComponent, InvalidValue.
        """
        if isinstance(keep, bool) or not isinstance(keep, (int, float)) or not 0.0 <= keep < 1.0:
            raise InvalidValue("keep", keep, "a share from 0 (forget all) to below 1")
        slot = self.slots.of(component)
        own = self.slots.with_measures(slot)
        bare = keep * self.table.evidence(slot) < EVIDENCE_LEAST  # its measures then go with it
        for one in own:
            left = 0.0 if bare or keep * self.table.evidence(one) < EVIDENCE_LEAST else float(keep)
            self.weaken(one, left)
        if bare:  # the next row may have another number of predictors
            self.table.count("dimensions")[own] = 0
            self.forgotten = True
            self.slots.renames += 1  # whoever has noted its width looks again
        self.totals["forgets"] += 1
        self.tell("forget", slot, f"asked to keep the share {keep:g}")
        return slot

    def merge(self, other: Components, *, replacing: bool = False) -> None:
        """Add another's learned state to this one's; raises TooLarge when the components do not fit together.

        With `replacing` its components stand in the place of ours of the same names, in our slots; flows and totals stay ours.
        """
        whole, other = other, other.compact()  # copies have components alone
        if not replacing:
            self._check_allowed(other)
            self._set_apart_where(other)
            if other.forgotten:
                other = other._copies(np.arange(len(other)))
                other.slots.components_max = max(self.slots.components_max, len(other))
                other._set_apart_where(self)
        if replacing:
            theirs = set(other.slots.names)
            self.drop([
                name for name in other.slots.names if (slot := self.slots.by_name.get(name)) is not None
                and not theirs.issuperset(self.slots.names[each] for each in self.slots.with_measures(slot))
            ])  # fmt: skip
        known = np.array([name in self.slots.by_name and not replacing for name in other.slots.names], np.bool_)
        slots = self.slots.add(other.slots.names)
        self.table.grow(len(self), self.slots.components_max)
        for slot in slots.tolist() if replacing else ():
            self.learners.free(slot)
            self.contentions.free(slot)
            self.allowed.free(slot)
        new, both = np.flatnonzero(~known), np.flatnonzero(known)
        self.table.records[slots[new]] = other.table.records[new]
        self.table.changed[slots] = True
        self.copy_records(other, new, slots[new])
        if len(both):
            self._merge_known(both, slots[both], other)
        self.vectors = self.vectors or other.vectors
        self.forgotten = self.forgotten or other.forgotten
        if not replacing:
            self.flows.merge(whole.flows)
            self.totals.update(whole.totals)
        self.learners.drop()

    def _check_allowed(self, other: Components) -> None:
        """Raise Mismatch where no core count is allowed by both sides' sets of a component."""
        for _, owners in other.allowed.owners():
            known: list[int] = [there for there in owners.tolist() if there >= 0]
            for name in map(other.slots.names.__getitem__, known):
                slot = self.slots.by_name.get(name)
                mine = None if slot is None else self.allowed.of_slot(slot)
                theirs = other.allowed.of_slot(other.slots.by_name[name])
                if mine is not None and theirs is not None and mine.intersection(theirs) is None:
                    raise Mismatch(
                        f"component {name!r} is allowed {mine} cores here, and {theirs} there: no count is in both",
                        field="allowed", value=str(mine), bound=str(theirs), hint="change one with set_allowed",
                    )  # fmt: skip

    def _set_apart_where(self, other: Components) -> None:
        """Set apart what was learned without predictor where the other has rows with one, as far as there is room."""
        mine, theirs = self.table.count("dimensions"), other.table.count("dimensions")
        for name in self.slots.components if self.forgotten else ():
            slot, there = self.slots.by_name[name], other.slots.by_name.get(name)
            learned = not mine[slot] and self.table.evidence(slot) > 0
            if learned and there is not None and theirs[there] and not self.slots.full:
                self.slots.add([f"{name}{SEPARATOR}{APART}"])
                self.table.grow(len(self), self.slots.components_max)
                mine = self.table.count("dimensions")
                self.set_apart(slot)

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
            self.fit_records(slot)
        for there, slot in zip(places.tolist(), slots.tolist(), strict=True):
            their = other.contentions.find(there)
            if their is not None:
                table = self.contentions.named(contention.NAME)
                mine = self.contentions.find(slot)
                contention.merge(table, self.contentions.give(slot, table) if mine is None else mine[1], *their)
            allowed, own = other.allowed.of_slot(there), self.allowed.of_slot(slot)
            if allowed is not None:
                self.allowed.put(slot, allowed if own is None else own.intersection(allowed))
        kinds = [other.slots.kind(place) for place in places.tolist()]
        axes = 1 + np.maximum(self.table.count("dimensions")[slots], 1)
        self.learners.merge(places, slots, other.learners, kinds, axes)

    def resume(self) -> None:
        """Find again what the restored words of all tables say."""
        self.learners.restore()
        self.contentions.restore()
        self.allowed.restore()
        dimensions = self.table.count("dimensions")
        self.vectors = bool((dimensions[: len(self)] > 1).any())
        self.forgotten = bool((dimensions[: len(self)] == 0).any())

    def error(self) -> tuple[float, int]:
        """Return the mean of |t - m| / max(t, m) over all scored rows, m being what weighs them, and their number."""
        timed: Any = slice(None)
        if self.slots.measures:
            timed = [slot for slot, name in enumerate(self.slots.names) if SEPARATOR not in name]
        rows = int(self.table.scored(timed).sum())
        return (float(self.table["error"][timed].sum()) / rows if rows else float("nan"), rows)

    def worst(self, k: int) -> list[tuple[str, float, int]]:
        """Return the k components with the largest mean error among the scored: (name, error, rows). Cost O(components)."""
        scored = self.table.scored(slice(len(self))).copy()
        if self.slots.measures:
            scored[[slot for slot, name in enumerate(self.slots.names) if SEPARATOR in name]] = 0
        mean = np.where(scored > 0, self.table["error"][: len(self)] / np.maximum(scored, 1), -1.0)
        count = min(k, int(np.count_nonzero(scored)))
        if count <= 0:
            return []
        top: NDArray[np.int64] = np.argpartition(-mean, count - 1)[:count]
        ordered = top[np.argsort(-mean[top], kind="stable")]
        return [(self.slots.names[slot], float(mean[slot]), int(scored[slot])) for slot in ordered.tolist()]
