"""The backend for joblib whose tasks are jobs of an `AdvisedPool`.

    advised.register_joblib()
    with parallel_config("advised"):
        GridSearchCV(...).fit(x, y)

A task's cores are the threads of its thread pools, and the workers of joblib within it.
"""

# pyright: reportUnknownVariableType=false, reportIncompatibleMethodOverride=false
from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from typing import Any

from joblib import register_parallel_backend
from joblib._parallel_backends import ParallelBackendBase, ThreadingBackend
from joblib.externals.loky import get_reusable_executor

from advisor.adapters.threads.grants import GRANTS
from advisor.adapters.threads.job_pool import AdvisedPool
from advisor.adapters.threads.jobs import Job, job_of


class AdvisedBackend(ParallelBackendBase):
    """Submits joblib's tasks to a pool.

    Parameters
    ----------
    advised : Advised
        Who learns and answers, where no pool is given.
    pool : AdvisedPool, optional
        Absent: joblib's worker processes, on all cores that `advised` may use, for each call of `Parallel`.
    jobs : mapping, optional
        From the names of functions, ``module.function``, to their `Job`. Others are as in `AdvisedPool.submit`.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(
        self, advised: Any, *, pool: AdvisedPool | None = None, jobs: Mapping[str, Job] | None = None, **given: Any
    ) -> None:
        super().__init__(**given)
        self._advised, self._given, self._jobs = advised, pool, jobs or {}
        self._pool = pool

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many tasks may run at once."""
        cores = self._advised.cores_max if self._given is None else self._given.cores
        return limited(n_jobs, cores)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Begin calls of a `Parallel`."""
        self.parallel = parallel
        if self._pool is None:
            cores = self._advised.cores_max
            self._pool = self._advised.pool(cores, ReusedWorkers(cores))
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Any, callback: Callable[[Any], Any] | None = None) -> Future[Any]:
        """Submit a task."""
        assert self._pool is not None
        call, args, kwargs = func.items[0]
        job = job_of(call)
        job = self._jobs.get(job.component, job)
        predictor = job.predictor(*args, **kwargs) if callable(job.predictor) else job.predictor
        future = self._pool.submit_job(replace(job, predictor=predictor, cores_as=None), func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return what a task gave."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel the tasks that have not started."""
        if self._pool is not None:
            self._pool.cancel_waiting()

    def terminate(self) -> None:
        """End the pool, where it was not given."""
        if self._pool is not self._given and self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def get_nested_backend(self) -> tuple[Any, None]:
        """Return the backend of joblib within a task."""
        return WithinTask(nesting_level=(self.nesting_level or 0) + 1), None


def register_backend(name: str, advised: Any) -> None:
    """Let ``parallel_config(name)`` mean pools of jobs of this process."""
    register_parallel_backend(name, partial(AdvisedBackend, advised))


class ReusedWorkers(Executor):
    """The worker processes that joblib keeps between calls of `Parallel`; a crashed set is replaced by a new one."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call."""
        return get_reusable_executor(max_workers=self._workers).submit(fn, *args, **kwargs)


class WithinTask(ThreadingBackend):
    """Threads, as many as the task has cores."""

    default_n_jobs = -1

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many threads may run at once."""
        return limited(n_jobs, GRANTS.cores_granted())


def limited(n_jobs: int | None, cores: int) -> int:
    """Return the workers of joblib that `n_jobs` names, at most `cores`."""
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 in Parallel has no meaning")
    return min(n_jobs, cores) if n_jobs is not None and n_jobs > 0 else max(1, cores + 1 + (n_jobs or -1))
