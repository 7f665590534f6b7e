"""Group commit: one in flight, in a thread; answers are released when what they promise is durable."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel
from anyio import to_thread

from advisor.engine import Engine
from advisor.errors import StorageFailed
from advisor.service.logs import event
from advisor.service.measures import Measures
from advisor.storage import Store

GATHER_S = 0.001  # a commit waits this long for company: one fsync then serves a burst
GATHER_MAX_S = 0.25  # however long the last commit took
RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0  # after a failure, doubling

Key = tuple[str, bytes]


class Waiting(Protocol):
    """Whoever waits for answers: a connection."""

    def release(self, answers: list[bytes]) -> None:
        """Send answers that were held back."""
        ...


class Committer:
    """Keeps the engine's state on disk, and answers until it is there.

    Without a store everything is durable as soon as it is applied.

    Attributes
    ----------
    failure : StorageFailed or None
        Why the last commit failed; None while the storage is well.
    age_s : float
        Seconds since the last commit that succeeded, while something waits for one; otherwise 0.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store | None,
        measures: Measures,
        *,
        rows_max: int,
        share: float,
        durable: dict[Key, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._store = store
        self._measures = measures
        self._rows_max = rows_max
        self._share = share
        self._clock = clock
        self._durable = durable
        self._waiting: dict[Waiting, list[bytes]] = {}
        self._rows = 0
        self._wanted = anyio.Event()
        self._full = anyio.Event()
        self._last_ended = clock()
        self._last_took = 0.0
        self._dirty_since: float | None = None
        self._committing = False
        self._until_whole: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        self._retry_s = RETRY_FIRST_S
        self.failure: StorageFailed | None = None

    @property
    def durable_storage(self) -> bool:
        """True when there is a state file."""
        return self._store is not None

    @property
    def unsaved(self) -> bool:
        """True while something applied is not durable yet."""
        return self._dirty_since is not None or self._committing

    @property
    def answers_waiting(self) -> int:
        """Answers held back until a commit."""
        return sum(map(len, self._waiting.values()))

    @property
    def rows_waiting(self) -> int:
        """Rows folded since the last commit began."""
        return self._rows

    @property
    def age_s(self) -> float:
        """Seconds that the oldest uncommitted change has waited; 0 when all is durable."""
        return 0.0 if self._dirty_since is None else self._clock() - self._dirty_since

    def sequence(self, key: Key) -> int:
        """Return the durable number of a producer, 0 for an unknown one."""
        return self._engine.applied(*key) if self._store is None else self._durable.get(key, 0)

    def commits_when(self, until_whole: Callable[[], Awaitable[None]]) -> None:
        """Have each commit wait for the state to be whole: no batch may be half folded."""
        self._until_whole = until_whole

    def forget(self, keys: list[Key]) -> None:
        """Producers were evicted."""
        for key in keys:
            self._durable.pop(key, None)

    def changed(self, rows: int = 0) -> None:
        """Say that the engine has changed by so many rows: a commit comes."""
        if self._store is None:
            return
        self._rows += rows
        if self._dirty_since is None:
            self._dirty_since = self._clock()
        self._wanted.set()
        if self._rows >= self._rows_max:
            self._full.set()

    def hold(self, who: Waiting, answer: bytes) -> None:
        """Hold an answer back until everything applied so far is durable."""
        self._waiting.setdefault(who, []).append(answer)
        self.changed()

    def drop(self, who: Waiting) -> None:
        """Forget the answers of a connection that is gone; what they acknowledge stays."""
        self._waiting.pop(who, None)

    async def run(self) -> None:
        """Commit as long as the service lives. Cancelled between commits, never inside one."""
        while True:
            await self._wanted.wait()
            with anyio.move_on_after(self._pause_s()):
                await self._full.wait()
            if not await self.commit():
                await anyio.sleep(self._retry_s)

    async def commit(self) -> bool:
        """Commit what there is now; return whether it is durable. Not to be called twice at a time."""
        if self._store is None:
            return True
        await self._until_whole()
        waiting, self._waiting = self._waiting, {}
        rows, self._rows = self._rows, 0
        self._wanted, self._full = anyio.Event(), anyio.Event()
        since, self._dirty_since = self._dirty_since, None
        snapshot = self._engine.snapshot()
        began = self._clock()
        if not snapshot.empty:
            self._committing = True
            try:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._store.commit, snapshot)
            except StorageFailed as failure:
                self._engine.mark_changed(snapshot)
                self._fail(failure)
                for who, answers in waiting.items():
                    self._waiting[who] = answers + self._waiting.get(who, [])
                self._rows += rows
                self._dirty_since = since
                self._wanted.set()
                return False
            finally:
                self._committing = False
            self._measures.commit_s.add(self._clock() - began)
        self._last_ended = self._clock()
        self._last_took = self._last_ended - began
        self._durable.update(snapshot.producers)
        self._recover()
        for who, answers in waiting.items():
            who.release(answers)
        return True

    def _pause_s(self) -> float:
        """Seconds until the next commit may begin: commits take their share of the time, a burst is gathered."""
        gap = min(self._last_took * (1 - self._share) / self._share, GATHER_MAX_S)
        return max(GATHER_S, self._last_ended + gap - self._clock())

    def _fail(self, failure: StorageFailed) -> None:
        self._measures.commits_failed += 1
        if self.failure is None:
            self._retry_s = RETRY_FIRST_S
            event(logging.ERROR, "storage failed: acknowledgements stop, queries go on", reason=failure)
        else:
            self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)
        self.failure = failure

    def _recover(self) -> None:
        if self.failure is not None:
            self.failure = None
            event(logging.WARNING, "storage recovered: acknowledgements go on")
