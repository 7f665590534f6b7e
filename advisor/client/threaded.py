"""The synchronous client: the asynchronous one in a thread of its own, behind a bounded queue."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import os
import signal
import ssl
import sys
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Self

import anyio

from advisor.client.aio import BUFFER_ROWS, CLOSE_S, LINGER_S, TIMEOUT_S, AsyncClient, rows_of
from advisor.client.outcomes import Stats
from advisor.client.policy import WhenFull, buffer_full, check_policy
from advisor.client.rows import TakesRows
from advisor.client.session import BATCH_ROWS, WINDOW_BATCHES
from advisor.client.verbs import Answer, Blocks
from advisor.errors import ConnectionFailed
from advisor.protocol.encoding import Body

GATHER_S = 0.005  # rows gather so long before the thread takes them: one wake-up for many rows
AHEAD_ROWS = 2 * BATCH_ROWS * WINDOW_BATCHES  # taken out of the queue ahead of their sending, at most: two windows
# What the thread would import by itself: a fork meanwhile would leave the child with halves of modules.
IMPORTED_FIRST = ("anyio._backends._asyncio", "anyio.streams.tls", "concurrent.futures.thread", "encodings.idna")
SLICE_ROWS = 1_000  # taken at a time: then the thread looks after its connection
FAREWELL_S = 1.0  # for the answer to it; what is held was sent before
GRACE_S = 2.0  # beyond `close_s`, for the thread to end


class SyncClient(Blocks, TakesRows[bool, int]):
    """A client of the service for programs with threads. Safe to use from all of them.

    `observe` costs about a microsecond and never waits for the service, unless `when_full` is "block". The thread
    starts with the first use. After a fork the child starts afresh, as a producer of its own, and sends nothing that
    is its parent's. What is held when the program ends is sent, within `close_s`, and what is then left is logged; so it is
    where a process of `multiprocessing` ends, or SIGTERM ends the process. A program that ends by `os._exit` or by another
    signal has to `close` first.

    Parameters
    ----------
    address : str, optional
        ``unix:/path`` or a path, ``tcp://host:port`` or ``host:port``. By default what ADVISOR_SOCKET or ADVISOR_TCP says, else
        where `advisor serve` listens.
    when_full : {"drop_newest", "drop_oldest", "block", "raise"}
        What happens to rows beyond `buffer_rows`. The default drops and counts.
    buffer_rows : int
        Rows held: those that wait to be sent, and those sent and not acknowledged. A batch of more is taken alone.
    close_s : float
        Seconds given to what is held when the client closes.
    flush_at_sigterm : bool
        Send what is held before SIGTERM ends the process: where the client is first used in the main thread, and the program
        has no handler of its own.
    producer, token, tls, batch_rows, window, linger_s, timeout_s :
        As `AsyncClient` has them. Its verbs are that client's, too.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        when_full: WhenFull = "drop_newest",
        buffer_rows: int = BUFFER_ROWS,
        close_s: float = CLOSE_S,
        producer: str | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | bool | None = None,
        batch_rows: int = BATCH_ROWS,
        window: int = WINDOW_BATCHES,
        linger_s: float = LINGER_S,
        timeout_s: float = TIMEOUT_S,
        flush_at_sigterm: bool = True,
    ) -> None:
        self._when_full = check_policy(when_full)
        self._buffer_rows = buffer_rows
        self._close_s = close_s
        # Only what is still in the queue can be dropped as the oldest.
        ahead = min(AHEAD_ROWS, max(1, buffer_rows // 2) if when_full == "drop_oldest" else buffer_rows)
        self._new = lambda: AsyncClient(
            address, buffer_rows=ahead, close_s=close_s, producer=producer, token=token, tls=tls,
            batch_rows=batch_rows, window=window, linger_s=linger_s, timeout_s=timeout_s,
        )  # fmt: skip
        for module in IMPORTED_FIRST:
            importlib.import_module(module)
        self._begin()
        _clients.add(self)
        self._flush_at_sigterm = flush_at_sigterm
        _end_with_process()
        self._hear_sigterm()

    def _begin(self) -> None:
        """Start with nothing: at first, and in the child of a fork."""
        self._client = self._new()  # says at once what is wrong with the options
        self._counts = self._client.counts
        self._queue: deque[list[Any] | Body] = deque()
        self._through = 0  # items that were ever taken out of it
        self._batched = 0  # rows in the queue's bodies, beyond one each
        self._dropped = 0
        self._rung = False
        self._closed = False
        self._lock = threading.RLock()  # a signal's handler may close the client where its thread holds the lock
        self._space = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: asyncio.Event
        self._stop: asyncio.Event
        self._draining: asyncio.Lock

    def __repr__(self) -> str:
        return f"<SyncClient: {self._client.summary}, {len(self._queue)} rows or batches queued>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send what is held, for at most `close_s` seconds, and end. What is held still is counted in `stats`."""
        with self._lock:
            self._closed = True
            self._space.notify_all()
        if self._thread is None:
            return
        if not self._started.is_set():  # a signal's handler may be here while the program closes the client
            self._started.wait(GRACE_S)
        if self._loop is not None:
            self._soon(self._stop.set)
        self._thread.join(self._close_s + GRACE_S)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _take_row(self, row: list[Any]) -> bool:
        held = len(self._queue) + self._batched + self._counts.rows_held
        if (held >= self._buffer_rows or self._closed) and not self._make_space(1):
            return False
        self._queue.append(row)
        if not self._rung:
            self._ring()
        return True

    def names(self, names: Sequence[str]) -> int:
        """Number names for `index` columns, on every connection of this client; return the first's number."""
        return self.run(lambda client: client.names(names))

    def flush(self, timeout_s: float | None = None) -> Stats:
        """Wait until every row taken is acknowledged or refused; return the counts. As `AsyncClient.flush`."""
        if self._thread is None and not self._queue:
            return self.stats()
        self.run(lambda client: self._flush(client, client.timeout_s if timeout_s is None else timeout_s))
        return self.stats()

    def stats(self) -> Stats:
        """Return what became of the rows so far."""

        async def read(client: AsyncClient) -> Stats:
            return self._counted(client)

        if self._closed or self._thread is None or not self._thread.is_alive():
            return self._counted(self._client)
        return self.run(read)

    def run_behind_rows(
        self, method: Callable[..., Awaitable[Answer]], args: Sequence[Any], given: Mapping[str, Any]
    ) -> Answer:
        """Call a method of `AsyncClient` behind the rows that are queued now; both within its `timeout_s`."""
        until = self._through + len(self._queue)

        async def behind(client: AsyncClient) -> Answer:
            timeout_s = given.get("timeout_s")
            deadline = anyio.current_time() + (client.timeout_s if timeout_s is None else timeout_s)
            if self._queue:
                with anyio.CancelScope(deadline=deadline):
                    await self._drain(client, until)
            left = max(0.0, deadline - anyio.current_time())
            return await method(client, *args, **{**given, "timeout_s": left})

        return self.run(behind)

    # -- the queue -------------------------------------------------------------------------------------------------

    def _take_batches(self, bodies: Sequence[Body]) -> int:
        taken = 0
        for body in bodies:
            if (self._closed or not self._has_space(body.rows)) and not self._make_space(body.rows):
                continue
            with self._lock:
                self._batched += body.rows - 1
            self._queue.append(body)
            taken += body.rows
            if not self._rung:
                self._ring()
        return taken

    def _make_space(self, rows: int) -> bool:
        """Do what `when_full` says; return whether there is space now."""
        with self._lock:
            if self._when_full == "block":
                self._space.wait_for(lambda: self._closed or self._has_space(rows))
            while self._when_full == "drop_oldest" and self._queue and not self._closed and not self._has_space(rows):
                self._dropped += self._pop()[1]
            if not self._closed and self._has_space(rows):
                return True
            self._dropped += rows
        if self._when_full == "raise" and not self._closed:
            raise buffer_full(self._held(), self._buffer_rows)
        return False

    def _held(self) -> int:
        return len(self._queue) + self._batched + self._counts.rows_held

    def _has_space(self, rows: int) -> bool:
        held = self._held()
        return not held or held + rows <= self._buffer_rows

    def _pop(self) -> tuple[list[Any] | Body, int]:
        """Take the oldest out of the queue, with how many rows it is; the lock is held, and the queue not empty."""
        item = self._queue.popleft()
        rows = rows_of(item)
        self._through += 1
        self._batched -= rows - 1
        return item, rows

    def _counted(self, client: AsyncClient) -> Stats:
        stats = client.stats()
        queued = len(self._queue) + self._batched
        return replace(
            stats,
            rows_offered=stats.rows_offered + queued + self._dropped,
            rows_held=stats.rows_held + queued,
            rows_dropped=stats.rows_dropped + self._dropped,
        )

    # -- the thread ------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        """Tell the thread that rows wait; start it where there is none."""
        self._rung = True
        if self._loop is None:
            self._start()
        else:
            self._soon(self._bell.set)

    def _soon(self, callback: Callable[[], object]) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop has ended with its thread
            self._closed = True

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._hear_sigterm()
                self._thread = threading.Thread(target=self._work, name="advisor-client", daemon=True)
                self._thread.start()

    def run(self, work: Callable[[AsyncClient], Awaitable[Answer]]) -> Answer:
        """Do `work` with the asynchronous client, in its thread, and return its answer."""
        self._start()
        if not self._closed:
            self._started.wait()
        if self._closed or self._loop is None:
            raise ConnectionFailed("the client is closed", field="client")

        async def task() -> Answer:
            return await work(self._client)

        future = asyncio.run_coroutine_threadsafe(task(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            del future  # it holds its error, whose traceback holds this frame

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._closed = True
            self._started.set()

    async def _serve(self) -> None:
        self._bell = asyncio.Event()
        self._stop = asyncio.Event()
        self._draining = asyncio.Lock()
        async with self._client as client, anyio.create_task_group() as group:
            self._loop = asyncio.get_running_loop()
            self._started.set()
            group.start_soon(self._feed, client)
            if self._when_full == "block":
                group.start_soon(self._tell_space, client)
            await self._stop.wait()
            with anyio.move_on_after(self._close_s):
                await self._drain(client)
                await client.drained()
            await client.close(0.0 if client.counts.rows_held else FAREWELL_S)
            group.cancel_scope.cancel()

    async def _feed(self, client: AsyncClient) -> None:
        while True:
            self._bell.clear()
            self._rung = False
            await self._drain(client)
            await self._bell.wait()
            await anyio.sleep(GATHER_S)

    async def _drain(self, client: AsyncClient, until: float = inf) -> None:
        """Hand what is queued to the client, as it has room: all, or the items before place `until`."""
        async with self._draining:
            while self._queue and self._through < until:
                with self._lock:
                    for _ in range(SLICE_ROWS):
                        if not self._queue or not client.room(rows_of(self._queue[0])):
                            break
                        client.take(self._pop()[0])
                    full = self._queue and not client.room(rows_of(self._queue[0]))
                await (client.progress() if full else asyncio.sleep(0))

    async def _tell_space(self, client: AsyncClient) -> None:
        """Wake those that wait for space, whenever there may be some."""
        while True:
            await client.progress()
            with self._lock:
                self._space.notify_all()

    async def _flush(self, client: AsyncClient, timeout_s: float) -> None:
        deadline = anyio.current_time() + timeout_s
        with anyio.CancelScope(deadline=deadline):
            await self._drain(client)
        await client.flush(max(0.0, deadline - anyio.current_time()))

    def _hear_sigterm(self) -> None:
        """Flush at SIGTERM, where nobody else hears of it; only the main thread may say so."""
        main = threading.current_thread() is threading.main_thread()
        if self._flush_at_sigterm and main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _at_sigterm)

    # -- fork and exit ---------------------------------------------------------------------------------------------

    def _leave_parent(self) -> None:
        """In the child of a fork: let go of the parent's connection without ending it, and begin anew."""
        fd = self._client.fileno()
        if fd is not None:
            # The descriptor stays taken, by the null device, so that whoever closes it closes nothing of ours.
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, fd)
            os.close(null)
        _inherited.append((self._client, self._loop, self._thread))
        closed = self._closed
        self._begin()
        self._closed = closed


_log = logging.getLogger("advisor.client")
_ending: set[int] = set()  # the processes whose end is heard of
_clients: weakref.WeakSet[SyncClient] = weakref.WeakSet()
_inherited: list[object] = []  # the parent's loops: kept, for at their end they reach for what the child has not


def _after_fork() -> None:
    for client in list(_clients):
        client._leave_parent()  # pyright: ignore[reportPrivateUsage]
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:  # its child forgets what was to be done at its end, and then asks who has something to do
        util.register_after_fork(_clients, _end_with_process)


def _end_with_process(_: object = None) -> None:
    """Hear of the end of a process of `multiprocessing`, which ends without `atexit`."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None and os.getpid() not in _ending:
        _ending.add(os.getpid())
        util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    for client in list(_clients):
        client.close()
        held = client.stats().rows_held
        if held:
            _log.warning("%d rows are lost: the program ends, and the service did not take them in time", held)


def _at_sigterm(number: int, _: object) -> None:
    _at_exit()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)  # the process ends as by a signal that nobody heard


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
