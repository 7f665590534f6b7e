"""Turns of work: each is of one identity, then of one of its connections; between two turns the loop reads.

Who sends much, by however many connections, or HTTP requests, makes only itself wait. Questions are answered out of turn, up to
a bound of time until the loop has read again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Generic, TypeVar

import anyio.lowlevel

OUT_OF_TURN_S = 0.002  # of work until the loop has read: a question of each of a thousand connections would be seconds
T = TypeVar("T")
Path = tuple[Hashable, ...]


class Rounds(Generic[T]):
    """A queue that serves the parts of each level in turn, and each part in the order of coming. Cost O(levels)."""

    __slots__ = ("_own", "_parts", "count")

    def __init__(self) -> None:
        self._own: deque[T] = deque()
        self._parts: dict[Hashable, Rounds[T]] = {}  # the first is the next to be served
        self.count = 0

    def push_work(self, path: Path, each: T) -> None:
        """Put something into the queue of a path, such as (grant, producer)."""
        self.count += 1
        if path:
            self._parts.setdefault(path[0], Rounds()).push_work(path[1:], each)
        else:
            self._own.append(each)

    def pop_next(self) -> T:
        """Take out what is next. Not of an empty queue."""
        self.count -= 1
        if self._own:
            return self._own.popleft()
        key = next(iter(self._parts))
        part = self._parts.pop(key)
        found = part.pop_next()
        if part.count:
            self._parts[key] = part
        return found


class WorkTurns:
    """The turns of a service: one at a time, and what has come over the sockets goes between."""

    def __init__(self) -> None:
        self._waiting: Rounds[Callable[[], object]] = Rounds()
        self._out_of_turn_s = 0.0
        self.free = True  # True when nobody waits for a turn, and none was taken since the loop last read
        self.may_ask = True  # while what is no batch may be worked on at once, in a turn or out of it
        self.awaited = False  # while somebody waits for a turn

    def worked(self, out_of_turn_s: float = 0.0) -> None:
        """Count the work of a turn, or some out of turn: the loop reads before the next turn."""
        self._out_of_turn_s += out_of_turn_s
        self.may_ask = self._out_of_turn_s < OUT_OF_TURN_S
        if self.free:
            self.free = False
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._next)  # behind what the loop finds readable now

    def request_turn(self, path: Path, turn: Callable[[], object]) -> None:
        """Have `turn` called when it is its turn."""
        self._waiting.push_work(path, turn)
        self.awaited = True
        self.worked()

    async def await_turn(self, path: Path) -> None:
        """Wait for a turn; from now on `others_first` in this task gives it up, and waits for the next of this path."""
        _own.set((self, path))
        await self.turn(path)

    async def turn(self, path: Path) -> None:
        """Wait for a turn of this path."""
        if self.free:
            self.worked()
            return
        given: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.request_turn(path, lambda: given.done() or given.set_result(None))
        await given

    def _next(self) -> None:
        self.free, self.may_ask, self._out_of_turn_s = True, True, 0.0
        if self.awaited:
            turn = self._waiting.pop_next()
            self.awaited = self._waiting.count > 0
            self.worked()
            turn()


_own: ContextVar[tuple[WorkTurns, Path] | None] = ContextVar(
    "own", default=None
)  # of a task: where its turns come from


async def others_first() -> None:
    """Let others have their turn before this task goes on."""
    own = _own.get()
    if own is None:
        await anyio.lowlevel.checkpoint()
    else:
        turns, path = own
        await turns.turn(path)
