"""Shards in this process, as a fleet has them in others: they end when a test says so, also in the middle of a call."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from advisor.cluster import keeping
from advisor.cluster.lanes import Gone
from advisor.cluster.shard import Shard


class Killed(BaseException):
    """The process ends here."""


class Here:
    """A process that is a shard, or may become one.

    `fate` is asked before each call: None, or at which of its points the process ends: before it, after it, or when so
    many places have been written.
    """

    def __init__(self, name: str, fate: Callable[[str], str | int | None]) -> None:
        self.name = name
        self.shard: Shard | None = None
        self.gone = False
        self._fate = fate

    async def call(self, method: str, *args: Any) -> Any:
        await asyncio.sleep(0)
        if self.gone:
            raise Gone(self.name)
        fate = self._fate(method)
        if fate == "before":
            self.kill()
            raise Gone(self.name)
        written, write = 0, keeping._write

        def writes(*given: Any) -> None:
            nonlocal written
            if isinstance(fate, int) and written >= fate:
                raise Killed
            write(*given)
            written += 1

        keeping._write = writes
        try:
            if method == "open":
                self.shard = Shard(*args)
                found: Any = None
            else:
                found = getattr(self.shard, method)(*args)
        except Killed:
            self.kill()
            raise Gone(self.name) from None
        finally:
            keeping._write = write
        await asyncio.sleep(0)
        if fate == "after" or self.gone:
            self.kill()
            raise Gone(self.name)
        return found

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
        self._numbered = 0
        self.there: list[Here] = []
        self.most: int | None = None  # processes, as `places` says
        self.may_start = asyncio.Event()  # cleared: none starts
        self.may_start.set()
        self.spared = True  # as long as the fleet starts: what fails then is said, and not tried again

    def _fate(self, method: str) -> str | int | None:
        if self.spared or self.kills_left <= 0 or self._random.random() * self._every > 1.0:
            return None
        self.kills_left -= 1
        self.killed += 1
        return self._random.choice(("before", "after", 0, 1)) if method != "open" else "after"

    async def start(self) -> None: ...

    async def spawn(self) -> Here:
        await self.may_start.wait()
        self._numbered += 1
        self.there.append(Here(f"process {self._numbered}", self._fate))
        return self.there[-1]

    def places(self) -> int | None:
        return self.most

    async def found(self) -> list[tuple[Here, int | None]]:
        return [(each, each.shard and each.shard.number) for each in self.there if not each.gone]

    async def stop(self) -> None:
        for each in self.there:
            each.kill()
