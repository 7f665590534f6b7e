"""An executor whose tasks may wait: for a disk, a network or a timer.

A task that waits uses no processor, so more threads run than there are cores: of tasks of which nothing is known 64 at once.
While others are queued the executor is looked at: as long as its threads together use less than `BUSY` of one core, more may
run. One core is the bound, not all: threads that wait for the interpreter's lock look like threads that sleep, and together
they have one core. Threads that compute are not sent away: 64 on two cores take as long as two, to a tenth.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from multiprocessing import util
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol

from advisor.adapters.threads.deciding import checked_predictor
from advisor.adapters.threads.grants import GRANTS, CoreGrant
from advisor.adapters.threads.jobs import Job, settle_future, timed_call
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

    def flush(self) -> None: ...


class FinishesTasks(Protocol):
    """An executor whose tasks end before the process does."""

    def finish(self) -> None: ...


class WaitingExecutor(Executor):
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
        GRANTS.pools.look()  # takes 0.1 s the first time, which no task should wait for
        self._advised, self._job, self._cores = advised, job, cores
        self._allowed, self._at_most = at_once or AT_ONCE_FIRST, at_once or AT_ONCE_MAX
        self._calls: SimpleQueue[Any] = SimpleQueue()  # bound methods with arguments; None: no more come
        self._threads: list[threading.Thread] = []
        self._submitting = threading.Lock()  # also held while a thread starts
        self._counting = threading.Lock()  # apart from it: tasks that end never wait for a thread to start
        self._unfinished = 0
        self._grant: CoreGrant | None = None  # of all tasks that run
        self._looks = self._closed = False
        weakref.finalize(self, self._calls.put, None).atexit = False
        EXECUTORS.add(self)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a run."""
        predictor = self._job.predictor
        predictor = 1.0 if predictor is None else checked_predictor(predictor(*args, **kwargs))
        future: Future[Any] = Future()
        with self._submitting:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            with self._counting:
                self._unfinished += 1
            self._calls.put((self._run, future, predictor, fn, args, kwargs))
            if self._unfinished > len(self._threads):
                if len(self._threads) < self._allowed:
                    self._start_thread()
                elif self._allowed < self._at_most and not self._looks:
                    self._looks = True
                    threading.Thread(target=self._look, name="advised look", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `wait` return when all have ended. Until then more threads may start."""
        with self._submitting:
            self._closed = True
            with suppress(Empty):
                while cancel_futures:
                    if (call := self._calls.get_nowait()) is not None:
                        call[1].cancel()
                        self._end_task()
            self._calls.put(None)
        for thread in self._threads if wait else ():  # the list may grow meanwhile
            thread.join()

    def finish(self) -> None:
        """Let all tasks end, and have their runs written."""
        self.shutdown()
        self._advised.flush()

    def _start_thread(self) -> None:
        self._threads.append(_started_thread(self._calls))

    def _run(
        self, future: Future[Any], predictor: Any, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if future.set_running_or_notify_cancel():
            GRANTS.pools.look()
            set_limits(GRANTS.pools.of_threads, 1)
            if self._grant is None:
                with self._counting:
                    self._grant = self._grant or GRANTS.enter(self._cores, self._cores, workers=True)
            value, elapsed_s, failed = timed_call(fn, args, kwargs)
            others = min(self._unfinished, len(self._threads), self._cores) - 1  # who waits holds no core
            self._advised.learn_run(self._job.component, predictor, 1, elapsed_s, others, ok=failed is None)
            settle_future(future, value, failed)
        self._end_task()

    def _end_task(self) -> None:
        with self._counting:
            self._unfinished -= 1
            if not self._unfinished and self._grant is not None:
                GRANTS.end_call(self._grant)
                self._grant = None

    def _look(self) -> None:
        """Allow more threads as long as tasks are queued, while those that run do not compute."""
        pause_s = LOOK_S
        while True:
            begun, used = time.perf_counter(), time.process_time()
            time.sleep(pause_s)
            elapsed_s, used_s = time.perf_counter() - begun, time.process_time() - used
            with self._submitting:
                if self._unfinished <= len(self._threads) or self._allowed == self._at_most:
                    self._looks = False
                    return
            pause_s = min(2.0 * pause_s, LOOK_MAX_S)
            if used_s < BUSY * elapsed_s and elapsed_s < pause_s + LATE_S:
                pause_s = LOOK_S
                self._allowed = min(self._at_most, GROWTH * self._allowed)
                while len(self._threads) < min(self._unfinished, self._allowed):
                    with self._submitting:
                        self._start_thread()


class JobThreads(Executor):
    """At most so many threads that run calls, for a pool that hands over jobs also when the main thread has ended."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[Any] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._counting = threading.Lock()
        self._busy = 0
        weakref.finalize(self, self._calls.put, None).atexit = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a call."""
        future: Future[Any] = Future()
        with self._counting:
            self._busy += 1
            if len(self._threads) < min(self._busy, self._most):
                self._threads.append(_started_thread(self._calls))
        self._calls.put((self._run, future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads when the calls have ended."""
        self._calls.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _run(self, future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        value, _, failed = timed_call(fn, args, kwargs)
        with self._counting:
            self._busy -= 1
        settle_future(future, value, failed)


def _started_thread(calls: SimpleQueue[Any]) -> threading.Thread:
    thread = threading.Thread(target=_run_calls, args=(calls,), name="advised task", daemon=True)
    thread.start()
    return thread


def _run_calls(calls: SimpleQueue[Any]) -> None:
    """Run calls until no more come; between two no reference to their executor is held."""
    while (call := calls.get()) is not None:
        run, *rest = call
        run(*rest)
        del call, run, rest
    calls.put(None)


EXECUTORS: Final[weakref.WeakSet[FinishesTasks]] = weakref.WeakSet()  # of this process


@atexit.register
def _finish_tasks() -> None:
    """Before the process ends: daemon threads would end in the middle of their tasks."""
    for executor in [*EXECUTORS]:
        executor.finish()


def _finish_at_end(_: object = None) -> None:
    """Processes of multiprocessing end without atexit: they do what is registered here, and forget it when they begin."""
    util.Finalize(None, _finish_tasks, exitpriority=20)


os.register_at_fork(after_in_child=EXECUTORS.clear)  # their threads are the parent's
util.register_after_fork(EXECUTORS, _finish_at_end)
_finish_at_end()
