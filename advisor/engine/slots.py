"""Which slot of the tables each name has: components, and what is measured of them beside time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import heappop, heappush
from itertools import chain, islice
from typing import Final

import numpy as np

from advisor.domain.names import checked_name
from advisor.domain.observations import UNRESOLVED, Bools, Columns, ComponentNames, Ints
from advisor.engine.rows import SEPARATOR, WITHOUT_PREDICTOR, ended_well
from advisor.errors import InvalidValue, NotEnoughData, TooLarge, UnknownComponent

# What is measured beside time is scaled, by powers of two, into the domain of elapsed times.
MEASURE_SCALES: Mapping[str, float] = {"peak_bytes": 2.0**-30, "energy_j": 2.0**-20}
TIME: Final = "elapsed_s"
NAMES_SCANNED, NAMES_COMPARED = 10_000, 200  # for one that is not known: some milliseconds
LETTERS_COMPARED = 60_000  # pairs of them: two names may be compared each letter with each, for 0.1 microseconds
NAMES_REPORTED = 3


class Slots:
    """Names to slots and back. Slots are given once, in the order of first accepted rows; a dropped one serves a later name."""

    def __init__(self, components_max: int) -> None:
        self.components_max = components_max
        self.names: list[str] = []  # by slot
        self.by_name: dict[str, int] = {}
        self.hidden = 0  # slots with an internal name, and free ones
        self._listed: tuple[tuple[int, int], dict[str, int]] = (
            (0, 0),
            {},
        )  # see `components`, at so many names and renames
        self.free: list[int] = []  # slots whose components were dropped, a heap: the least serves the next new name
        self.renames = 0  # how often a slot got another name
        self.renamed: dict[int, None] = {}  # slots that did, since `Siblings` took note
        self._numbered = ComponentNames()
        self.generation = object()  # a list of names resolved before another one began is resolved anew

    def __len__(self) -> int:
        """Return how many slots are taken: components, and their measures."""
        return len(self.names)

    @property
    def components(self) -> Mapping[str, int]:
        """Each component's slot by its name: that of its runs with a predictor, where it has some, else of those without."""
        if not self.hidden and not self.renames:
            return self.by_name
        now = len(self.names), self.renames
        if self._listed[0] != now:
            found: dict[str, int] = {}
            for slot, name in enumerate(self.names):
                own, mark, kind = name.partition(SEPARATOR)
                if own and (not mark or (mark + kind == WITHOUT_PREDICTOR and own not in self.by_name)):
                    found[own] = slot
            self._listed = now, found
        return self._listed[1]

    @property
    def full(self) -> bool:
        """Whether no new name finds a slot."""
        return not self.free and len(self.names) >= self.components_max

    # -- looking up -------------------------------------------------------------------------------------------------------

    def find_slot(self, component: str) -> int | None:
        """Return the slot of a component, see `components`, None where it was never observed; raises InvalidValue."""
        found = self.by_name.get(component) if isinstance(component, str) else None
        if found is None:
            name = checked_name("component", component)
            found = self.by_name.get(name)
            found = self.by_name.get(name + WITHOUT_PREDICTOR) if found is None and self.hidden else found
        return found

    def slot_of(self, component: str, measure: str = TIME) -> int:
        """Return the slot of a known component, or of a measure of it; raises UnknownComponent, InvalidValue."""
        if measure != TIME and measure not in MEASURE_SCALES:
            raise InvalidValue("measure", measure, f"one of {TIME}, {', '.join(MEASURE_SCALES)}")
        found = self.find_slot(component)
        if found is None:
            raise UnknownComponent(component, self.nearest(component))
        if measure != TIME:
            kinds = (
                self.of_measure(found, measure),
                self.by_name.get(component + WITHOUT_PREDICTOR + SEPARATOR + measure),
            )
            found = kinds[1] if kinds[0] is None else kinds[0]
            if found is None:
                raise NotEnoughData(
                    f"component {component!r} has no learned run with {measure}", field="measure", value=measure,
                    hint=f"observe runs with measures={{{measure!r}: ...}}",
                )  # fmt: skip
        return found

    def of_measure(self, slot: int, measure: str) -> int | None:
        """Return the slot of a measure of a component, None where it is not learned."""
        return self.by_name.get(self.names[slot] + SEPARATOR + measure) if self.hidden else None

    def without(self, slot: int) -> int | None:
        """Return the slot of a component's runs without predictor, or of a measure of these, beside its others; or None."""
        if not self.hidden:
            return None
        own, mark, measure = self.names[slot].partition(SEPARATOR)
        return self.by_name.get(own + WITHOUT_PREDICTOR + mark + measure)

    def owner(self, slot: int) -> str:
        """Return the name of the component that a slot is of; "" of a free one."""
        return self.names[slot].partition(SEPARATOR)[0]

    def group(self, component: str) -> list[int]:
        """Return the slots of a component: of its runs with and without predictor, and of their measures."""
        kinds = [component, component + WITHOUT_PREDICTOR]
        names = [own + end for own in kinds for end in ("", *(SEPARATOR + measure for measure in MEASURE_SCALES))]
        return [self.by_name[name] for name in names if name in self.by_name]

    def kind(self, slot: int) -> str:
        """Return what a slot learns: a measure, or "" for elapsed times."""
        found = self.names[slot].rpartition(SEPARATOR)[2]
        return found if found in MEASURE_SCALES and SEPARATOR in self.names[slot] else ""

    def nearest(self, component: str) -> tuple[str, ...]:
        """Return the known names most like one that is not known, the most alike first. Cost: some milliseconds at most."""
        likely = list(islice(self.components, NAMES_SCANNED))
        most = min(NAMES_COMPARED, LETTERS_COMPARED // (len(component) * max(map(len, likely), default=1)))
        if len(likely) > most:  # those that begin and end alike, then those that do either
            begin, end = component[:3], component[-3:]
            likely.sort(key=lambda name: (name[:3] != begin) + (name[-3:] != end))
        return tuple(get_close_matches(component, likely[:most], NAMES_REPORTED))

    def among(self, known: ComponentNames, index: Ints) -> Ints:
        """Return the slots of names by number (n,), UNRESOLVED of those that have none. A look-up is quicker than a sort."""
        cache = known.slots_of(self.generation)
        slots = cache[index]
        if (missing := slots == UNRESOLVED).any():
            numbers: list[int] = list(set(index[missing].tolist()))
            valid: list[bool] = known.valid[numbers].tolist()
            cache[numbers] = [
                self.by_name.get(known.names[number], UNRESOLVED) if ok else UNRESOLVED
                for number, ok in zip(numbers, valid, strict=True)
            ]
            slots = cache[index]
        return slots

    def as_numbered_names(self) -> ComponentNames:
        """Return the names of all slots, numbered by them. Cost O(1), O(slots) when there are more."""
        found = self._numbered
        if found.owner is not self.generation or len(found.slots) < len(self.names):
            found = self._numbered = ComponentNames.of(self.names, np.ones(len(self.names), np.bool_))
            found.owner, found.slots = self.generation, np.arange(len(self.names))
        return found

    # -- giving and taking ------------------------------------------------------------------------------------------------

    def give(self, columns: Columns, missing: Bools, good: Bools | None) -> dict[int, int]:
        """Give slots to rows that have none, and to their measures; return the row with which each new slot begins.

        In the order of first rows, a component before its measures, so that a cut batch gives the same slots.
        """
        known = columns.components
        cache = known.slots_of(self.generation)
        rows_by_rank = [(missing, "")]
        for measure in MEASURE_SCALES:
            values = columns.measures.get(measure)
            rows = missing[:0] if values is None else ended_well(columns, ~np.isnan(values), good)
            rows_by_rank.append((rows, SEPARATOR + measure))
        wanted: list[tuple[int, int, int, str]] = []
        for rank, (mask, measure) in enumerate(rows_by_rank):
            rows = np.flatnonzero(mask)
            numbers, first = np.unique(columns.index[rows], return_index=True)
            wanted += [(row, rank, n, measure) for row, n in zip(rows[first].tolist(), numbers.tolist(), strict=True)]
        began: dict[int, int] = {}
        for row, rank, number, measure in sorted(wanted):
            if not rank:
                cache[number] = self._give(known.names[number], began, row)
            elif known.names[number] in self.by_name:
                self._give(known.names[number] + measure, began, row)
        return began

    def _give(self, name: str, given: dict[int, int], row: int) -> int:
        """Return the slot of a name, a new one where it has none, noted in `given`; UNRESOLVED where there is no room."""
        found = self.by_name.get(name)
        if found is not None:
            return found
        if self.full:
            return UNRESOLVED
        if self.free:
            found = heappop(self.free)
            self._rename(found, name)
        else:
            found = self.by_name[name] = len(self.names)
            self.names.append(name)
            self.hidden += SEPARATOR in name
        given[found] = row
        return found

    def assign_slots(self, names: Sequence[str]) -> Ints:
        """Return the slots of names, giving new ones where needed.

        Raises TooLarge when there is no room for all of them; nothing is changed then.
        """
        new = {name for name in names if name not in self.by_name}
        if len(self) - len(self.free) + len(new) > self.components_max:
            raise TooLarge(
                "components", len(self) + len(new), self.components_max, "raise components_max, or merge fewer"
            )
        return np.array([self._give(name, {}, 0) for name in names], np.int64)

    def _rename(self, slot: int, name: str) -> None:
        former = self.names[slot]
        self.hidden += (SEPARATOR in name) - (SEPARATOR in former)
        del self.by_name[former]
        self.names[slot], self.by_name[name] = name, slot
        self.renames += 1
        self.renamed[slot] = None

    def free_slots(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Free the slots of components, of those that are known; return them by name.

        A free slot has a name that no component can have, until it serves another one.
        """
        found = {name: slots for name in dict.fromkeys(names) if SEPARATOR not in name and (slots := self.group(name))}
        for slot in chain.from_iterable(found.values()):
            self._rename(slot, f"{SEPARATOR}{slot}")
            heappush(self.free, slot)
        self.generation = object()
        return found

    def set_names(self, first: int, names: Sequence[str]) -> None:
        """Set the names of slots from `first` on, free ones before them; `index` comes behind the last."""
        self.names += [f"{SEPARATOR}{slot}" for slot in range(len(self.names), first)]
        self.names[first : first + len(names)] = names

    def index(self) -> None:
        """Find again what the names of all slots say; raises InvalidValue when two are equal."""
        self.components_max = max(self.components_max, len(self.names))
        self.by_name = {name: slot for slot, name in enumerate(self.names)}
        if len(self.by_name) != len(self.names):
            raise InvalidValue("names", len(self.names), "a name of its own for each slot")
        self.hidden = sum(SEPARATOR in name for name in self.names)
        self.free = [slot for slot, name in enumerate(self.names) if name.startswith(SEPARATOR)]
