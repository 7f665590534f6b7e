"""What rows show of watched components: how many came, on how many cores, and how long they took since a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.domain.observations import Columns
from advisor.engine.components import Components
from advisor.planning.estimates import Setting

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEMORY_ROWS = 16  # the mean of the cores in use looks back over so many rows: a change of allocation shows soon
NOBODY = -1


class Tally:
    """Run times of a network's components on the cores that they were to have, since a change."""

    def __init__(self, places: Ints, cores: Floats) -> None:
        self._cores = cores
        self.runs = np.zeros(len(places), np.int64)  # int64 array (keys,)
        # mean, square: float64 arrays (keys,): of the elapsed times: their mean, and the sum of squared deviations
        # from it
        self.mean = np.zeros(len(places))
        self.square = np.zeros(len(places))
        # Keys of one component are told apart by their cores: one table a recurrence, from place to key.
        self._tables: list[dict[int, int]] = []
        for key, place in enumerate(places.tolist()):
            table = next((each for each in self._tables if place not in each), None)
            if table is None:
                table = dict[int, int]()
                self._tables.append(table)
            table[place] = key

    def add(self, places: Ints, cores: Floats, elapsed_s: Floats) -> None:
        """Take in rows (n,): each counts for the key whose component and cores it has. Cost O(n + keys)."""
        for table in self._tables:
            lookup = np.full(max([*table, int(places.max())]) + 1, NOBODY, np.int64)
            lookup[list(table)] = list(table.values())
            key = lookup[places]
            here = (key != NOBODY) & (self._cores[key] == cores)
            if here.any():
                self._merge(key[here], elapsed_s[here])

    def _merge(self, key: Ints, t: Floats) -> None:
        """Merge means and squared deviations pairwise (Chan, Golub and LeVeque 1979)."""
        n = np.bincount(key, minlength=len(self.runs))
        some = np.maximum(n, 1)
        mean = np.bincount(key, weights=t, minlength=len(n)) / some
        square = np.bincount(key, weights=np.square(t - mean[key]), minlength=len(n))
        total = np.maximum(self.runs + n, 1)
        apart = np.where(n > 0, mean - self.mean, 0.0)
        self.square += square + np.square(apart) * self.runs * n / total
        self.mean += apart * n / total
        self.runs += n

    def spread(self) -> Floats:
        """Return the relative standard error of each mean, (keys,)."""
        freedom = np.maximum(self.runs - 1, 1)
        return np.sqrt(self.square / freedom / np.maximum(self.runs, 1)) / np.maximum(self.mean, 1e-300)


class ObservedCores:
    """The rows of watched components.

    `components`: the engine's: which slot each name has.
    """

    def __init__(self, components: Components) -> None:
        self._components = components
        self._places: dict[str, int] = {}
        self._users: dict[int, int] = {}  # place -> watches of it
        self._free: list[int] = []
        self._place_of = np.zeros(0, np.int64)  # slot -> place
        self._unknown: set[str] = set()  # watched, not observed yet
        self._known = 0  # components when they were looked up
        self.rows = np.zeros(0, np.int64)
        self.cores = np.zeros(0)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, names: Sequence[str]) -> Ints:
        """Watch components; return their places."""
        found: list[int] = []
        for name in names:
            place = self._places.get(name)
            if place is None:
                place = self._free.pop() if self._free else len(self.rows)
                if place == len(self.rows):
                    grown = max(8, place)  # doubles
                    self.rows = np.append(self.rows, np.zeros(grown, np.int64))
                    self.cores = np.append(self.cores, np.zeros(grown))
                    self._free += range(len(self.rows) - 1, place, -1)
                self.rows[place], self.cores[place] = 0, 0.0
                self._places[name], self._users[place] = place, 0
                self._unknown.add(name)
            self._users[place] += 1
            found.append(place)
        self._known = -1
        return np.array(found, np.int64)

    def drop(self, names: Sequence[str]) -> None:
        """Watch them no more."""
        for name in names:
            place = self._places[name]
            self._users[place] -= 1
            if not self._users[place]:
                del self._places[name], self._users[place]
                self._unknown.discard(name)
                self._free.append(place)
                slot = self._components.slots.by_name.get(name, NOBODY)
                if 0 <= slot < len(self._place_of):
                    self._place_of[slot] = NOBODY

    def fold(self, columns: Columns) -> tuple[Ints, Floats, Floats] | None:
        """Take in a batch that the engine has folded; return its watched rows: places, cores, elapsed_s (n,), or None."""
        if not self._places:
            return None
        self._look_up()
        slots = columns.components.slots_of(self._components.slots.era)[columns.index]
        places = np.where(slots >= 0, self._place_of[slots], NOBODY)
        good = (places != NOBODY) & (columns.elapsed_s > 0) & (columns.cores > 0)
        if columns.ok is not None:
            good &= columns.ok
        if columns.running is not None:
            good &= ~columns.running
        rows = np.flatnonzero(good)
        if not len(rows):
            return None
        places, cores, elapsed_s = places[rows], columns.cores[rows], columns.elapsed_s[rows]
        n = np.bincount(places, minlength=len(self.rows))
        mean = np.bincount(places, weights=cores, minlength=len(n)) / np.maximum(n, 1)
        share = np.where(self.rows > 0, np.minimum(n / MEMORY_ROWS, 1.0), np.minimum(n, 1))
        self.cores += share * (mean - self.cores)
        self.rows += n
        return places, cores, elapsed_s

    def _look_up(self) -> None:
        if len(self._components) == self._known:
            return
        self._known = len(self._components)
        more = self._known - len(self._place_of)
        if more > 0:
            self._place_of = np.append(self._place_of, np.full(more, NOBODY, np.int64))
        for name in list(self._unknown):
            slot: Any = self._components.slots.by_name.get(name)
            if slot is not None:
                self._place_of[slot] = self._places[name]
                self._unknown.discard(name)

    def present(self, keys: Sequence[str], places: Ints, instances: Mapping[str, int]) -> Setting | None:
        """Return what a network's components run on, by their rows; None while one has shown nothing."""
        if not len(places) or not self.rows[places].all():
            return None
        return Setting(
            dict(zip(keys, self.cores[places].tolist(), strict=True)), {key: instances.get(key, 1) for key in keys}
        )
