"""Fair folding: connections with work left take turns, a batch each.

Turns go round by identity, then by connection: a client that sends much, or by many connections, makes only itself
wait. Between two turns the loop reads once, so that a question waits for one slice at most, however many send rows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
Path = tuple[Hashable, ...]


class Rounds(Generic[T]):
    """A queue that serves the parts of each level in turn, and each part in the order of coming. Cost O(levels)."""

    __slots__ = ("_count", "_own", "_parts")

    def __init__(self) -> None:
        self._own: deque[T] = deque()
        self._parts: dict[Hashable, Rounds[T]] = {}  # the first is the next to be served
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, path: Path, each: T) -> None:
        """Put something into the queue of a path, such as (grant, producer)."""
        self._count += 1
        if path:
            self._parts.setdefault(path[0], Rounds()).add(path[1:], each)
        else:
            self._own.append(each)

    def take(self) -> T:
        """Take out what is next. Not of an empty queue."""
        self._count -= 1
        if self._own:
            return self._own.popleft()
        key = next(iter(self._parts))
        part = self._parts.pop(key)
        found = part.take()
        if part:
            self._parts[key] = part
        return found


class Rota:
    """The turns of a service: one at a time, and what has come over the sockets goes between."""

    def __init__(self) -> None:
        self._waiting: Rounds[Callable[[], None]] = Rounds()
        self.free = True  # True when nobody waits for a turn, and none was taken since the loop last read

    def worked(self) -> None:
        """Say that somebody has worked for about a slice: the loop reads before anybody works on rows again."""
        if self.free:
            self.free = False
            asyncio.get_running_loop().call_soon(self._read_first)

    def join(self, path: Path, turn: Callable[[], None]) -> None:
        """Have `turn` called when it is its turn."""
        self._waiting.add(path, turn)
        self.worked()

    def _read_first(self) -> None:
        asyncio.get_running_loop().call_soon(self._next)  # behind what the loop finds readable now

    def _next(self) -> None:
        self.free = True
        if self._waiting:
            turn = self._waiting.take()
            self.worked()
            turn()
