"""The one thread that writes to the state file: work is handed over, and its end told, for some ten microseconds each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], object]


class Writer:
    """Runs work in a thread of its own, one piece after the other; the thread begins with the first."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Work, asyncio.Future[None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Work) -> asyncio.Future[None]:
        """Begin `work`; the future ends with it, or with what it raised."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="state writer", daemon=True)
            self._thread.start()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((work, done))
        return done

    def close(self) -> None:
        """Wait for the end of what was begun, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (given := self._queue.get()) is not None:
            work, done = given
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:
                error = raised
            try:
                done.get_loop().call_soon_threadsafe(_tell, done, error)
            except RuntimeError:  # the loop has ended: nobody waits
                continue


def _tell(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():  # who waited was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
