"""An executor of `concurrent.futures` that streams its tasks' times, and lets as many run at once as the model thinks best.

Each task is a run of the component on one core. How many run at once is a component of its own, ``NAME at once``: a stretch
of tasks that ran without a change, its seconds a task, its cores the number at once. A stretch ends when nothing is left to
do, or after `STRETCH` tasks for each worker; one with fewer tasks than workers teaches nothing.

A task that waits (for a disk, a network, a timer) holds no core. While the running tasks of threads leave their cores idle,
more are started, see `waiting.Admission`. A stretch with such tasks tells nothing of a number of cores and is not learned.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Protocol

from advisor.adapters.threads.deciding import Deciding, checked_predictor
from advisor.adapters.threads.grants import GRANTS, CoreGrant
from advisor.adapters.threads.pools import set_limits
from advisor.adapters.threads.waiting import AT_ONCE_MAX, Admission, WorkerClock

STRETCH: Final = 8  # tasks a worker, after which the number at once is chosen anew: a stretch's ends weigh an eighth


Ended = tuple[Any, float, BaseException | None]  # a task's value, its seconds, its error


@dataclass(slots=True)
class _Submission:
    future: Future[Any]
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    predictor: Any


class Adviser(Protocol):
    """What an executor needs of an `Advised`."""

    clock: Callable[[], float]

    def deciding(self, component: str, cores_max: int | None) -> Deciding: ...

    def others(self, grant: CoreGrant) -> float: ...

    def learn(
        self, component: str, predictor: Any, cores: int, elapsed_s: float, others: float, *, ok: bool
    ) -> None: ...


class AdvisedExecutor(Executor):
    """Runs calls, as many at once as gives the most tasks a second. Safe to use from all threads.

    Parameters
    ----------
    advised : Advised
        Who learns and answers.
    component : str
        The tasks' component.
    cores_max : int, optional
        The most at once, waiting tasks included. Absent: as many on cores as this process may use; on threads up to
        `AT_ONCE_MAX` tasks beside them that wait.
    predictor : callable, optional
        From a task's arguments to its predictor.
    executor : Executor, optional
        Whose workers run the tasks, at least `cores_max`: a `ProcessPoolExecutor`, say; it is shut down with this one.
        Absent: threads.
    """

    def __init__(
        self,
        advised: Adviser,
        component: str,
        *,
        cores_max: int | None = None,
        predictor: Callable[..., Any] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self._advised = advised
        self._component = component
        self._at_once = f"{component} at once"
        self._deciding = advised.deciding(self._at_once, cores_max)
        self._predictor = predictor
        self._threads = executor is None
        GRANTS.pools.look()  # takes 0.1 s the first time, which no task should wait for
        self._lock = threading.RLock()
        self._admission = (
            Admission(self._lock, self._deciding, self._more) if executor is None and cores_max is None else None
        )
        workers = self._deciding.cores_max if self._admission is None else AT_ONCE_MAX
        self._inner = ThreadPoolExecutor(workers, "advised") if executor is None else executor
        self._idle = threading.Condition(self._lock)
        self._waiting: deque[_Submission] = deque()
        self._running = 0
        self._ended = 0  # tasks of this stretch
        self._begun = 0.0
        self._point: Any = 1.0
        self._grant: CoreGrant | None = None
        self._alone = True  # the stretch has had no task beyond its cores
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a call, which runs when it is its turn."""
        predictor = 1.0 if self._predictor is None else checked_predictor(self._predictor(*args, **kwargs))
        task = _Submission(Future(), fn, args, kwargs, predictor)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append(task)
            self._start()
        return task.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with `wait` return when all have ended."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                for task in self._waiting:
                    task.future.cancel()
            self._start()
            while wait and (self._waiting or self._running):
                self._idle.wait()
            if not self._waiting:
                self._inner.shutdown(wait=False)
        if wait:
            self._inner.shutdown(wait=True)

    # -- stretches ----------------------------------------------------------------------------------------------------------

    def _start(self, *, here: bool = False) -> _Submission | None:
        """Start tasks, as many as may run at once; the lock is held. A worker that is `here` runs what is returned itself."""
        own: _Submission | None = None
        while self._waiting:
            grant = self._grant if self._grant is not None else self._begin(self._waiting[0].predictor)
            if self._running >= grant.cores:  # of the stretch before more may still run
                if self._admission is None or not self._admission.admits(self._running - grant.cores):
                    return own
                self._alone = False
            task = self._waiting.popleft()
            if not task.future.set_running_or_notify_cancel():
                continue
            self._running += 1
            if here and own is None:
                own = task
                continue
            try:
                self._hand(task)
            except BaseException as error:
                self._running -= 1
                task.future.set_exception(error)
        if not self._running:
            self._end()
            self._idle.notify_all()
            if self._closed:
                self._inner.shutdown(wait=False)
        return own

    def _more(self) -> bool:
        """Start tasks after more were admitted; return whether others wait. The lock is held."""
        self._start()
        return bool(self._waiting)

    def _hand(self, task: _Submission) -> None:
        """Let a worker run a task."""
        if self._threads:
            self._inner.submit(self._work, task)
            return
        inner = self._inner.submit(timed, os.getpid(), task.call, task.args, task.kwargs)
        inner.add_done_callback(lambda inner: self._done(task, _ended(inner), here=False))

    def _work(self, task: _Submission | None) -> None:
        """Run one task after another on this thread, while as many may run at once: to hand each over costs what it takes."""
        if self._admission is None:
            while task is not None:
                task = self._done(task, timed(os.getpid(), task.call, task.args, task.kwargs), here=True)
            return
        with self._admission.worker() as worker:
            while task is not None:
                ended = timed(os.getpid(), task.call, task.args, task.kwargs, worker)
                task = self._done(task, ended, here=True)

    def _begin(self, predictor: Any) -> CoreGrant:
        deciding = self._deciding
        self._point = predictor
        available = GRANTS.available(deciding.cores_max)
        if self._admission is None or deciding.computes:
            cores = deciding.cores(deciding.size(predictor), predictor, available, self._advised.clock)
        else:  # nothing is asked about tasks that wait
            cores = available
        self._grant = GRANTS.enter(cores, deciding.cores_max, workers=True)
        self._ended = 0
        self._alone = self._running <= self._grant.cores
        self._begun = self._advised.clock()
        return self._grant

    def _done(self, task: _Submission, ended: Ended, *, here: bool) -> _Submission | None:
        """Hand on what a task gave, and start the next ones."""
        value, elapsed_s, failed = ended
        if elapsed_s > 0.0:
            grant = self._grant
            others = self._running if grant is None else min(self._running, grant.cores)  # who waits holds no core
            self._advised.learn(self._component, task.predictor, 1, elapsed_s, max(0, others - 1), ok=failed is None)
        with self._lock:
            grant = self._grant
            self._running -= 1
            self._ended += failed is None
            if grant is not None and self._alone and self._waiting and self._ended >= STRETCH * grant.cores:
                self._deciding.computes = True
                self._end()
            following = self._start(here=here)
        if failed is None:
            task.future.set_result(value)
        else:
            task.future.set_exception(failed)
        return following

    def _end(self) -> None:
        """End a stretch: it is learned where it had work for each worker."""
        grant, self._grant = self._grant, None
        if grant is None:
            return
        elapsed_s = self._advised.clock() - self._begun
        GRANTS.end_call(grant)
        if self._alone and self._ended >= grant.cores and elapsed_s > 0.0:
            each_s = elapsed_s / self._ended
            self._deciding.ran(self._deciding.size(self._point), grant.cores, each_s)
            others = self._advised.others(grant)
            self._advised.learn(self._at_once, self._point, grant.cores, each_s, others, ok=True)


def timed(
    parent: int,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    worker: WorkerClock | None = None,
) -> Ended:
    """Run a task in its worker, whose own thread pools have one thread: return its value, its seconds, its error."""
    pools = GRANTS.pools
    pools.look()
    set_limits(pools.of_threads, 1)
    if os.getpid() != parent:  # in the parent the grant has set these
        set_limits(pools.shared, 1)
    if worker is not None:
        worker.begin_task()
    begun = perf_counter()
    value, failed = None, None
    try:
        value = call(*args, **kwargs)
    except BaseException as error:
        failed = error
    elapsed_s = perf_counter() - begun
    if worker is not None:
        worker.end_task()
    return value, elapsed_s, failed


def _ended(inner: Future[Any]) -> Ended:
    if inner.cancelled():
        return None, 0.0, RuntimeError("the worker was shut down")
    error = inner.exception()
    return inner.result() if error is None else (None, 0.0, error)
