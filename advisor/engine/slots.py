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
from advisor.engine.rows import ended_well
from advisor.errors import InvalidValue, NotEnoughData, TooLarge, UnknownComponent

# What is learned beside time goes through the same tables as a component of its own, whose name nobody can send: no name may
# hold a control character. Values are scaled, by powers of two, into the domain of elapsed times.
SEPARATOR: Final = "\x1f"
MEASURE_SCALES: Mapping[str, float] = {"peak_bytes": 2.0**-30, "energy_j": 2.0**-20}
TIME: Final = "elapsed_s"
# So are elapsed times of rows without predictor, of a component that has rows with one.
APART: Final = "no_predictor"
NAMES_SCANNED, NAMES_COMPARED = 10_000, 200  # for one that is not known: some milliseconds
LETTERS_COMPARED = 60_000  # pairs of them: two names may be compared each letter with each, for 0.1 microseconds
NAMES_TOLD = 3


class Slots:
    """Names to slots and back. Slots are given once, in the order of first accepted rows; a dropped one serves a later name."""

    def __init__(self, components_max: int) -> None:
        self.components_max = components_max
        self.names: list[str] = []  # by slot
        self.by_name: dict[str, int] = {}
        self.measures = 0  # slots of what is learned beside time, and free ones
        self.free: list[int] = []  # slots whose components were dropped, a heap: the least serves the next new name
        self.dropped: dict[str, None] = {}  # names of those that are no more: since somebody took note
        self.renames = 0  # how often a slot got another name
        self.era = object()  # a list of names resolved before another one began is resolved anew

    def __len__(self) -> int:
        """Return how many slots are taken: components, and their measures."""
        return len(self.names)

    @property
    def components(self) -> list[str]:
        """Names of the components, without what is learned of them beside time."""
        return [name for name in self.names if SEPARATOR not in name] if self.measures else self.names

    @property
    def full(self) -> bool:
        """Whether no new name finds a slot."""
        return not self.free and len(self.names) >= self.components_max

    # -- looking up -------------------------------------------------------------------------------------------------------

    def find(self, component: str) -> int | None:
        """Return the slot of a component, None where it was never observed; raises InvalidValue for what is no name."""
        found = self.by_name.get(component) if isinstance(component, str) else None
        return found if found is not None else self.by_name.get(checked_name("component", component))

    def of(self, component: str, measure: str = TIME) -> int:
        """Return the slot of a known component, or of a measure of it; raises UnknownComponent, InvalidValue."""
        if measure != TIME and measure not in MEASURE_SCALES:
            raise InvalidValue("measure", measure, f"one of {TIME}, {', '.join(MEASURE_SCALES)}")
        found = self.find(component)
        if found is None:
            raise UnknownComponent(component, self.nearest(component))
        if measure != TIME:
            found = self.of_measure(found, measure)
            if found is None:
                raise NotEnoughData(
                    f"component {component!r} has no learned run with {measure}", field="measure", value=measure,
                    hint=f"observe runs with measures={{{measure!r}: ...}}",
                )  # fmt: skip
        return found

    def of_measure(self, slot: int, measure: str) -> int | None:
        """Return the slot of a measure of a component, None where it is not learned."""
        return self.by_name.get(self.names[slot] + SEPARATOR + measure) if self.measures else None

    def with_measures(self, slot: int) -> list[int]:
        """Return the slots of a component, of its measures, and of its rows without predictor."""
        return [slot, *(s for m in (*MEASURE_SCALES, APART) if (s := self.of_measure(slot, m)) is not None)]

    def kind(self, slot: int) -> str:
        """Return what a slot learns: a measure, or "" for elapsed times."""
        found = self.names[slot].partition(SEPARATOR)[2]
        return "" if found == APART else found

    def nearest(self, component: str) -> tuple[str, ...]:
        """Return the known names most like one that is not known, the most alike first. Cost: some milliseconds at most."""
        likely = [name for name in islice(self.by_name, NAMES_SCANNED) if SEPARATOR not in name]
        most = min(NAMES_COMPARED, LETTERS_COMPARED // (len(component) * max(map(len, likely), default=1)))
        if len(likely) > most:  # those that begin and end alike, then those that do either
            begin, end = component[:3], component[-3:]
            likely.sort(key=lambda name: (name[:3] != begin) + (name[-3:] != end))
        return tuple(get_close_matches(component, likely[:most], NAMES_TOLD))

    def among(self, known: ComponentNames, index: Ints) -> Ints:
        """Return the slots of names by number (n,), UNRESOLVED of those that have none. A look-up is quicker than a sort."""
        cache = known.slots_of(self.era)
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

    # -- giving and taking ------------------------------------------------------------------------------------------------

    def give(
        self, columns: Columns, missing: Bools, good: Bools | None, apart: Iterable[tuple[int, int]] = ()
    ) -> dict[int, int]:
        """Give slots to rows that have none, and to their measures; return the row with which each new slot begins.

        In the order of first rows, a component before its measures, so that a cut batch gives the same slots. `apart`: rows
        with which components, by number, come to have rows both with and without predictor.
        """
        known = columns.components
        cache = known.slots_of(self.era)
        wanted = [(row, 1 + len(MEASURE_SCALES), number, APART) for row, number in apart]
        rows_by_rank = [(missing, "")]
        for measure in MEASURE_SCALES:
            values = columns.measures.get(measure)
            rows = missing[:0] if values is None else ended_well(columns, ~np.isnan(values), good)
            rows_by_rank.append((rows, measure))
        for rank, (mask, measure) in enumerate(rows_by_rank):
            rows = np.flatnonzero(mask)
            numbers, first = np.unique(columns.index[rows], return_index=True)
            wanted += [(row, rank, n, measure) for row, n in zip(rows[first].tolist(), numbers.tolist(), strict=True)]
        began: dict[int, int] = {}
        for row, rank, number, measure in sorted(wanted):
            if not rank:
                cache[number] = self._give(known.names[number], began, row)
            elif known.names[number] in self.by_name:
                self._give(known.names[number] + SEPARATOR + measure, began, row)
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
            self.measures += SEPARATOR in name
        given[found] = row
        return found

    def add(self, names: Sequence[str]) -> Ints:
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
        self.measures += (SEPARATOR in name) - (SEPARATOR in former)
        del self.by_name[former]
        self.names[slot], self.by_name[name] = name, slot
        self.renames += 1

    def drop(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Free the slots of components, of those that are known; return them by name, each with those of its measures.

        A free slot has a name that no component can have, until it serves another one.
        """
        known = [name for name in dict.fromkeys(names) if name in self.by_name and SEPARATOR not in name]
        found = {name: self.with_measures(self.by_name[name]) for name in known}
        for slot in chain.from_iterable(found.values()):
            self._rename(slot, f"{SEPARATOR}{slot}")
            heappush(self.free, slot)
        self.dropped |= dict.fromkeys(found)
        self.era = object()
        return found

    def put(self, first: int, names: Sequence[str]) -> None:
        """Set the names of slots from `first` on, free ones before them; `index` comes behind the last."""
        self.names += [f"{SEPARATOR}{slot}" for slot in range(len(self.names), first)]
        self.names[first : first + len(names)] = names

    def index(self) -> None:
        """Find again what the names of all slots say; raises InvalidValue when two are equal."""
        self.components_max = max(self.components_max, len(self.names))
        self.by_name = {name: slot for slot, name in enumerate(self.names)}
        if len(self.by_name) != len(self.names):
            raise InvalidValue("names", len(self.names), "a name of its own for each slot")
        self.measures = sum(SEPARATOR in name for name in self.names)
        self.free = [slot for slot, name in enumerate(self.names) if name.startswith(SEPARATOR)]
