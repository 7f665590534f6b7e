"""An executor whose tasks may wait: for a disk, a network or a timer.

A task that waits uses no processor, so more threads run than there are cores: of tasks of which nothing is known 64 at once.
While others are queued the executor is looked at: as long as its threads together use less than `BUSY` of one core, four times
as many may run. One core is the bound, not all: threads that wait for the interpreter's lock look like threads that sleep,
and together they have one core. Threads that compute are not sent away: 64 on two cores take as long as two, to a tenth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol

from advisor.adapters.threads.deciding import checked_predictor
from advisor.adapters.threads.grants import GRANTS, CoreGrant
from advisor.adapters.threads.jobs import Job
from advisor.adapters.threads.pools import set_limits

AT_ONCE_FIRST: Final = 64  # threads of tasks of which nothing is known
AT_ONCE_MAX: Final = 1024  # threads: a stack takes 8 MiB of addresses and about 50 KB of memory each
GROWTH: Final = 4  # times the threads, allowed at a look
BUSY: Final = 0.75  # of a core
LOOK_S: Final = 5e-4  # between two looks while more threads are allowed
LOOK_MAX_S: Final = 5e-3  # where tasks compute: 200 looks a second, of 20 microseconds
LATE_S: Final = 5e-3  # of a look: so long a thread waits for the interpreter's lock where another one computes


class RunLearner(Protocol):
    """What an executor needs of an `Advised`."""

    def learn_run(
        self, component: str, predictor: Any, cores: int, elapsed_s: float, others: float, *, ok: bool
    ) -> None: ...


class WaitingExecutor(ThreadPoolExecutor):
    """Threads whose calls are runs of one component on one core each; their thread pools have one thread.

    Parameters
    ----------
    advised : RunLearner
        Who learns.
    job : Job
        What every call is.
    cores : int
        That this process may use.
    at_once : int, optional
        The most threads. Absent: 64, and up to `AT_ONCE_MAX` while tasks wait.
    """

    def __init__(self, advised: RunLearner, job: Job, cores: int, at_once: int | None = None) -> None:
        super().__init__(at_once or AT_ONCE_FIRST, "advised task")
        GRANTS.pools.look()  # takes 0.1 s the first time, which no task should wait for
        self._advised, self._job, self._cores = advised, job, cores
        self._at_most = at_once or AT_ONCE_MAX
        self._lock = threading.Lock()
        self._running = 0
        self._grant: CoreGrant | None = None  # of all tasks that run
        self._looks = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a run."""
        predictor = self._job.predictor
        predictor = 1.0 if predictor is None else checked_predictor(predictor(*args, **kwargs))
        future = super().submit(self._run, predictor, fn, args, kwargs)
        if len(self._threads) == self._max_workers < self._at_most and not self._looks:
            with self._lock:
                begins, self._looks = not self._looks, True
            if begins:
                threading.Thread(target=self._look, name="advised look", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `wait` return when all have ended. Until then more threads may start."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        while wait and (threads := [each for each in tuple(self._threads) if each.is_alive()]):
            for each in threads:
                each.join()

    def _run(self, predictor: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        GRANTS.pools.look()
        set_limits(GRANTS.pools.of_threads, 1)
        with self._lock:
            self._running += 1
            if self._grant is None:
                self._grant = GRANTS.enter(self._cores, self._cores, workers=True)
        ok = False
        begun = time.perf_counter()
        try:
            found = fn(*args, **kwargs)
            ok = True
            return found
        finally:
            elapsed_s = time.perf_counter() - begun
            others = min(self._running, self._cores) - 1  # who waits holds no core
            self._advised.learn_run(self._job.component, predictor, 1, elapsed_s, others, ok=ok)
            with self._lock:
                self._running -= 1
                if not self._running:
                    GRANTS.end_call(self._grant)
                    self._grant = None

    def _look(self) -> None:
        """Allow more threads as long as tasks are queued, while those that run do not compute."""
        pause_s = LOOK_S
        while True:
            begun, used = time.perf_counter(), time.process_time()
            time.sleep(pause_s)
            elapsed_s, used_s = time.perf_counter() - begun, time.process_time() - used
            with self._lock:
                if not self._work_queue.qsize() or self._max_workers == self._at_most:
                    self._looks = False
                    return
            pause_s = min(2.0 * pause_s, LOOK_MAX_S)
            if used_s < BUSY * elapsed_s and elapsed_s < pause_s + LATE_S:
                pause_s = LOOK_S
                with self._shutdown_lock:
                    self._max_workers = min(self._at_most, GROWTH * self._max_workers)
                    for _ in range(min(self._work_queue.qsize(), self._max_workers - len(self._threads))):
                        self._adjust_thread_count()
