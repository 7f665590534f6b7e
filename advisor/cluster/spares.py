"""Processes that may become shards, some of them started before they are needed."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from advisor.cluster.lanes import Handle


class Runtime(Protocol):
    """What runs the processes of shards."""

    async def start(self) -> None:
        """Be ready to start them."""
        ...

    async def spawn(self) -> Handle:
        """Start a process that may become a shard; return when it is ready to."""
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

    async def take(self) -> Handle:
        """Return the first that is ready; another one is started in its place. Raises Gone where it has ended."""
        while True:
            if not self._starting:
                self.start(1)
            done, _ = await asyncio.wait(self._starting, return_when=asyncio.FIRST_COMPLETED)
            task = done.pop()
            if task in self._starting:  # nobody else has taken it meanwhile
                self._starting.remove(task)
                self.start()
                return task.result()

    async def stop(self) -> None:
        """Start no more."""
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
