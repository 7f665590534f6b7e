"""Large batches, folded piece by piece: between pieces the loop answers whoever asks.

One batch at a time is under way; the others wait for their turn in the order of their coming. Meanwhile

- the connection that sent it waits: what it sends next comes after it, as always;
- whatever else speaks for the same producer waits, on whichever connection: the number of the batch is not applied yet;
- no commit begins: it would make rows durable without their number. One that is due goes before the next batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import anyio
import anyio.lowlevel

from advisor.domain.answers import Receipt
from advisor.domain.observations import Columns
from advisor.engine import Engine
from advisor.service.connection import Connection

Key = tuple[str, bytes]

# Rows that wait to be folded in pieces, about 50 bytes each. A batch beyond is folded at once: it keeps everybody waiting, and
# so holds back those who send faster than can be folded.
WAITING_ROWS_MAX = 1_000_000


class Folding:
    """The large batches of a service.

    Parameters
    ----------
    engine : Engine
    told : callable
        Called after each piece.
    """

    def __init__(self, engine: Engine, told: Callable[[], None]) -> None:
        self._engine = engine
        self._told = told
        self._turn = anyio.Lock()
        self._whole = anyio.Event()
        self._commit_waits = False
        self._keys: Counter[Key] = Counter()
        self._rows = 0
        self._deferred: list[Connection] = []

    @property
    def busy(self) -> bool:
        """True while a producer's batch is under way, or waits for its turn."""
        return bool(self._keys)

    def holds(self, key: Key) -> bool:
        """Return whether a batch of this producer is under way, or waits for its turn."""
        return key in self._keys

    def defer(self, connection: Connection) -> None:
        """Let a connection wait until a batch has been folded."""
        connection.wait()
        self._deferred.append(connection)

    def takes(self, connection: Connection, key: Key | None, rows: int) -> bool:
        """Take note that a batch of so many rows comes, to be given to `fold` in the background; False: no room for it."""
        if self._rows + rows > WAITING_ROWS_MAX:
            return False
        self._rows += rows
        connection.wait()
        if key is not None:
            self._keys[key] += 1
        return True

    async def fold(
        self, connection: Connection, columns: Columns, stops: Sequence[int], key: Key | None, sequence: int | None
    ) -> Receipt:
        """Fold a batch that was taken, others having their turn between its pieces; raises as `Engine.begin`.

        Cut off in the middle it leaves the engine with a batch under way, so that nothing of it is ever committed.
        """
        try:
            async with self._turn:
                while self._commit_waits:
                    await anyio.lowlevel.checkpoint()
                return await self._fold(columns, stops, key, sequence)
        finally:
            self._rows -= len(columns)
            self._release(connection, key)

    async def _fold(self, columns: Columns, stops: Sequence[int], key: Key | None, sequence: int | None) -> Receipt:
        batch = self._engine.begin(columns, stops, key, sequence)
        if batch is None:
            return Receipt(0, sequence=sequence, replayed=True)
        try:
            while batch.fold_next():
                self._told()
                await anyio.lowlevel.checkpoint()
        except Exception:
            self._engine.give_up()
            raise
        finally:
            if self._engine.underway is None:
                self._whole.set()
                self._whole = anyio.Event()
        return batch.receipt(sequence)

    def _release(self, connection: Connection, key: Key | None) -> None:
        if key is not None:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
        deferred, self._deferred = self._deferred, []
        for each in (connection, *deferred):
            each.resume()

    async def until_whole(self) -> None:
        """Wait until no batch is under way; the next one then waits for whoever has waited here to take its turn."""
        self._commit_waits = True
        try:
            while self._engine.underway is not None:
                await self._whole.wait()
        finally:
            self._commit_waits = False
