"""The one thread that writes to the state file: work is handed over, and its end reported, for some ten microseconds each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], object]
Done = Callable[[BaseException | None, float], None]


class Writer:
    """Runs work in a thread of its own, one piece after the other; the thread begins with the first."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Work, Done, Work, asyncio.AbstractEventLoop] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start_write(self, work: Work, done: Done, behind: Work) -> None:
        """Begin `work`; when it has ended the loop calls `done` with what it raised, or None, and its CPU seconds.

        `behind`, which raises nothing, comes then: before the next work, and while those are answered who waited for this.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="state writer", daemon=True)
            self._thread.start()
        self._queue.put((work, done, behind, asyncio.get_running_loop()))

    def close(self) -> None:
        """Wait for the end of what was begun, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (given := self._queue.get()) is not None:
            work, done, behind, loop = given
            error: BaseException | None = None
            began = time.thread_time()
            try:
                work()
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(done, error, time.thread_time() - began)
            except RuntimeError:  # the loop has ended: nobody waits
                continue
            behind()
