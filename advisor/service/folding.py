"""Large batches, folded slice by slice: between slices the loop answers whoever asks.

One batch at a time is under way; the others wait for their turn, producer by producer. What a turn of the loop allows is folded
at once; of what is left

- the connection that sent it waits: what it sends next comes after it, as always;
- whatever else speaks for the same producer waits, on whichever connection: the number of the batch is not applied yet;
- no commit begins: it would make rows durable without their number. One that is due goes before the next batch.

A commit that writes pages copies them slice by slice, too; meanwhile whatever would change the state waits.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from advisor.domain.observations import Columns
from advisor.engine import Engine
from advisor.engine.slices import SLICE_ROWS, Batch
from advisor.service.connection import SLICE_S, Connection
from advisor.service.rota import Path, Rota, Rounds

Key = tuple[str, bytes]
Answer = dict[str, Any]

# Rows that wait to be folded in slices, about 50 bytes each. A batch beyond is folded at once: it keeps everybody waiting, and
# so holds back those who send faster than can be folded.
WAITING_ROWS_MAX = 1_000_000


class TurnQueue:
    """Whose turn it is: one at a time, in rounds by who they are, but for those who go first."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: Rounds[asyncio.Future[None]] = Rounds()
        self._first: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> bool:
        """Take the turn if nobody has it."""
        if self._taken:
            return False
        self._taken = True
        return True

    async def take(self, path: Path | None = None) -> None:
        """Wait for the turn; without a path: before the others that wait."""
        if self.take_now():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if path is None:
            self._first.append(turn)
        else:
            self._waiting.add(path, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give()  # it came at the same moment
            raise

    def give(self) -> None:
        """Give the turn to the next."""
        while self._first or self._waiting:
            turn = self._first.popleft() if self._first else self._waiting.take()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False


@dataclass(eq=False)
class Folding:
    """The large batches of a service."""

    engine: Engine
    rota: Rota  # whose turn a slice is
    told: Callable[[], None]  # called after each slice

    def __post_init__(self) -> None:
        self._turns = TurnQueue()
        self._keys: Counter[Key] = Counter()
        self._rows = 0
        self._deferred: list[Connection] = []
        self.copying = False  # True while pages are copied: nothing may change the state

    @property
    def busy(self) -> bool:
        """True while a producer's batch is under way, or waits for its turn."""
        return bool(self._keys)

    def holds(self, key: Key) -> bool:
        """Return whether a batch of this producer is under way, or waits for its turn."""
        return key in self._keys

    def defer(self, connection: Connection) -> None:
        """Let a connection wait until a batch has been folded, or pages were copied."""
        connection.wait()
        self._deferred.append(connection)

    def at_once(self, columns: Columns, key: Key | None, sequence: int | None) -> Answer | Batch | None:
        """Fold what a turn of the loop allows.

        Raises SequenceGap, TooLarge as `Engine.apply`.

        Returns
        -------
        dict, Batch or None
            The answer for the whole batch; or what is left of it, for `takes` and `fold`; None where it is not its turn.
        """
        if len(columns) <= SLICE_ROWS or self._rows + len(columns) > WAITING_ROWS_MAX:
            return self.engine.apply(key, sequence, columns)
        if not self._turns.take_now():
            return None
        batch: Batch | Answer | None = None
        more = False
        try:
            batch = self.engine.begin(key, sequence, columns)
            if isinstance(batch, dict):
                return batch
            end = time.perf_counter() + SLICE_S
            while more := batch.fold_next():
                if time.perf_counter() > end and batch.left > SLICE_ROWS:
                    return batch
            return batch.answer()
        except BaseException:
            self.engine.give_up()
            more = False
            raise
        finally:
            if not more:
                self._turns.give()

    def takes(self, connection: Connection, key: Key | None, rows: int) -> None:
        """Take note that a batch of so many rows comes, to be given to `fold` in the background."""
        self._rows += rows
        connection.wait()
        if key is not None:
            self._keys[key] += 1

    async def fold(
        self, connection: Connection, columns: Columns, key: Key | None, sequence: int | None, batch: Batch | None
    ) -> Answer:
        """Fold a batch that was taken, others having their turn between its slices; raises as `Engine.begin`.

        `batch` is what `at_once` has left of it. Cut off in the middle it leaves the engine with a batch under way, so
        that nothing of it is ever committed.
        """
        try:
            if batch is None:
                await self._turns.take(connection.path)
            try:
                await self.rota.turn(connection.path)
                return await self._fold(connection, columns, key, sequence, batch)
            finally:
                if self.engine.underway is None:
                    self._turns.give()
        finally:
            self.ended(connection, key, len(columns))

    async def _fold(
        self, connection: Connection, columns: Columns, key: Key | None, sequence: int | None, batch: Batch | None
    ) -> Answer:
        if batch is None:
            begun = self.engine.begin(key, sequence, columns)
            if isinstance(begun, dict):
                return begun
            batch = begun
        try:
            end = time.perf_counter() + SLICE_S
            while batch.fold_next():
                if time.perf_counter() > end:
                    self.told()
                    await self.rota.turn(connection.path)
                    end = time.perf_counter() + SLICE_S
        except Exception:
            self.engine.give_up()
            raise
        return batch.answer()

    def ended(self, connection: Connection, key: Key | None, rows: int) -> None:
        """Let those go on who waited for a batch that was taken: it has been folded, or failed."""
        self._rows -= rows
        if key is not None:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
        connection.resume()
        self._resume_deferred()

    def _resume_deferred(self) -> None:
        deferred, self._deferred = self._deferred, []
        for each in deferred:
            each.resume()

    @asynccontextmanager
    async def whole(self) -> AsyncGenerator[None]:
        """Wait until no batch is under way, before those that wait for their turn; none begins inside the block."""
        await self._turns.take()
        try:
            yield
        finally:
            self._turns.give()

    @asynccontextmanager
    async def still(self) -> AsyncGenerator[None]:
        """As `whole`; inside the block nothing changes the state."""
        async with self.whole():
            self.copying = True
            try:
                yield
            finally:
                self.copying = False
                self._resume_deferred()
