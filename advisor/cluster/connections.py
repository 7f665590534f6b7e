"""The connection to one shard: what it has to apply, in order; sent again to whatever process serves it next.

What waits while a call is under way goes with the next one, so a busy shard commits seldom and much.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from advisor.cluster.shard import Answer, Item
from advisor.errors import AdvisorError, StorageFailed, Unavailable
from advisor.service.logs import event

ROWS_A_CALL = 200_000  # 10 MB, some 100 ms
ITEMS_A_CALL = 4_096
LOST_TOGETHER, LOST_MAX = 2, 6  # calls of an item that may be cut off until it goes alone, and until it is given up
PLACE_S = 9.0  # that a process may take to start before it is refused, or status says so: within 10 s
START_S = 60.0  # that it may take at most: the machine may be just beginning, or busy
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0  # after a shard could not be opened, doubling


class Gone(Exception):
    """The process of a shard has ended, or does not start."""


class Handle(Protocol):
    """A process that serves a shard."""

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method of its shard; raises Gone, or what the shard has raised."""
        ...

    def kill(self) -> None:
        """End the process, at once."""
        ...


@dataclass(slots=True)
class ShardCall:
    """What a shard is to apply."""

    item: Item
    rows: int
    done: Callable[[Answer], object]  # called with the answer once it is durable, or an error where it may be lost
    since: float  # when it came
    lost: int = 0  # how often its call was cut off


class ShardConnection:
    """One shard, as the front sees it.

    `open_shard`: returns a process that has opened the shard of a number; raises AdvisorError, and Gone where none starts
    within so many seconds.
    """

    def __init__(
        self, number: int, handle: Handle, open_shard: Callable[[int, float], Awaitable[Handle]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.number, self.handle = number, handle
        self.report: Answer = {}  # the last report of the shard
        self.calls = 0  # acknowledged
        self.rows = 0  # rows that wait
        self.recoveries = 0  # how often another process has taken over
        self.failure: AdvisorError | None = None
        self._open, self._clock = open_shard, clock
        self._queue: deque[ShardCall] = deque()
        self._filled = asyncio.Event()
        self._opening = asyncio.Lock()

    @property
    def age_s(self) -> float:
        """Seconds that the oldest call has waited."""
        return self._clock() - self._queue[0].since if self._queue else 0.0

    def queue_item(self, item: Item, rows: int, done: Callable[[Answer], object]) -> None:
        """Have an item applied after all before it."""
        self._queue.append(ShardCall(item, rows, done, self._clock()))
        self.rows += rows
        self._filled.set()

    async def send_items(self) -> None:
        """Send what waits as long as the front lives."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                await self._send()

    async def _send(self) -> None:
        calls: list[ShardCall] = []
        rows = 0
        for call in self._queue:
            full = rows + call.rows > ROWS_A_CALL or len(calls) >= ITEMS_A_CALL
            if calls and (full or calls[0].lost > LOST_TOGETHER):
                break
            calls.append(call)
            rows += call.rows
        handle = self.handle
        try:
            answers, self.report = await handle.call("apply_items", [call.item for call in calls])
        except (Gone, AdvisorError) as error:
            self._keep_numbered(calls, error)
            await self._reopen(handle, error)
            return
        self.calls += len(calls)
        for call, answer in zip(calls, answers, strict=True):
            self._queue.popleft()
            self.rows -= call.rows
            call.done(answer)

    def _keep_numbered(self, calls: Sequence[ShardCall], error: Exception) -> None:
        """Give up calls without a number: they may have been applied. All others are sent again.

        What ends a shard each time goes alone then, and at last not at all.
        """
        failed = Unavailable(f"shard {self.number} is being opened anew ({error})", hint="send it again").as_dict()
        again: list[ShardCall] = []
        for call in calls:
            self._queue.popleft()
            call.lost += 1
            if call.item[0] is None or call.lost > LOST_MAX:
                self.rows -= call.rows
                call.done({"error": failed})
            else:
                again.append(call)
        self._queue.extendleft(reversed(again))

    async def ask(self, method: str, *args: Any) -> Any:
        """Call a method that changes nothing, or that may come twice, however often the process changes meanwhile."""
        while True:
            handle = self.handle
            try:
                return await handle.call(method, *args)
            except (Gone, StorageFailed) as error:
                await self._reopen(handle, error)

    async def _reopen(self, lost: Handle, why: Exception) -> None:
        """Have another process take over from one that is lost, once, whichever call finds it out first."""
        async with self._opening:
            if self.handle is not lost:
                return
            began, wait_s, within_s = self._clock(), RETRY_FIRST_S, PLACE_S
            event(logging.WARNING, "a shard is lost, another process takes over", shard=self.number, reason=why)
            lost.kill()
            if isinstance(why, AdvisorError):  # it may fail again at once
                self.failure = why
                await asyncio.sleep(wait_s)
            while True:
                try:
                    self.handle = await self._open(self.number, within_s)
                    break
                except (Gone, AdvisorError) as error:
                    gone = Unavailable(f"shard {self.number} does not start: {error}")
                    self.failure = error if isinstance(error, AdvisorError) else gone
                    event(logging.ERROR, "a shard cannot be opened", shard=self.number, reason=self.failure)
                    await asyncio.sleep(wait_s)
                    wait_s, within_s = min(2 * wait_s, RETRY_MAX_S), min(2 * within_s, START_S)
            self.failure = None
            self.recoveries += 1
            took = round(self._clock() - began, 3)
            event(logging.WARNING, "a shard serves", shard=self.number, took_s=took)
