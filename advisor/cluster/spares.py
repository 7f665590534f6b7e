"""Processes that may become shards, some of them started before they are needed."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from advisor.cluster.lanes import Handle, NoPlace
from advisor.errors import Unavailable


class Runtime(Protocol):
    """What runs the processes of shards."""

    async def start(self) -> None:
        """Be ready to start them."""
        ...

    async def spawn(self) -> Handle:
        """Start a process that may become a shard; return when it is ready to."""
        ...

    def places(self) -> int | None:
        """Return for how many processes there is room where nothing else runs; None: for any number."""
        ...

    async def found(self) -> list[tuple[Handle, int | None]]:
        """Return the processes that an earlier front has left, and which shard each is."""
        ...

    async def stop(self) -> None:
        """End all processes."""
        ...


class Spares:
    """Processes kept ready.

    `wanted`: how many there are, as soon as they have started.
    """

    def __init__(self, runtime: Runtime, wanted: int) -> None:
        self._runtime, self._wanted = runtime, wanted
        self._starting: deque[asyncio.Task[Handle]] = deque()

    def start(self, more: int = 0) -> None:
        """Start those that are wanted, and so many more."""
        while len(self._starting) < self._wanted + more:
            self._starting.append(asyncio.get_running_loop().create_task(self._runtime.spawn()))

    @property
    def ready(self) -> bool:
        """True where one has started."""
        return any(task.done() for task in self._starting)

    def refuse_beyond_places(self, shards: int) -> None:
        """Raise Unavailable where there cannot be so many processes."""
        places = self._runtime.places()
        if places is not None and shards > places:
            raise no_place(shards, f"there are cores for {places}")

    async def take(self, within_s: float) -> Handle:
        """Return the first that is ready; another one is started in its place.

        Raises Gone where it has ended, NoPlace where none has started within so many seconds.
        """
        while True:
            if not self._starting:
                self.start(1)
            done, _ = await asyncio.wait(self._starting, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise NoPlace(f"no process has started within {within_s:g} s")
            task = done.pop()
            if task in self._starting:  # nobody else has taken it meanwhile
                self._starting.remove(task)
                self.start()
                return task.result()

    def want_no_more(self) -> None:
        """Give up those that have not started and are more than wanted."""
        pending = [task for task in self._starting if not task.done()]
        for task in pending[: max(0, len(self._starting) - self._wanted)]:
            self._starting.remove(task)
            task.cancel()

    async def stop(self) -> None:
        """Start no more."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)


def no_place(shards: int, why: object) -> Unavailable:
    """Return the refusal of more shards than there is room for."""
    return Unavailable(
        f"not every shard has a place: {why}", field="shards", value=shards,
        hint="each takes a core of a node: have fewer shards, add nodes, or end what else runs there",
    )  # fmt: skip
