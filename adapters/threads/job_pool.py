"""An executor whose jobs share one pool of cores, each with as many as `choose_together` gives it.

Jobs wait in the pool. Each time jobs arrive or one ends, those that wait and those that run are put into one question, and
the jobs that get cores start. A job keeps its cores until it ends; its run is then learned. Where the next ones may have
one core only, they start in their order, without a question.

A job's thread pools have as many threads as it has cores. In worker processes each job has its own; in threads of one process
jobs that overlap share the smallest limit, see `grants`, and a run that had another limit than its cores is not learned.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, Protocol

from advisor.adapters.threads.deciding import checked_predictor
from advisor.adapters.threads.grants import GRANTS
from advisor.adapters.threads.jobs import Job, Outcome, job_of, run_job, settle_future
from advisor.adapters.threads.waiting import EXECUTORS, JobThreads, RunLearner
from advisor.domain.allowed_cores import AllowedCores, allowed_range, intersect_allowed, parse_allowed

GATHER_S: Final = (
    0.002  # after an arrival, before cores are chosen: the first job of a loop would get those of the others
)
ASKED_MAX: Final = 256  # waiting jobs in one question: with more behind them each gets its cheapest count anyway

log = logging.getLogger("advisor.threads")


@dataclass(slots=True, eq=False)
class _PooledCall:
    future: Future[Any]
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    job: Job
    predictor: Any
    allowed: AllowedCores
    cores: int = 0


class PoolAdviser(RunLearner, Protocol):
    """What a pool needs of an `Advised`."""

    def choose_together(self, jobs: Sequence[Mapping[str, Any]], cores: int) -> Mapping[Any, int] | None: ...


class AdvisedPool(Executor):
    """Runs jobs on a pool of cores; never more cores are in use than it has. Safe to use from all threads.

    Parameters
    ----------
    advised : Advised
        Who learns and answers.
    cores : int
        Of the pool.
    executor : Executor, optional
        Whose workers run the jobs, as many as the pool has cores: a `ProcessPoolExecutor`, say. It is shut down with the
        pool. One that places jobs by their cores has a method ``submit_on(cores, fn, *args)``. Absent: threads.
    job_cores_max : int, optional
        The most cores of one job. Absent: all.

    Attributes
    ----------
    cores : int
        Of the pool.
    """

    def __init__(
        self, advised: PoolAdviser, cores: int, executor: Executor | None = None, *, job_cores_max: int | None = None
    ) -> None:
        self.cores = cores
        self._counts = allowed_range(1, job_cores_max or cores)
        self._advised = advised
        self._lock = threading.RLock()
        if executor is None:
            GRANTS.pools.look()  # takes 0.1 s the first time, which no job should wait for
            EXECUTORS.add(self)
        self._inner: Any = JobThreads(cores) if executor is None else executor
        self._submit_on: Callable[..., Any] = getattr(self._inner, "submit_on", self._submit_anywhere)
        self._idle = threading.Condition(self._lock)
        self._waiting: dict[_PooledCall, None] = {}
        self._running: dict[_PooledCall, None] = {}
        self._used = 0  # cores
        self._unfinished = 0
        self._gathering = False
        self._choosing = threading.Lock()  # one question at a time; who comes meanwhile has it asked again
        self._changed = False
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a job: what `Job` marked the function with, else a component of the function's name."""
        return self.submit_job(job_of(fn), fn, *args, **kwargs)

    def submit_job(self, job: Job, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return the future of a call that is such a job.

        Raises
        ------
        InvalidValue
            For a predictor that is none, or core counts of which the pool has none.
        RuntimeError
            After `shutdown`.
        """
        predictor = job.predictor(*args, **kwargs) if callable(job.predictor) else job.predictor
        predictor = 1.0 if predictor is None else checked_predictor(predictor)
        submission = _PooledCall(Future(), fn, args, kwargs, job, predictor, self._counts_of(job))
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._unfinished += 1
            self._waiting[submission] = None
            gathers = submission.allowed.most > 1 or len(self._waiting) > 1
            if gathers and not self._gathering and self._used < self.cores:
                self._gathering = True
                threading.Timer(GATHER_S, self._end_gathering).start()
        if not gathers:
            self._choose()
        return submission.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; with `wait` return when all have ended."""
        with self._lock:
            self._closed = True
        if cancel_futures:
            self.cancel_waiting()
        self._choose()
        self._close_if_idle(0)
        if wait:
            with self._lock:
                self._idle.wait_for(lambda: not self._unfinished)
            self._inner.shutdown(wait=True)

    def finish(self) -> None:
        """Let all jobs end, and have their runs written."""
        self.shutdown()
        self._advised.flush()

    def cancel_waiting(self) -> None:
        """Cancel the jobs that have not started."""
        with self._lock:
            waiting = [*self._waiting]
        for submission in waiting:
            submission.future.cancel()

    def _counts_of(self, job: Job) -> AllowedCores:
        allowed = self._counts if job.allowed is None else parse_allowed("allowed", job.allowed)
        return intersect_allowed("allowed", allowed, self._counts, "the pool")

    # -- choosing -----------------------------------------------------------------------------------------------------------

    def _end_gathering(self) -> None:
        with self._lock:
            self._gathering = False
        self._choose()

    def _choose(self) -> None:
        """Choose and start jobs, and again where something changed meanwhile."""
        self._changed = True
        while self._changed and self._choosing.acquire(blocking=False):
            try:
                with self._lock:
                    running, free = [*self._running], self.cores - self._used
                    waiting = [*islice(self._waiting, max(1, free))]
                    single = all(each.allowed.most == 1 for each in waiting)
                    waiting = waiting if single else [*islice(self._waiting, ASKED_MAX)]
                self._changed = self._remove_cancelled(waiting)
                if self._changed:
                    continue
                if single:
                    self._start(dict.fromkeys(waiting[:free], 1))
                elif any(each.allowed.least <= free for each in waiting):
                    self._start(self._chosen(waiting, running, free))
            finally:
                self._choosing.release()

    def _remove_cancelled(self, waiting: Sequence[_PooledCall]) -> bool:
        """Remove jobs that were cancelled while they waited; return whether there were any."""
        cancelled = [each for each in waiting if each.future.cancelled()]
        with self._lock:
            for each in cancelled:
                del self._waiting[each]
        for each in cancelled:
            each.future.set_running_or_notify_cancel()
        self._close_if_idle(len(cancelled))
        return bool(cancelled)

    def _chosen(
        self, waiting: Sequence[_PooledCall], running: Sequence[_PooledCall], free: int
    ) -> dict[_PooledCall, int]:
        """Return the cores of the waiting jobs that are to start."""
        jobs: list[dict[str, Any]] = [
            {
                "id": number, "component": each.job.component, "predictor": each.predictor, "weight": each.job.weight,
                "allowed": [each.cores] if each.cores else each.allowed.as_wire(), "cores_now": each.cores or None,
            }
            for number, each in enumerate([*running, *waiting])
        ]  # fmt: skip
        try:
            answer = self._advised.choose_together(jobs, self.cores)
        except Exception:
            log.exception("jobs get cores by a fixed rule")
            answer = None
        found = {each: (answer or {}).get(len(running) + number, 0) for number, each in enumerate(waiting)}
        found = {each: cores for each, cores in found.items() if cores <= free and cores in each.allowed}
        if answer is not None and (running or found):
            return found
        share = self.cores // len(waiting)  # nobody answered, or a pool without a job would stay so
        return {each: each.allowed.nearest(share) for each in waiting}

    def _start(self, chosen: Mapping[_PooledCall, int]) -> None:
        """Start the jobs that have cores, as far as there are any."""
        for submission, cores in chosen.items():
            with self._lock:
                if cores > self.cores - self._used:
                    continue
                del self._waiting[submission]
                if submission.future.set_running_or_notify_cancel():
                    submission.cores = cores
                    self._running[submission] = None
                    self._used += cores
            if submission.cores:
                self._hand_job(submission)
            else:
                self._close_if_idle(1)

    def _hand_job(self, submission: _PooledCall) -> None:
        call, cores = (submission.call, submission.args, submission.kwargs), submission.cores
        if submission.job.cores_as is not None:
            submission.kwargs[submission.job.cores_as] = cores
        try:
            inner = self._submit_on(cores, run_job, self.cores, cores, *call)
        except BaseException as error:
            self._end(submission, (None, 0.0, error, False))
        else:
            inner.add_done_callback(partial(self._end_inner, submission))

    def _end_inner(self, submission: _PooledCall, inner: Any) -> None:
        self._end(submission, _outcome(inner))

    def _submit_anywhere(self, _cores: int, fn: Callable[..., Any], *args: Any) -> Any:
        return self._inner.submit(fn, *args)

    def _end(self, submission: _PooledCall, outcome: Outcome) -> None:
        """Learn what ran, give its cores to others, and pass on what it gave."""
        value, elapsed_s, error, own = outcome
        job, cores = submission.job, submission.cores
        if elapsed_s > 0.0 and (own or job.cores_as is not None):
            others = self._used - cores
            self._advised.learn_run(job.component, submission.predictor, cores, elapsed_s, others, ok=error is None)
        with self._lock:
            del self._running[submission]
            self._used -= cores
        if self._waiting:
            self._choose()
        settle_future(submission.future, value, error)
        self._close_if_idle(1)

    def _close_if_idle(self, ended: int) -> None:
        """Count jobs that have ended; after the last one of a closed pool its workers end."""
        with self._lock:
            self._unfinished -= ended
            if not self._unfinished:
                if self._closed:
                    self._inner.shutdown(wait=False)
                self._idle.notify_all()


def _outcome(inner: Any) -> Outcome:
    if inner.cancelled():
        return None, 0.0, RuntimeError("the worker was shut down"), False
    error = inner.exception()
    return inner.result() if error is None else (None, 0.0, error, False)
