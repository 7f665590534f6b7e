"""What the front knows of components: copies of their states, of those that were asked for, and how far they are behind.

A component's state is of constant size, some 6 KB, so a copy answers every question as its shard would, to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import anyio.lowlevel

from advisor.cluster.fleet import Fleet
from advisor.domain.names import normalised_name
from advisor.engine import Engine

PUT_AT_ONCE = 32  # copies taken in at a time, some 2 ms, before others have their turn
KEPT_S = 30.0  # that a component which nobody asks for any more is kept up to date


class Behind(NamedTuple):
    """How far a copy is behind: acknowledged rows that it lacks, and seconds since it was all there was."""

    rows: int
    seconds: float


@dataclass(slots=True)
class Copy:
    """When a component was asked for."""

    taken: float  # when its shard was asked
    acknowledged: int  # rows that were acknowledged then, as its lane counts them
    wanted: float  # when somebody last had a question about it


class Copies:
    """The copies.

    `engine`: which holds them, and answers. `rows_max`, `age_s`: a copy that lacks more rows, or that lacks rows and is
    older, is asked for again before it answers. `copies_max`: the longest unwanted make room.
    """

    def __init__(
        self, engine: Engine, fleet: Fleet, *, rows_max: int, age_s: float, copies_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._engine, self._fleet = engine, fleet
        self.rows_max, self.age_s, self._copies_max = rows_max, age_s, copies_max
        self._clock = clock
        self._of: dict[str, Copy] = {}
        self.networks_behind: set[str] = set()
        self.defined: set[str] = set()  # components of networks that are advised of
        self.watched: Callable[[], set[str]] = set  # returns those that somebody watches
        self.asked = 0  # names that shards were asked for
        fleet.rejoins = self._rejoined
        self.era = 0  # counts what rows do not tell: layouts, and components that were changed by hand

    def __len__(self) -> int:
        return len(self._of)

    def acknowledged(self, name: str) -> int:
        """Return how many rows of a component were acknowledged under this layout."""
        number, lane = self._fleet.router.number_of(name), self._fleet.lane_of(name)
        return int(lane.acknowledged[number]) if number is not None and number < len(lane.acknowledged) else 0

    def _rejoined(self) -> None:
        """Lanes are about to count anew: note what each copy lacks."""
        self.era += 1
        for name, copy in self._of.items():
            copy.acknowledged -= self.acknowledged(name)

    def behind(self, name: str) -> Behind | None:
        """Return how far a copy is behind; None where there is none."""
        copy = self._of.get(name)
        if copy is None:
            return None
        rows = self.acknowledged(name) - copy.acknowledged
        return Behind(rows, self._clock() - copy.taken if rows else 0.0)

    def stale(self, rows: int, seconds: float) -> bool:
        """Return whether what lacks so many rows, for so long, must be asked for again."""
        return rows > self.rows_max or (rows > 0 and seconds > self.age_s)

    def due(self, names: Iterable[str], *, fresh: bool = False) -> list[str]:
        """Return the names that have to be asked for before a question about them is answered."""
        found: list[str] = []
        now = self._clock()
        for given in dict.fromkeys(names):
            name = normalised_name(given)
            if name is None:
                continue
            behind = self.behind(name)
            if behind is not None:
                self._of[name].wanted = now
            if behind is None or fresh or self.stale(*behind):
                found.append(name)
        return found

    async def gather(self, names: Collection[str], programs: Collection[str] = ()) -> None:
        """Ask the shards for components and programs, and for the networks that rows have named since."""
        networks, self.networks_behind = self.networks_behind, set()
        era, now = self.era, self._clock()
        self._make_room(len(names))
        acknowledged = {name: self.acknowledged(name) for name in names}
        for part in await self._fleet.part(names, networks, programs):
            found = Engine.from_bytes(part)
            known = [*found.advisor.components.slots.components]
            if len(known) <= PUT_AT_ONCE:
                self._engine.put(found)
                continue
            for start in range(0, len(known), PUT_AT_ONCE):
                some = known[start : start + PUT_AT_ONCE]
                self._engine.put(Engine.from_bytes(found.part(some, networks if not start else ())))
                await anyio.lowlevel.checkpoint()
        self.asked += len(names)
        for name in names:
            if era == self.era:
                former = self._of.get(name)
                self._of[name] = Copy(now, acknowledged[name], now if former is None else former.wanted)

    async def refresh(self) -> bool:
        """Ask again for what lacks rows and is wanted; return whether there was something."""
        since, followed = self._clock() - KEPT_S, self.defined | self.watched()
        names = [
            name for name, copy in self._of.items()
            if (copy.wanted >= since or name in followed) and self.acknowledged(name) != copy.acknowledged
        ]  # fmt: skip
        names += [name for name in followed if name not in self._of]
        if names or self.networks_behind:
            await self.gather(names)
        return bool(names)

    def forget(self, name: str) -> None:
        """Ask for a name again before it answers: it has changed otherwise than by rows."""
        self._of.pop(name, None)
        self.era += 1

    def worst(self) -> Behind:
        """Return how far the copies are behind at most. Cost O(copies)."""
        found = [behind for name in self._of if (behind := self.behind(name)) is not None]
        return Behind(max((each.rows for each in found), default=0), max((each.seconds for each in found), default=0.0))

    def _make_room(self, more: int) -> None:
        if len(self._of) + more <= self._copies_max:
            return
        followed = self.defined | self.watched()  # who watches knows them by their places
        free = [name for name in self._of if name not in followed]
        gone = sorted(free, key=lambda name: self._of[name].wanted)[: more + self._copies_max // 8]
        for name in gone:
            del self._of[name]
        self._engine.leave(gone)
