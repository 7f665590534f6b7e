"""A gate that changes pass while it is open: closed, nothing is under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager


class Gate:
    """Changes pass while it is open. It closes when all that has entered has left; what comes meanwhile waits, in order."""

    def __init__(self) -> None:
        self.inside = 0
        self._waiting: deque[Callable[[], object]] | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    def enter(self, work: Callable[[], object]) -> None:
        """Begin work now, or when the gate opens again; it ends with `finish_work`."""
        if self._waiting is not None:
            self._waiting.append(work)
            return
        self.inside += 1
        self._empty.clear()
        work()

    def finish_work(self) -> None:
        """Work has ended."""
        self.inside -= 1
        if not self.inside:
            self._empty.set()

    @asynccontextmanager
    async def closed(self) -> AsyncGenerator[None]:
        """Close it for a block."""
        self._waiting = deque()
        try:
            await self._empty.wait()
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            for each in waiting:
                self.enter(each)
