"""Group commit: one in flight, in a thread where it takes long; answers are released when what they promise is durable.

A commit appends an entry to the log. When the log is full a process of its own writes an image, from the memory of that moment;
changes go on meanwhile. At once one is written when something changed that no entry holds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

from advisor.engine import Engine
from advisor.errors import AdvisorError, StorageFailed
from advisor.service.connection import Connection
from advisor.service.logs import event
from advisor.service.measures import ServiceMeasures
from advisor.storage import Store

RETRY_FIRST_S, RETRY_MAX_S = 0.1, 5.0  # after a failure, doubling
# A commit waits for those who were answered by the last one, or had waited beside it: one sync then serves them all. It
# waits so long for them, and not at all when they are here: one who sends a row at a time is not held up.
GATHER_S = 0.001
QUICK_S = 0.002  # of a commit that the loop itself writes: two hand-overs cost as much on a busy machine
IMAGE_LOOK_S = 0.2  # between looks whether an image is whole, where no commit comes

Key = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class CommitTaken:
    """What one commit has taken."""

    write: Callable[[], object]
    commits: int  # of the store before it
    lost: Callable[[], object]  # called where it could not be written
    waiting: dict[Connection, list[bytes]]
    rows: int
    since: float | None
    began: float


class Durability(Protocol):
    """What makes changes durable, see `Committer`."""

    durable_storage: bool

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
    def check_storage(self) -> AdvisorError | None: ...
    def discard_replies(self, who: Connection) -> None: ...
    def forget_evicted(self, keys: list[Key]) -> None: ...
    async def commit_changes(self) -> None: ...
    def close(self) -> None: ...


class Committer:
    """Keeps the engine's state on disk, and answers until it is there.

    Without a store everything is durable as soon as it is applied.
    """

    def __init__(self, engine: Engine, store: Store | None, measures: ServiceMeasures) -> None:
        self._engine = engine
        self._store = store
        self.durable_storage = store is not None
        self._measures = measures
        self._durable = dict(engine.producers)
        self._waiting: dict[Connection, list[bytes]] = {}
        self._unsealed: dict[Key, int] = {}  # producers' numbers that were taken to be committed
        self._rows = 0
        self._loop: asyncio.AbstractEventLoop | None = None  # while `run` runs
        self._timer: asyncio.TimerHandle | None = None
        self._defect: asyncio.Future[None] | None = None  # what ends `run`
        self._writer = ThreadPoolExecutor(1, "state writer")
        self._write_s = inf  # that the last commit took
        self._held = 0  # answers that wait
        self._expected = 1  # answers after which a commit waits for nobody more
        self._dirty_since: float | None = None
        self._committing = False  # from the taking of what is committed to the end of its writing
        self._image_failure = ""
        self._retry_s = RETRY_FIRST_S
        self.failure: StorageFailed | None = None  # why the last commit failed; None while the storage is well
        if store is not None:
            engine.journal.keep()

    @property
    def unsaved(self) -> bool:
        """True while something applied is not durable yet."""
        return self._dirty_since is not None or self._committing

    @property
    def answers_waiting(self) -> int:
        """Answers held back until a commit."""
        return self._held

    @property
    def rows_waiting(self) -> int:
        """Rows folded since the last commit began."""
        return self._rows

    @property
    def age_s(self) -> float:
        """Seconds that the oldest uncommitted change has waited; 0 when all is durable."""
        return 0.0 if self._dirty_since is None else time.monotonic() - self._dirty_since

    def sequence(self, key: Key) -> int:
        """Return the durable number of a producer, 0 for an unknown one."""
        return self._engine.applied(*key) if self._store is None else self._durable.get(key, 0)

    def forget_evicted(self, keys: list[Key]) -> None:
        """Producers were evicted."""
        for key in keys:
            self._durable.pop(key, None)
            self._unsealed.pop(key, None)
        self.changed()

    def changed(self, rows: int = 0) -> None:
        """Say that the engine has changed by so many rows: a commit comes."""
        if self._store is None:
            return
        self._rows += rows
        if self._dirty_since is None:
            self._dirty_since = time.monotonic()
        if self._committing or self._loop is None:
            return  # its end looks again, or its beginning
        if self._timer is None or (self.failure is None and self._held >= self._expected):
            self._schedule(0.0 if self._held >= self._expected else GATHER_S)

    def defer_reply(self, who: Connection, answers: list[bytes], rows: int = 0) -> None:
        """Hold answers back until everything applied so far, the rows of late among it, is durable."""
        self._waiting.setdefault(who, []).extend(answers)
        self._held += len(answers)
        self.changed(rows)

    def check_storage(self) -> StorageFailed | None:
        """Return why nothing is acknowledged, having looked at the state's files; None where all is well."""
        if self._store is not None and self.failure is None:
            try:
                self._store.compare_files()
            except StorageFailed as failure:
                self._fail(failure)
                if not self._committing:
                    self._schedule(self._retry_s)
        return self.failure

    def discard_replies(self, who: Connection) -> None:
        """Forget the answers of a connection that is gone; what they acknowledge stays."""
        self._held -= len(self._waiting.pop(who, ()))

    async def commit_changes(self) -> None:
        """Commit as long as the service lives; raises what makes it impossible."""
        if self._store is None:
            return
        self._loop = asyncio.get_running_loop()
        self._defect = self._loop.create_future()
        if self._dirty_since is not None:
            self.changed()
        try:
            await self._defect
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
        """Take what was applied, have it written, and then release the answers that wait for it."""
        self._timer = None
        store, engine = self._store, self._engine
        if self._committing or store is None:
            return
        self._committing = True
        try:
            entry = engine.take_entry()
            if entry is None:
                write, lost = partial(store.save, engine.take_image()), partial(setattr, engine.journal, "beyond", True)
            else:
                lost = partial(engine.journal.put_back, entry)
                write = lambda: store.append(entry.encode())  # noqa: E731 - in the thread
                if store.image_due and store.acknowledged:
                    data = entry.encode()
                    store.begin_image(data, engine.journal.begin_image())
                    write = partial(store.append, data)
                elif entry.empty and self.failure is None and store.acknowledged and store.image is None:
                    write = None
            self._unsealed.update(engine.producers if entry is None else entry.producers)
            taken = CommitTaken(
                write or int, store.last.number, lost, self._waiting, self._rows, self._dirty_since, time.monotonic()
            )
            self._waiting, self._held, self._rows, self._dirty_since = {}, 0, 0, None
            if write is None:
                self._finish_commit(taken, None)
            else:
                self._start_writing(taken)
        except Exception as defect:
            self._give_up(defect)

    def _start_writing(self, taken: CommitTaken) -> None:
        """Have the thread write: a slow disk stops no question. Where one client alone waits, a quick disk is waited for."""
        store, loop = self._store, asyncio.get_running_loop()
        assert store is not None
        if not taken.waiting or self._expected > 1 or self._write_s > QUICK_S or store.image is not None:
            work = partial(self._write_in_thread, store, loop, taken)
        else:
            self._finish_commit(taken, self._write(taken))
            work = store.sync_marker
        self._writer.submit(work).add_done_callback(lambda done: done.result())  # logs a defect

    def _write(self, taken: CommitTaken) -> BaseException | None:
        """Return why a commit could not be written."""
        began = time.monotonic()
        try:
            taken.write()
        except BaseException as error:
            return error
        finally:
            self._write_s = time.monotonic() - began
        return None

    def _write_in_thread(self, store: Store, loop: asyncio.AbstractEventLoop, taken: CommitTaken) -> None:
        loop.call_soon_threadsafe(self._finish_commit, taken, self._write(taken))
        store.sync_marker()  # while those are answered who waited
        store.take_image()

    def _finish_commit(self, taken: CommitTaken, error: BaseException | None) -> None:
        """Release answers, where what they promise was written."""
        store = self._store
        assert store is not None
        try:
            self._committing = False
            self._expected = max(1, self._held + sum(map(len, taken.waiting.values())))
            if isinstance(error, StorageFailed):
                self._put_back(store, taken, error)
                return
            if error is not None:
                self._give_up(error)
                return
            if taken.write is not int:
                self._measures.commit_s.count_value(time.monotonic() - taken.began)
            self._durable.update(self._unsealed)
            self._unsealed.clear()
            if self.failure is not None:
                self.failure = None
                event(logging.WARNING, "storage recovered: acknowledgements go on")
            if store.image_failure not in ("", self._image_failure):
                event(logging.WARNING, "no image could be written: the log grows", reason=store.image_failure)
            self._image_failure = store.image_failure
            if self._dirty_since is not None:
                self.changed()
            elif store.image is not None and self._timer is None:
                self._schedule(IMAGE_LOOK_S)
        except Exception as defect:
            self._give_up(defect)
            return
        for who, answers in taken.waiting.items():
            try:
                who.release(answers)
            except Exception as defect:  # costs one who waits the connection, and no other the answers
                event(logging.ERROR, "defect in an acknowledgement", error=defect)
                who.close_now("defect")

    def _put_back(self, store: Store, taken: CommitTaken, error: StorageFailed) -> None:
        """Go on as though nothing was taken. What was written and cannot be acknowledged is not written again."""
        if store.last.number == taken.commits:
            taken.lost()
        self._fail(error)
        for who, answers in taken.waiting.items():
            self._waiting[who] = answers + self._waiting.get(who, [])
            self._held += len(answers)
        self._rows += taken.rows
        self._dirty_since = self._dirty_since if taken.since is None else taken.since
        self._schedule(self._retry_s)

    def _give_up(self, defect: BaseException) -> None:
        """Nothing can be made durable any more, and so nothing acknowledged: let `run`, and with it the service, end."""
        if self._defect is not None and not self._defect.done():
            self._defect.set_exception(defect)

    def close(self) -> None:
        """Wait for the commit in flight; there is no other behind it."""
        self._writer.shutdown()

    def _fail(self, failure: StorageFailed) -> None:
        if self.failure is None:
            self._retry_s = RETRY_FIRST_S
            event(logging.ERROR, "storage failed: acknowledgements stop, queries go on", reason=failure)
        else:
            self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)
        self.failure = failure.detached()
