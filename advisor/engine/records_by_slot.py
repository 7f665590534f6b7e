"""Which components have a record in tables beside the base table, and where: found by the component's slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from advisor.domain.vectors import Bools, Ints
from advisor.models.fold import ABSENT
from advisor.models.records import RecordTable

T = TypeVar("T", bound=RecordTable)


class RecordsBySlot(Generic[T]):
    """Tables of records, each record one component's.

    `made`: makes the empty table of a name.
    """

    def __init__(self, made: Callable[[str], T]) -> None:
        self._made = made
        self.tables: dict[str, T] = {}  # by name, in the order in which they were made
        self._ordered: list[T] = []
        # By slot: the table of its record, as a number in the order above, and its place there.
        self._home: NDArray[Any] = np.full(0, ABSENT, np.int16)
        self._place: NDArray[Any] = np.full(0, ABSENT, np.int32)
        self._freed = False  # whether some table may have free places before its last

    @property
    def bytes(self) -> int:
        """Bytes of all tables."""
        return sum(table.bytes for table in self._ordered)

    def named(self, name: str) -> T:
        """Return the table of a name, made where there is none."""
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = self._made(name)
            self._ordered.append(found)
        return found

    def find_record(self, slot: int) -> tuple[T, int] | None:
        """Return the table and place of a component's record, or None."""
        if slot >= len(self._place) or self._place[slot] == ABSENT:
            return None
        return self._ordered[int(self._home[slot])], int(self._place[slot])

    def places_of_slots(self, slots: Ints) -> Ints:
        """Return the places (n,) of components' records, ABSENT where they have none."""
        found = np.full(len(slots), ABSENT, np.int64)
        known = slots < len(self._place)
        found[known] = self._place[slots[known]]
        return found

    def free_places(self, table: T) -> list[int]:
        """Return the places of a table that are nobody's. Cost O(records) once one was freed."""
        return np.flatnonzero(table.int_field("component")[: table.size] < 0).tolist() if self._freed else []

    def within(self, first: int, end: int) -> Iterator[tuple[str, T, Ints]]:
        """Yield each table with records of the slots from `first` to before `end`: its name, itself, and their places."""
        home, place = self._home[first:end], self._place[first:end]
        for number, (name, table) in enumerate(self.tables.items()):
            found = place[home == number]
            if len(found):
                yield name, table, found.astype(np.int64)

    def give(self, slot: int, table: T) -> int:
        """Give a component an empty record, and return its place: a free one first."""
        free = self.free_places(table)
        place = free[0] if free else table.size
        table.grow(place + 1)
        table.int_field("component")[place] = slot
        self._reserve(slot + 1)
        self._home[slot], self._place[slot] = self._ordered.index(table), place
        return place

    def free(self, slot: int) -> None:
        """Take a component's record away; its place serves the next one."""
        found = self.find_record(slot)
        if found is not None:
            table, place = found
            table.words[place] = table.empty_record()
            self._home[slot] = self._place[slot] = ABSENT
            self._freed = True
            while table.size and table.int_field("component")[table.size - 1] < 0:
                table.size -= 1

    def copy(self, other: RecordsBySlot[T], theirs: Ints, mine: Ints) -> None:
        """Take copies of the records of another's components `theirs` (n,) for ours, which have none, as far as there is room.

        Cost O(n): nothing is solved.
        """
        wanted = theirs < len(other._place)
        wanted[wanted] = other._place[theirs[wanted]] != ABSENT
        theirs, mine = theirs[wanted], mine[wanted]
        home, places = other._home[theirs], other._place[theirs]
        own = {n: self.named(name) for n, name in enumerate(other.tables) if (home == n).any()}
        room = self._room_for(home, own)
        for number, table in own.items():
            at = np.flatnonzero((home == number) & room)
            if len(at):
                self._adopt(table, mine[at], table.copy_from(other._ordered[number], places[at], mine[at]))

    def _room_for(self, home: Ints, own: Mapping[int, T]) -> Bools:
        """Return which records, each to come to the table of its number, there is room for."""
        del own
        return np.ones(len(home), np.bool_)

    def restore(self) -> None:
        """Find each component's record again, from what the records say. A record that was lost is empty and nobody's."""
        for table, owners in self.owners():
            taken = np.flatnonzero(owners >= 0)
            self._freed = self._freed or len(taken) < len(owners)
            table.size = int(taken[-1]) + 1 if len(taken) else 0  # a page holds places that were never given
            if len(taken):
                self._adopt(table, owners[taken], taken)

    def owners(self) -> Iterator[tuple[T, Ints]]:
        """Yield each table and the slots of its records in the order of their places, -1 where one is nobody's."""
        for table in self._ordered:
            yield table, table.int_field("component")[: table.size]

    def _adopt(self, table: T, slots: Ints, places: Ints) -> None:
        self._reserve(int(slots.max()) + 1)
        self._home[slots] = next(i for i, one in enumerate(self._ordered) if one is table)
        self._place[slots] = places

    def _reserve(self, slots: int) -> None:
        more = slots - len(self._place)
        if more > 0:
            none = np.full(max(more, len(self._place) // 8), ABSENT, np.int32)
            self._home, self._place = np.append(self._home, none.astype(np.int16)), np.append(self._place, none)
