"""The way to one shard: what it has to apply, in order; sent again to whoever takes over when its process is gone.

What waits while a call is under way goes with the next one, so a busy shard commits seldom and much.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from advisor.cluster.routing import Numbered
from advisor.domain.observations import Columns
from advisor.engine.events import Ended
from advisor.engine.exactly_once import Producer
from advisor.errors import AdvisorError, StorageFailed, Unavailable
from advisor.service.logs import event

ROWS_A_CALL = 200_000  # as the largest batch: 10 MB, some 100 ms
ITEMS_A_CALL = 4_096
LOST_TOGETHER, LOST_MAX = 2, 6  # calls of an item that may be cut off until it goes alone, and until it is given up
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0  # after a shard could not be opened, doubling
Answer = dict[str, Any]


class Gone(Exception):
    """The process of a shard is no more, or does not answer for itself any more."""


class NoPlace(Gone):
    """No process has started: there is no core for it, or it takes too long."""


class Handle(Protocol):
    """A process that is a shard, or may become one."""

    name: str

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of its shard; raises Gone, or what the shard has raised."""
        ...

    def kill(self) -> None:
        """End the process, at once."""
        ...


class Hands(Protocol):
    """Whoever gives a lane a new process: the fleet."""

    async def open(self, number: int, least: int) -> Handle:
        """Return a process that has opened the state of a shard."""
        ...


@dataclass(slots=True)
class ShardCall:
    """What a shard is to apply."""

    key: Producer | None
    sequence: int | None
    events: Sequence[Any]
    rows: int
    # called with the shard's answer, once it is durable; with an error where it was not numbered and may be lost
    done: Callable[[Answer], object]
    lost: int = 0  # how often its call was cut off


class Lane:
    """One shard, as the front sees it."""

    def __init__(self, number: int, hands: Hands, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = number
        self.handle: Handle | None = None
        self.told: Answer = {}  # how the shard stood when it last answered
        self.level = 0  # commits that were acknowledged
        self.rows = 0  # rows that wait
        self.recoveries: list[float] = []  # seconds that each change of process has taken
        self.failure: AdvisorError | None = None
        # int64 array: rows of each of its names that were acknowledged under this layout
        self.acknowledged = np.zeros(0, np.int64)
        self._hands = hands
        self._clock = clock
        self._queue: deque[ShardCall] = deque()
        self._bell = asyncio.Event()
        self._names_sent = 0
        self._version, self._session = 0, ""
        self._numbered = Numbered()
        self._since: float | None = None  # when the oldest item that waits came
        self._opening = asyncio.Lock()
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def age_s(self) -> float:
        """Seconds that the oldest item has waited."""
        return 0.0 if self._since is None else self._clock() - self._since

    def put(self, item: ShardCall) -> None:
        """Have an item applied after all before it."""
        if self._since is None:
            self._since = self._clock()
        self._queue.append(item)
        self.rows += item.rows
        self.idle.clear()
        self._bell.set()

    async def join(self, version: int, session: str, numbered: Numbered) -> Answer:
        """Begin a layout; nothing may wait. Returns what the shard must tell, see `Shard.join`."""
        self._version, self._session, self._numbered = version, session, numbered
        self._names_sent = 0
        self.acknowledged = np.zeros(0, np.int64)
        return await self.ask("join", version, session)

    async def run(self) -> None:
        """Send what waits as long as the front lives."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._queue:
                await self._send()
            self._since = None
            self.idle.set()

    async def _send(self) -> None:
        items: list[ShardCall] = []
        rows = 0
        for item in self._queue:
            if items and (
                rows + item.rows > ROWS_A_CALL or len(items) >= ITEMS_A_CALL or items[0].lost > LOST_TOGETHER
            ):
                break
            items.append(item)
            rows += item.rows
        packed = [(item.key, item.sequence, item.events) for item in items]
        handle = self.handle
        try:
            handle = _there(handle)
            names = self._numbered.names[self._names_sent :]
            first, self._names_sent = self._names_sent, self._names_sent + len(names)
            answers, told = await handle.call("take", self._session, self._version, first, names, packed)
        except (Gone, AdvisorError) as error:
            self._lost(items, error)
            await self._reopen(handle, error)
            return
        self.told, self.level = told, told["level"]
        for item, answer in zip(items, answers, strict=True):
            self._queue.popleft()
            self.rows -= item.rows
            self._count(item)
            item.done(answer)
        self._since = self._clock() if self._queue else None

    def _lost(self, items: Sequence[ShardCall], error: Exception) -> None:
        """Give up what was sent without a number: it may have been applied. All else is sent again.

        What ends a shard each time goes alone then, and at last not at all.
        """
        handle_was = self.handle is not None
        failed = Unavailable(f"shard {self.number} is being opened anew ({error})", hint="send it again").as_dict()
        kept: list[ShardCall] = []
        for item in items:
            self._queue.popleft()
            item.lost += handle_was
            if item.key is None or item.lost > LOST_MAX:
                self.rows -= item.rows
                item.done({"error": failed})
            else:
                kept.append(item)
        self._queue.extendleft(reversed(kept))

    def _count(self, item: ShardCall) -> None:
        for each in item.events:
            if isinstance(each, (Columns, Ended)) and len(each):
                numbers = each.index
                if isinstance(each, Ended):
                    numbers = np.array([self._numbered.number(name, True) for name in each.types])[numbers]
                found = np.bincount(numbers, minlength=len(self.acknowledged))
                found[: len(self.acknowledged)] += self.acknowledged
                self.acknowledged = found

    async def ask(self, method: str, *args: Any) -> Any:
        """Call a method that changes nothing, or that may come twice, however often the process changes meanwhile."""
        while True:
            handle = self.handle
            try:
                return await _there(handle).call(method, *args)
            except (Gone, StorageFailed) as error:
                await self._reopen(handle, error)

    async def _reopen(self, lost: Handle | None, why: Exception) -> None:
        """Have another process take over from one that is lost, once, whoever finds it out first."""
        async with self._opening:
            if self.handle is not lost:
                return
            began, wait_s = self._clock(), RETRY_FIRST_S
            if lost is not None:
                event(logging.WARNING, "a shard is lost, another process takes over", shard=self.number, reason=why)
                lost.kill()
            if isinstance(why, AdvisorError):  # it may fail again at once
                self.failure = why
                await asyncio.sleep(wait_s)
            while True:
                try:
                    handle = await self._hands.open(self.number, self.level)
                    if self._session:
                        self.told = await handle.call("join", self._version, self._session)
                        self._names_sent = 0
                    break
                except (Gone, AdvisorError) as error:
                    gone = Unavailable(f"shard {self.number} does not start: {error}")
                    self.failure = error if isinstance(error, AdvisorError) else gone
                    event(logging.ERROR, "a shard cannot be opened", shard=self.number, reason=self.failure)
                    await asyncio.sleep(wait_s)
                    wait_s = min(2 * wait_s, RETRY_MAX_S)
            self.failure = None
            self.handle = handle
            took = self._clock() - began
            self.recoveries.append(took)
            event(logging.WARNING if lost else logging.INFO, "a shard serves", shard=self.number, took_s=round(took, 3))


def _there(handle: Handle | None) -> Handle:
    if handle is None:
        raise Gone("no process yet")
    return handle
