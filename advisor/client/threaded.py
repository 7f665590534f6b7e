"""The synchronous client: the asynchronous one in a thread of its own, called through anyio's blocking portal."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, Self, Unpack, cast

import anyio
from anyio.from_thread import BlockingPortal

from advisor.client.aio import CLOSE_S, AsyncClient, ClientOptions
from advisor.client.outcomes import Stats
from advisor.client.rows import Item, TakesRows, rows_of
from advisor.client.verbs import Answer, Blocks
from advisor.errors import ConnectionFailed
from advisor.protocol.encoding import Body

# What the thread would import by itself: a fork meanwhile would leave the child with halves of modules.
IMPORTED_FIRST = ("anyio._backends._asyncio", "anyio.streams.tls", "concurrent.futures.thread", "encodings.idna")
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
    flush_at_sigterm : bool
        Send what is held before SIGTERM ends the process: where the client is first used in the main thread, and the program
        has no handler of its own.
    address, **options :
        As `AsyncClient` has them. Its verbs are that client's, too.
    """

    def __init__(
        self, address: str | None = None, *, flush_at_sigterm: bool = True, **options: Unpack[ClientOptions]
    ) -> None:
        self._new = lambda: AsyncClient(address, **options)
        self._blocks = options.get("when_full") == "block"
        self._close_s = options.get("close_s", CLOSE_S)
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
        self._outbox = self._client.outbox
        self._outbox.notify = self._wake
        self._closed = False
        self._lock = threading.RLock()  # a signal's handler may close the client where its thread holds the lock
        self._thread: threading.Thread | None = None
        self._portal: Future[BlockingPortal] = Future()
        self._soon: Callable[[Callable[[], object]], object] | None = None  # has the thread's loop call something

    def __repr__(self) -> str:
        return f"<SyncClient: {self._client.summary}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Send what is held, for at most `close_s` seconds, and end. What is held still is counted in `stats`."""
        with self._lock:
            self._closed, thread = True, self._thread
            self._outbox.close()
        if thread is None or thread is threading.current_thread():
            return
        with suppress(RuntimeError, TimeoutError):  # it has ended; a signal's handler came while it began
            portal = self._portal.result(GRACE_S)
            portal.start_task_soon(portal.stop)
        thread.join(self._close_s + GRACE_S)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _take_row(self, row: Item) -> bool:
        return self._outbox.enqueue(row) or self._take_late(row)

    def _take_batches(self, bodies: Sequence[Body]) -> int:
        return sum(body.rows for body in bodies if self._take_row(body))

    def _take_late(self, item: Item) -> bool:
        """Take what finds no space when there is some, or drop and count it."""
        if self._blocks and not self._closed:
            with suppress(ConnectionFailed):  # closed meanwhile
                return self.run(lambda client: client.take_with_space(item))
        self._outbox.drop_new(rows_of(item))
        return False

    def flush(self, timeout_s: float | None = None) -> Stats:
        """Wait until every row taken is acknowledged or refused; return the counts. As `AsyncClient.flush`."""
        return self.stats() if self._thread is None else self.run(lambda client: client.flush(timeout_s))

    def stats(self) -> Stats:
        """Return what became of the rows so far."""
        return self._client.stats()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Tell the thread that something waits to be sent; start it where there is none."""
        if self._soon is None:
            self._start()
        else:
            with suppress(RuntimeError):  # the loop has ended with its thread
                self._soon(self._client.wake)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                self._hear_sigterm()
                self._thread = threading.Thread(target=self._work, name="advisor-client", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        try:
            anyio.run(self._serve)
        finally:
            self._closed = True
            self._outbox.close()
            if not self._portal.done():
                self._portal.set_exception(ConnectionFailed("the client's thread has ended", field="client"))

    async def _serve(self) -> None:
        async with BlockingPortal() as portal:
            async with self._client:
                self._soon = asyncio.get_running_loop().call_soon_threadsafe
                self._client.wake()
                self._portal.set_result(portal)
                await portal.sleep_until_stopped()
            await portal.stop(cancel_remaining=True)

    def run(self, work: Callable[[AsyncClient], Awaitable[Answer]]) -> Answer:
        """Do `work` with the asynchronous client, in its thread, and return its answer."""
        self._start()
        if self._closed:
            raise ConnectionFailed("the client is closed", field="client")
        future: Future[tuple[Answer | None, Exception | None]] | None = None
        failed: Exception | None = None

        async def outcome() -> tuple[Answer | None, Exception | None]:
            try:
                return await work(self._client), None
            except Exception as error:  # as a value: what the portal raises stays in a cycle with its frame
                return None, error

        try:
            future = self._portal.result().start_task_soon(outcome)
            answer, failed = future.result()
            if failed is not None:
                raise failed  # noqa: TRY301 - what waits for it is released below
            return cast("Answer", answer)
        except (RuntimeError, CancelledError) as error:
            if future is not None and not future.cancelled():
                raise  # of the work itself
            raise ConnectionFailed("the client is closed", field="client") from error
        except BaseException:
            if future is not None:
                future.cancel()
            raise
        finally:
            del future, failed  # the error's traceback holds this frame

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
        _inherited.append((self._client, self._soon, self._portal, self._thread))
        closed = self._closed
        self._begin()
        if closed:
            self.close()


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
        if (
            held and client in _clients
        ):  # once: `atexit` and the end of a process of `multiprocessing` may both call this
            _clients.discard(client)
            _log.warning("%d rows are lost: the program ends, and the service did not take them in time", held)


def _at_sigterm(number: int, _: object) -> None:
    _at_exit()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)  # the process ends as by a signal that nobody heard


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
