"""What is known of components: a table of what each has learned, by slot, and the tables of records beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import cast

import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import Ints
from advisor.engine.allowed_sets import AllowedSets
from advisor.engine.flows import Flows
from advisor.engine.learners import MODEL_MEMORY_BYTES, Learners
from advisor.engine.records_by_slot import RecordsBySlot
from advisor.engine.siblings import Siblings
from advisor.engine.slots import Slots
from advisor.models import contention
from advisor.models.contention import Contention
from advisor.models.fold import KERNELS
from advisor.models.layout import empty_record
from advisor.models.learner_layout import FIRST_SCORED
from advisor.models.records import RecordTable
from advisor.models.table import Table


class Components:
    """The tables of components; `advisor.engine.batches` folds rows into them."""

    def __init__(self, components_max: int, model_memory_bytes: int = MODEL_MEMORY_BYTES) -> None:
        self.slots = Slots(components_max)
        self.vectors = False  # whether some component has more than one predictor
        self.table = Table()
        # exact counts over all components: `rows_accepted`, `rows_refused`, `refused.CODE`, `rows_failed`,
        # `rows_unfinished`, `forgets`; and what the engine counts of its producers:
        # `batches_replayed`, `gaps`. They never go back.
        self.totals: Counter[str] = Counter()
        self.learners = Learners(model_memory_bytes, self.totals)
        self.siblings = Siblings(self.slots, self.learners, self.table)
        self.learners.leaning_of = self.siblings.leaning
        self.contentions = RecordsBySlot(lambda _: RecordTable(contention.FIELDS, contention.LAYOUT))
        self.allowed = AllowedSets()
        self.flows = Flows(self.totals)

    def __len__(self) -> int:
        """Return how many slots are taken: components, and their measures."""
        return len(self.slots)

    @property
    def records(self) -> dict[str, RecordTable]:
        """Tables of records beside the base table, by name."""
        return {**self.learners.tables, **self.contentions.tables}

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return self.table.bytes + self.learners.bytes + self.contentions.bytes

    def dimensions(self, slot: int) -> int:
        """Return how many values a component's predictors have: those of its first accepted row."""
        return max(int(self.table.int_field("dimensions")[slot]), 1)

    def answers_without(self, slot: int) -> int:
        """Return the slot that answers for a run without predictor: that of such runs, where a few were learned."""
        found = self.slots.without(slot)
        return slot if found is None or self.table.evidence(found) < FIRST_SCORED else found

    def kinds(self, slot: int) -> list[int]:
        """Return the slots of a component's runs: with a predictor and without, as far as it has such."""
        found = self.slots.without(slot)
        return [slot] if found is None else [slot, found]

    def rows(self, slot: int) -> int:
        """Return the exact number of learned rows of a component, with and without predictor."""
        return int(self.table.int_field("rows")[self.kinds(slot)].sum())

    def contention(self, slot: int) -> Contention:
        """Return what is known of how a component slows down beside others."""
        record = self.contentions.find_record(slot)
        return Contention() if record is None else contention.contention_at(*record)

    def remove_components(self, names: Iterable[str]) -> list[str]:
        """Take components away with all that was learned of them; return those that were known. Cost O(names)."""
        found = self.slots.free_slots(names)
        for slot in chain.from_iterable(found.values()):
            self.learners.free(slot)
            self.contentions.free(slot)
            self.table.records[slot] = empty_record()
        for name in found:
            self.allowed.remove_record(name)
        return list(found)

    def copy_components(self, names: Iterable[str]) -> Components:
        """Return copies of components that are known, in the order of names: equal ones give equal bytes. Cost O(names)."""
        slots = [slot for name in sorted(dict.fromkeys(names)) for slot in self.slots.group(name)]
        return self._copies(np.array(slots, np.int64))

    def compact(self) -> Components:
        """Return all components without free slots between: these ones, where there are none."""
        return self._copies(np.setdiff1d(np.arange(len(self)), self.slots.free)) if self.slots.free else self

    def _copies(self, slots: Ints) -> Components:
        made = Components(self.slots.components_max, self.learners.memory_bytes)
        names = self.slots.names
        made.slots.set_names(0, [names[slot] for slot in cast("list[int]", slots.tolist())])
        made.slots.index()
        made.table.grow(len(made), made.slots.components_max)
        made.table.records[: len(slots)] = self.table.records[slots]
        made.copy_records(self, slots, np.arange(len(slots)))
        made.rebuild_indices()
        return made

    def copy_records(self, other: Components, theirs: Ints, mine: Ints) -> None:
        """Take copies of the records of another's slots (n,) for ours, which have none."""
        self.learners.copy(other.learners, theirs, mine)
        self.contentions.copy(other.contentions, theirs, mine)

    def forget(self, component: str) -> int:
        """Forget what a component learned, but for exact counts; return its slot. Raises UnknownComponent, InvalidValue."""
        slot = self.slots.slot_of(component)
        for one in self.slots.group(self.slots.owner(slot)):
            KERNELS.forget_sums(self.table.records, one)
            self.learners.forget(one)
            record = self.contentions.find_record(one)
            if record is not None:
                contention.forget(*record)
        self.totals["forgets"] += 1
        return slot

    def merge(self, other: Components) -> None:
        """Add another's learned state to this one's; raises TooLarge when the components do not fit together."""
        totals, other = other.totals, other.compact()  # copies have components alone
        known = np.array([name in self.slots.by_name for name in other.slots.names], np.bool_)
        slots = self.slots.assign_slots(other.slots.names)
        self.table.grow(len(self), self.slots.components_max)
        new, both = np.flatnonzero(~known), np.flatnonzero(known)
        self.table.records[slots[new]] = other.table.records[new]
        self.copy_records(other, new, slots[new])
        if len(both):
            self._merge_known(both, slots[both], other)
        self.vectors = self.vectors or other.vectors
        self.totals.update(totals)
        self.learners.clear_solutions()

    def _merge_known(self, places: Ints, slots: Ints, other: Components) -> None:
        """Add what another has learned of its components `places` (n,) to ours."""
        theirs = other.table.records[places]  # copies: a merge spoils what it reads
        for there, slot in enumerate(slots.tolist()):
            if any(self.table.int_field(field)[slot] for field in ("rows", "failed", "unfinished")):
                KERNELS.merge_sums(self.table.records, slot, theirs, there)
            else:
                self.table.records[slot] = theirs[there]
        for there, slot in zip(places.tolist(), slots.tolist(), strict=True):
            their = other.contentions.find_record(there)
            if their is not None:
                table = self.contentions.named(contention.NAME)
                mine = self.contentions.find_record(slot)
                contention.merge(table, self.contentions.give(slot, table) if mine is None else mine[1], *their)
        kinds = [other.slots.kind(place) for place in places.tolist()]
        axes = 1 + self.table.int_field("dimensions")[slots]
        self.learners.merge(places, slots, other.learners, kinds, axes)

    def rebuild_indices(self) -> None:
        """Find again what the restored words of all tables say."""
        self.learners.restore()
        self.contentions.restore()
        dimensions = self.table.int_field("dimensions")
        self.vectors = bool((dimensions[: len(self)] > 1).any())

    def worst(self, k: int) -> list[tuple[str, float, int]]:
        """Return the k components with the largest mean error among the scored: (name, error, rows). Cost O(components)."""
        timed = np.fromiter(self.slots.components.values(), np.int64)
        scored = self.table.scored(timed)
        mean = np.where(scored > 0, self.table["error"][timed] / np.maximum(scored, 1), -1.0)
        count = min(k, int(np.count_nonzero(scored)))
        if count <= 0:
            return []
        top: NDArray[np.int64] = np.argpartition(-mean, count - 1)[:count]
        ordered = top[np.argsort(-mean[top], kind="stable")]
        return [(self.slots.owner(int(timed[at])), float(mean[at]), int(scored[at])) for at in ordered.tolist()]
