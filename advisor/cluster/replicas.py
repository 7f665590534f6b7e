"""What the front knows of components: copies of their states, fetched from the shards before a question about them.

A component's state is of constant size, some 6 KB, so a replica answers every question as its shard would, to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from itertools import chain
from typing import NamedTuple

import anyio.lowlevel

from advisor.cluster.connections import ShardConnection
from advisor.cluster.shard_set import ShardSet
from advisor.domain.names import normalised_name
from advisor.engine import Engine
from advisor.engine.siblings import first_members


class Fetched(NamedTuple):
    """When a replica was fetched, from where, and how many calls its shard had acknowledged then."""

    at: float
    shard: ShardConnection
    calls: int


class ComponentReplicas:
    """The replicas.

    `engine`: which holds them, and answers. `age_s`: an older replica is fetched again before it answers, where its shard has
    applied something since. `most`: beyond, those fetched first make room.
    """

    def __init__(
        self, engine: Engine, shards: ShardSet, *, age_s: float, most: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine, self._shards, self._age_s, self._most, self._clock = engine, shards, age_s, most, clock
        self._fetched: dict[str, Fetched] = {}  # in the order of fetching
        self.networks_behind = set[str]()  # networks that rows have named since they were fetched
        self.watched: Callable[[], set[str]] = set  # returns those of watches, which advice has too
        self._siblings: dict[str, list[str]] = {}  # of components whose answers rest on siblings, too

    def _behind(self, name: str) -> bool:
        """Return whether the shard of a replica has applied something since."""
        fetched, shard = self._fetched[name], self._shards.shard_of(name)
        return fetched.shard is not shard or fetched.calls != shard.calls

    @property
    def age_s(self) -> float:
        """Seconds since the oldest replica that may lack something was fetched."""
        now = self._clock()
        return max((now - each.at for name, each in self._fetched.items() if self._behind(name)), default=0.0)

    def due(self, names: Iterable[str], *, fresh: bool = False) -> list[str]:
        """Return the names to be fetched before a question about them is answered."""
        since = self._clock() - (0.0 if fresh else self._age_s)
        legal = dict.fromkeys(name for given in names if (name := normalised_name(given)) is not None)
        legal |= dict.fromkeys(each for name in legal for each in self._siblings.get(name, ()))
        return [
            name for name in legal
            if name not in self._fetched or (self._fetched[name].at <= since and self._behind(name))
        ]  # fmt: skip

    async def fetch_with_siblings(self, names: Collection[str], cores: float = 0.0) -> None:
        """Fetch components, and the siblings that answers about them on so many cores rest on."""
        await self.fetch(names)
        siblings = self._engine.advisor.components.siblings
        asked = {name: siblings.groups_asked(name, cores) for name in names}
        groups = [*dict.fromkeys(chain.from_iterable(asked.values()))]
        each = await self._shards.each("siblings", groups) if groups else []
        lent = {group: first_members(chain(*some)) for group, *some in zip(groups, *each, strict=True)}
        self._siblings |= {name: [*chain.from_iterable(map(lent.__getitem__, own))] for name, own in asked.items()}
        if groups:
            await self.fetch(self.due(chain.from_iterable(lent.values()), fresh=True))

    async def fetch(self, names: Collection[str], programs: Collection[str] = ()) -> None:
        """Fetch components and programs, and the networks that rows have named since."""
        networks, self.networks_behind = self.networks_behind, set[str]()
        self._make_room(len(names))
        while True:
            layout = self._shards.layout
            found = {name: Fetched(self._clock(), shard := self._shards.shard_of(name), shard.calls) for name in names}
            for part in await self._shards.extract_part(names, networks, programs):
                self._engine.replace_part(Engine.from_bytes(part))
                await anyio.lowlevel.checkpoint()
            if layout is self._shards.layout:  # else one may have been asked for what it no longer had
                break
        for name in names:
            self._fetched.pop(name, None)
        self._fetched |= found

    async def refresh(self) -> bool:
        """Fetch again what watches follow; return whether there was something."""
        names = [name for name in self.watched() if name not in self._fetched or self._behind(name)]
        if names or self.networks_behind:
            await self.fetch(names)
        return bool(names)

    def forget(self, name: str) -> None:
        """Fetch a component again before it answers."""
        self._fetched.pop(name, None)

    def _make_room(self, more: int) -> None:
        if len(self._fetched) + more > self._most:
            followed = self.watched()  # watches know them by their slots
            gone = [name for name in self._fetched if name not in followed][: more + self._most // 8]
            for name in gone:
                del self._fetched[name]
                self._siblings.pop(name, None)
            self._engine.remove_part(gone)
