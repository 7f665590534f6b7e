"""Shards in this process, as a front has them in others: they end when a test says so, also in the middle of a call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from advisor.cluster.connections import Gone
from advisor.cluster.shard import Shard
from advisor.storage import Store


class Killed(BaseException):
    """The process ends here."""


class Here:
    """A process that serves a shard, or may.

    `fate` is asked before each call: None, or at which of its points the process ends: before it, after it, or before or
    after its commit.
    """

    def __init__(self, fate: Callable[[str], str | None]) -> None:
        self.shard: Shard | None = None
        self.gone = False
        self._fate = fate

    async def call(self, method: str, *args: Any) -> Any:
        await asyncio.sleep(0)
        if self.gone:
            raise Gone("it has ended")
        fate = self._fate(method)
        if fate == "before":
            self._end()
        append = Store.append

        def appends(*given: Any) -> None:
            if fate == "before commit":
                raise Killed
            append(*given)
            if fate == "after commit":
                raise Killed

        Store.append = appends  # type: ignore[method-assign]
        try:
            if method == "open":
                self.shard = Shard(*args)
                found: Any = None
            else:
                found = getattr(self.shard, method)(*args)
        except Killed:
            self._end()
        finally:
            Store.append = append  # type: ignore[method-assign]
        await asyncio.sleep(0)
        if fate == "after" or self.gone:
            self._end()
        return found

    def _end(self) -> None:
        self.kill()
        raise Gone("it has ended")

    def kill(self) -> None:
        self.gone = True
        if self.shard is not None:
            self.shard.close()
            self.shard = None


class Processes:
    """What starts them, as `Runtime`; `kills`: so many calls end in one, at moments that a seed chooses."""

    def __init__(self, seed: int = 0, kills: int = 0, every: int = 12) -> None:
        self._random = random.Random(seed)
        self.kills_left = kills
        self.killed = 0
        self._every = every
        self.there: list[Here] = []
        self.most: int | None = None  # processes, as `places` says
        self.may_start = asyncio.Event()  # cleared: none starts
        self.may_start.set()
        self.spared = True  # as long as the shards start: what fails then is raised, and not tried again

    def _fate(self, method: str) -> str | None:
        if self.spared or self.kills_left <= 0 or self._random.random() * self._every > 1.0:
            return None
        self.kills_left -= 1
        self.killed += 1
        points = ("before", "after", "before commit", "after commit")
        return self._random.choice(points) if method in ("apply_items", "receive_part") else "after"

    async def start(self) -> None:
        """None outlives the front that has started it."""
        await self.stop()

    async def spawn(self) -> Here:
        await self.may_start.wait()
        self.there.append(Here(self._fate))
        return self.there[-1]

    def places(self) -> int | None:
        return self.most

    async def stop(self) -> None:
        for each in self.there:
            each.kill()
