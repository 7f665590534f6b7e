"""Group commit: one in flight, in a thread; answers are released when what they promise is durable.

A commit appends an entry to the log. When the log is full an image is written, a step behind each of the commits that follow;
at once when something changed that no entry holds, and when a service with a small state stops.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import anyio.lowlevel

from advisor.engine import Engine
from advisor.engine.journal import Entry
from advisor.engine.state_bytes import Block
from advisor.errors import AdvisorError, StorageFailed
from advisor.service.change_gate import ChangeGate
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.service.pace import Pace
from advisor.service.writer import Writer
from advisor.storage import Store

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0  # after a failure, doubling
STOP_IMAGE_BYTES_MAX = (
    2**26
)  # of a state that a stopping service writes whole, within a second; of a larger one the log goes on

Key = tuple[str, bytes]


class Waiting(Protocol):
    """Whoever waits for answers: a connection."""

    def release(self, answers: list[bytes]) -> None:
        """Send answers that were held back."""
        ...

    def drop(self, reason: str) -> None:
        """Be cut off, so that the peer asks again."""
        ...


class Durability(Protocol):
    """What makes changes durable, see `Committer`."""

    @property
    def durable_storage(self) -> bool: ...
    @property
    def failure(self) -> AdvisorError | None: ...
    @property
    def unsaved(self) -> bool: ...
    @property
    def answers_waiting(self) -> int: ...
    @property
    def rows_waiting(self) -> int: ...
    @property
    def age_s(self) -> float: ...
    def sequence(self, key: Key) -> int: ...
    def look(self) -> AdvisorError | None: ...
    def hold(self, who: Waiting, answers: list[bytes]) -> None: ...
    def drop(self, who: Waiting) -> None: ...
    def want_image(self) -> None: ...
    async def run(self) -> None: ...
    def close(self) -> None: ...


class Committer:
    """Keeps the engine's state on disk, and answers until it is there.

    Without a store everything is durable as soon as it is applied.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store | None,
        measures: ServiceMeasures,
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
        self._clock = clock
        self._durable = durable
        self._waiting: dict[Waiting, list[bytes]] = {}
        self._unsealed: dict[Key, int] = {}  # producers' numbers that were taken to be committed
        self._rows = 0
        self._loop: asyncio.AbstractEventLoop | None = None  # while `run` runs
        self._timer: asyncio.TimerHandle | None = None
        self._wakeup: asyncio.Future[None] | None = (
            None  # woken when `run` has to take what is committed, or has failed
        )
        self._writer = Writer()
        self._pace = Pace(share, clock)
        self._dirty_since: float | None = None
        self._committing = False  # from the taking of what is committed to the end of its writing
        self.gate = ChangeGate()  # closed while an image of the state is copied
        self._image_wanted = False
        self._image_failure = ""
        self._retry_s = RETRY_FIRST_S
        self.failure: StorageFailed | None = None  # why the last commit failed; None while the storage is well
        # True while batches wait for long turns: what this one brought is then committed before the next, not behind it
        self.hurried: Callable[[], bool] = lambda: False
        if store is not None:
            engine.commits.keep_journal()

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

    def want_image(self) -> None:
        """Write an image of a small state with the next commit, which comes soon: the service stops."""
        self._image_wanted = self._store is not None and self._store.image_bytes <= STOP_IMAGE_BYTES_MAX
        self.changed()

    def forget(self, keys: list[Key]) -> None:
        """Producers were evicted."""
        for key in keys:
            self._durable.pop(key, None)
            self._unsealed.pop(key, None)

    def changed(self, rows: int = 0) -> None:
        """Say that the engine has changed by so many rows: a commit comes."""
        if self._store is None:
            return
        self._rows += rows
        if self._dirty_since is None:
            self._dirty_since = self._clock()
        if self._committing or self._loop is None:
            return  # its end looks again, or its beginning
        if self._rows >= self._rows_max and self.failure is None:
            self._schedule(0.0)
        elif self._timer is None:
            self._schedule(0.0 if self.hurried() else self._pace.pause_s())

    def hold(self, who: Waiting, answers: list[bytes]) -> None:
        """Hold answers back until everything applied so far is durable."""
        held = self._waiting.get(who)
        if held is None:
            self._waiting[who] = answers
        else:
            held += answers
        self.changed()

    def look(self) -> StorageFailed | None:
        """Return why nothing is acknowledged, having looked at the state's files; None where all is well."""
        if self._store is not None and self.failure is None:
            try:
                self._store.compare()
            except StorageFailed as failure:
                self._fail(failure)
                if not self._committing:
                    self._schedule(self._retry_s)
        return self.failure

    def drop(self, who: Waiting) -> None:
        """Forget the answers of a connection that is gone; what they acknowledge stays."""
        self._waiting.pop(who, None)

    async def run(self) -> None:
        """Commit as long as the service lives.

        What is there to take is taken in a callback, which wakes no task; what may take turns of the loop is taken here.
        """
        if self._store is None:
            return
        self._loop = asyncio.get_running_loop()
        if self._dirty_since is not None:
            self.changed()
        try:
            while True:
                self._wakeup = self._loop.create_future()
                await self._wakeup
                await self._take_in_turns(self._store)
        finally:
            self._loop = None
            if self._timer is not None:
                self._timer.cancel()

    def _schedule(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None:
            self._timer = self._loop.call_later(wait_s, self._commit)

    def _commit(self) -> None:
        """Begin a commit: at once where the journal takes it, by `run` where it may have to wait."""
        self._timer = None
        store, engine = self._store, self._engine
        if self._committing or store is None:
            return
        self._committing = True
        if not (self._image_wanted or store.image_due):
            try:
                entry = engine.commits.take_entry()
                if entry is not None:
                    self._write_entry(store, entry)
                    return
            except Exception as defect:
                self._give_up(defect)
                return
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    async def _take_in_turns(self, store: Store) -> None:
        """Take an image, others having their turn between its blocks, and write it."""
        engine = self._engine
        with self.gate.closing():
            entry = engine.commits.take_entry()
            if self._image_wanted and entry is not None and entry.empty and not store.log_entries:
                self._image_wanted = False
                self._write_entry(store, entry)
                return
            slices = engine.commits.image_in_slices()
            while True:
                try:
                    next(slices)
                except StopIteration as whole:
                    blocks: list[Block] = whole.value
                    break
                await anyio.lowlevel.checkpoint()
        if entry is not None and not self._image_wanted:
            self._write_entry(store, entry, blocks)
            return
        self._image_wanted = False
        self._write(store, partial(store.save, blocks), dict(engine.producers), engine.commits.image_lost)

    def _write_entry(self, store: Store, entry: Entry, image: list[Block] | None = None) -> None:
        def write() -> None:
            if (data := entry.encode()) or image:
                store.append(data, image or ())

        needed = not entry.empty or image or store.writes_on
        put_back = partial(self._engine.commits.journal.put_back, entry)
        self._write(store, write if needed else None, entry.producers, put_back)

    def _write(
        self,
        store: Store,
        write: Callable[[], None] | None,
        producers: Mapping[Key, int],
        not_written: Callable[[], None],
    ) -> None:
        """Write what was taken from the engine just now, and then release the answers that wait for it.

        What was written and could not be acknowledged must not be written again: the next commit acknowledges it.
        """
        self._unsealed.update(producers)
        if write is None and (self.failure is not None or not store.acknowledged):
            write = store.acknowledge
        commits = store.commits
        waiting, self._waiting = self._waiting, {}
        rows, self._rows = self._rows, 0
        since, self._dirty_since = self._dirty_since, None
        began = self._clock()

        def ended(error: BaseException | None, spent_s: float = 0.0) -> None:
            self._committing = False
            if isinstance(error, StorageFailed):
                if store.commits == commits:
                    not_written()
                self._fail(error)
                for who, answers in waiting.items():
                    self._waiting[who] = answers + self._waiting.get(who, [])
                self._rows += rows
                self._dirty_since = self._dirty_since if since is None else since
                self._schedule(self._retry_s)
                return
            if error is not None:
                self._give_up(error)
                return
            if write is not None:
                self._pace.ended(spent_s)
                self._measures.commit_s.add(self._clock() - began)
            self._durable.update(self._unsealed)
            self._unsealed.clear()
            self._recover()
            self._report_image(store)
            self._next(store)
            _release(waiting)

        def reported(error: BaseException | None, spent_s: float) -> None:
            try:
                ended(error, spent_s)
            except Exception as defect:
                self._give_up(defect)

        if write is None:
            ended(None)
        else:
            self._writer.begin(write, reported, store.write_on)

    def _report_image(self, store: Store) -> None:
        if store.image_failure not in ("", self._image_failure):
            event(logging.WARNING, "no image could be written: the log grows", reason=store.image_failure)
        self._image_failure = store.image_failure

    def _next(self, store: Store) -> None:
        """Schedule the next commit, where there is something to write."""
        if self._dirty_since is not None:
            self.changed()
        elif store.writes_on:
            self._schedule(self._pace.pause_s())

    def _give_up(self, defect: BaseException) -> None:
        """Nothing can be made durable any more, and so nothing acknowledged: let `run`, and with it the service, end."""
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_exception(defect)

    def close(self) -> None:
        """Wait for the commit in flight; there is no other behind it."""
        self._writer.close()

    def _fail(self, failure: StorageFailed) -> None:
        self._measures.commits_failed += 1
        if self.failure is None:
            self._retry_s = RETRY_FIRST_S
            event(logging.ERROR, "storage failed: acknowledgements stop, queries go on", reason=failure)
        else:
            self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)
        self.failure = failure.detached()

    def _recover(self) -> None:
        if self.failure is not None:
            self.failure = None
            event(logging.WARNING, "storage recovered: acknowledgements go on")


def _release(waiting: Mapping[Waiting, list[bytes]]) -> None:
    """Release answers; a defect of ours costs one who waits the connection, and no other the answers."""
    for who, answers in waiting.items():
        try:
            who.release(answers)
        except Exception as defect:
            event(logging.ERROR, "defect in an acknowledgement", error=defect)
            who.drop("defect")
