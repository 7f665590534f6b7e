"""The pool of jobs behind `concurrent.futures`, joblib and Dask: every job runs, and no more cores are used than there are."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live import running
from thread_pools import rows_of

from advisor import Advisor
from advisor.adapters.threads import Advised, AdvisedPool, Job
from advisor.errors import InvalidValue


class Judge:
    """An advisor that keeps the questions and the rows, and answers by a rule, or as an advisor does."""

    def __init__(
        self, answer: Callable[[Sequence[Mapping[str, Any]], int], Mapping[Any, int] | None] | None = None
    ) -> None:
        self.advisor, self.answer = Advisor(), answer
        self.rows: list[tuple[str, Any, int, bool]] = []

    def choose_together(self, jobs: Sequence[Mapping[str, Any]], cores: int) -> Mapping[Any, int] | None:
        return self.advisor.choose_together(jobs, cores).cores if self.answer is None else self.answer(jobs, cores)

    def learn_run(
        self, component: str, predictor: Any, cores: int, elapsed_s: float, others: float, *, ok: bool
    ) -> None:
        self.rows.append((component, predictor, cores, ok))
        self.advisor.observe(component, predictor=predictor, cores=cores, elapsed_s=elapsed_s, ok=ok)


class ByHand(Executor):
    """Workers that begin when the test says so, and count the cores that are taken."""

    def __init__(self) -> None:
        self.given: deque[tuple[Future[Any], int, Callable[[], Any]]] = deque()
        self.most = 0

    def submit_on(self, cores: int, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        self.given.append((Future(), cores, lambda: fn(*args)))
        self.most = max(self.most, sum(each[1] for each in self.given))
        return self.given[-1][0]

    def run(self, at: int) -> None:
        self.given.rotate(-at)
        future, _, call = self.given[0]
        found = call()
        self.given.popleft()
        future.set_result(found)


def pool_by_hand(judge: Judge, cores: int, monkeypatch: pytest.MonkeyPatch) -> tuple[AdvisedPool, ByHand]:
    """A pool that chooses when it is closed or a job ends, not by a timer."""
    monkeypatch.setattr("advisor.adapters.threads.job_pool.threading.Timer", lambda *_: Idle())
    inner = ByHand()
    return AdvisedPool(judge, cores, inner), inner


class Idle:
    def start(self) -> None: ...


def fails(_: int) -> None:
    raise LookupError


JOBS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.integers(1, 9),
        st.one_of(st.just([1]), st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, unique=True)),
        st.sampled_from(["run", "fail", "cancel"]),
    ),
    min_size=1, max_size=20,
)  # fmt: skip
ANSWERS = {
    "advisor": None, "nobody": lambda jobs, cores: None, "wait": lambda jobs, cores: {},
    "too many": lambda jobs, cores: {each["id"]: cores + 1 for each in jobs},
    "all": lambda jobs, cores: {each["id"]: cores for each in jobs},
}  # fmt: skip


@pytest.mark.parametrize("answer", list(ANSWERS))
@given(jobs=JOBS, order=st.lists(st.integers(0, 7), min_size=20, max_size=20))
@settings(max_examples=25, deadline=None)
def test_every_job_runs_and_never_are_more_cores_in_use_than_there_are(
    answer: str, jobs: list[tuple[str, int, list[int], str]], order: list[int]
) -> None:
    """Whatever is answered, in whatever order jobs end; those that fail or are cancelled leave their cores to others."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        judge = Judge(ANSWERS[answer])
        pool, inner = pool_by_hand(judge, 8, monkeypatch)
        futures = [
            pool.submit_job(Job(name, predictor=x, allowed=allowed), fails if what == "fail" else abs, x)
            for name, x, allowed, what in jobs
        ]
        cancelled = [what == "cancel" and future.cancel() for future, (*_, what) in zip(futures, jobs, strict=True)]
        pool.shutdown(wait=False)
        for at in order:
            if inner.given:
                inner.run(at % len(inner.given))
        pool.shutdown(wait=True)
        assert inner.most <= 8
        assert not inner.given
        for future, gone, (_, x, _, what) in zip(futures, cancelled, jobs, strict=True):
            if gone:
                assert future.cancelled()
            elif what == "fail":
                assert isinstance(future.exception(), LookupError)
            else:
                assert future.result() == x
        for name, x, cores, _ in judge.rows:
            assert any((name, x) == job[:2] and cores in job[2] for job in jobs)
        assert len(judge.rows) == len(jobs) - sum(cancelled)
        assert sum(not ok for *_, ok in judge.rows) == sum(what == "fail" for *_, what in jobs)


def test_jobs_of_one_core_begin_in_their_order_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(lambda jobs, cores: pytest.fail("nothing is to be chosen"))
    pool, inner = pool_by_hand(judge, 3, monkeypatch)
    futures = [pool.submit_job(Job("one", allowed=[1]), abs, n) for n in range(9)]
    assert len(inner.given) == 3
    while inner.given:
        inner.run(-1)
    assert [future.result() for future in futures] == list(range(9))
    assert inner.most == 3
    pool.shutdown()


def test_a_broken_set_of_workers_ends_every_job_of_one_core(advised: Advised) -> None:
    with advised.pool(2, ProcessPoolExecutor(2)) as pool:
        assert isinstance(pool.submit_job(Job("dies", allowed=[1]), os._exit, 1).exception(), BrokenProcessPool)
        futures = [pool.submit_job(Job("dies", allowed=[1]), abs, n) for n in range(2000)]
        assert all(isinstance(each.exception(), BrokenProcessPool) for each in futures)


def test_a_job_is_marked_once_and_has_its_cores_as_an_argument(advised: Advised) -> None:
    @Job("scaled", predictor=lambda n: n, allowed=[2], cores_as="threads")
    def scaled(n: int, threads: int) -> tuple[int, int]:
        return n, threads

    with advised.pool(4) as pool:
        assert [pool.submit(scaled, n).result() for n in range(1, 4)] == [(1, 2), (2, 2), (3, 2)]
        assert pool.submit(pow, 2, 5).result() == 32
        with pytest.raises(InvalidValue, match="allowed"):
            pool.submit_job(Job("wide", allowed=[5, 8]), pow, 2, 5)
        with pytest.raises(InvalidValue, match="predictor"):
            pool.submit_job(Job("odd", predictor=-1.0), pow, 2, 5)
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(pow, 2, 5)
    advised.flush()
    assert advised._path is not None
    assert rows_of(Path(advised._path)) == {"scaled": 3, "builtins.pow": 1}


def threads_here(_: int) -> list[int]:
    import numpy as np  # noqa: PLC0415 - its BLAS is loaded in the worker
    from threadpoolctl import threadpool_info  # noqa: PLC0415

    return [each["num_threads"] for each in threadpool_info() if np.__name__]


def test_in_processes_the_pools_of_a_job_have_its_cores(advised: Advised) -> None:
    with advised.pool(4, ProcessPoolExecutor(2)) as pool:
        pool.submit_job(Job("load"), threads_here, 0).result()
        for cores in (1, 2, 4):
            found = [pool.submit_job(Job("seen", allowed=[cores]), threads_here, 0).result() for _ in range(4)]
            assert found[-1] == [min(cores, max(found[-1]))] * len(found[-1])
            assert all(each <= cores for each in found[-1])


def test_after_workers_that_died_waiting_jobs_end_with_their_error(advised: Advised) -> None:
    with advised.pool(2, ProcessPoolExecutor(2)) as pool:
        futures = [pool.submit_job(Job("dies", allowed=[2]), os._exit, 1) for _ in range(3)]
        assert all(isinstance(each.exception(), BrokenProcessPool) for each in futures)


def test_jobs_that_have_not_started_are_cancelled_at_the_end(advised: Advised) -> None:
    gate, begun = threading.Event(), threading.Event()

    def waits() -> bool:
        begun.set()
        return gate.wait()

    pool = advised.pool(1)
    first = pool.submit(waits)
    assert begun.wait(60.0)
    others = [pool.submit(pow, n, 2) for n in range(5)]
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert first.result()
    for other in others:
        with pytest.raises(CancelledError):
            other.result()
    pool.shutdown()


# -- joblib -----------------------------------------------------------------------------------------------------------------


def test_tasks_of_joblib_are_jobs_of_a_pool(advised: Advised) -> None:
    joblib = pytest.importorskip("joblib")
    advised.register_joblib()
    names = f"{__name__}.threads_within"
    with (
        advised.pool(4) as pool,
        joblib.parallel_config("advised", pool=pool, jobs={names: Job("within", allowed=[3])}),
    ):
        found = joblib.Parallel()(joblib.delayed(threads_within)(n) for n in range(9))
        assert found == [(n, 3) for n in range(9)]
        with pytest.raises(ZeroDivisionError):
            joblib.Parallel()(joblib.delayed(divmod)(1, n - 5) for n in range(9))
        assert joblib.Parallel(n_jobs=1)(joblib.delayed(pow)(n, 2) for n in range(4)) == [0, 1, 4, 9]
    advised.flush()
    assert rows_of(Path(str(advised._path)))["within"] == 9


def threads_within(n: int) -> tuple[int, int]:
    import joblib  # noqa: PLC0415

    return n, joblib.effective_n_jobs()


@pytest.mark.slow
def test_scikit_learn_searches_in_worker_processes(advised: Advised) -> None:
    joblib = pytest.importorskip("joblib")
    forests = pytest.importorskip("sklearn.ensemble")
    selection = pytest.importorskip("sklearn.model_selection")
    datasets = pytest.importorskip("sklearn.datasets")
    advised.register_joblib()
    x, y = datasets.make_classification(200, random_state=0)
    fit = "sklearn.model_selection._validation._fit_and_score"
    jobs = {fit: Job("forest", predictor=lambda *_, parameters, **__: parameters["n_estimators"])}
    search = selection.GridSearchCV(forests.RandomForestClassifier(random_state=0), {"n_estimators": [3, 6]}, cv=2)
    alone = search.fit(x, y).cv_results_["mean_test_score"].tolist()
    with joblib.parallel_config("advised", jobs=jobs):
        assert search.fit(x, y).cv_results_["mean_test_score"].tolist() == alone
    advised.flush()
    assert rows_of(Path(str(advised._path)))["forest"] == 4


# -- Dask -------------------------------------------------------------------------------------------------------------------


def test_jobs_run_on_the_workers_of_a_cluster_by_the_cores_that_they_offer(advised: Advised) -> None:
    distributed = pytest.importorskip("distributed", reason="NO DASK HERE: install the extra `dask` to run this")
    from advisor.adapters.dask import cluster_pool  # noqa: PLC0415

    options = {"n_workers": 2, "threads_per_worker": 4, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**options) as bare,
        distributed.Client(bare) as client,
        pytest.raises(InvalidValue, match="--resources"),
    ):
        cluster_pool(client, advised)
    with (
        distributed.LocalCluster(resources={"cores": 4}, **options) as cluster,
        distributed.Client(cluster) as client,
        cluster_pool(client, advised) as pool,
    ):
        assert pool.cores == 8
        job = Job("cube", predictor=lambda n: n, allowed=[1, 2, 4, 8], cores_as="cores")
        found = [pool.submit_job(job, cube, n) for n in range(1, 13)]
        assert [each.result()[0] for each in found] == [n**3 for n in range(1, 13)]
        assert {each.result()[1] for each in found} <= {1, 2, 4}
        failed = pool.submit_job(Job("fails"), fails, 1)
        assert isinstance(failed.exception(), LookupError)
    advised.flush()
    assert rows_of(Path(str(advised._path)))["cube"] == 12


def cube(n: int, cores: int) -> tuple[int, int]:
    return n**3, cores


async def test_tasks_of_a_graph_have_annotated_cores_and_are_learned_with_them(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="NO DASK HERE: install the extra `dask` to run this")
    from advisor.adapters.dask import AdvisorPlugin, annotate_cores  # noqa: PLC0415

    async with (
        running(tmp_path) as live,
        distributed.Scheduler(protocol="inproc", dashboard=False, dashboard_address=":0") as scheduler,
        distributed.Worker(
            scheduler.address, nthreads=4, resources={"cores": 4}, dashboard=False, local_directory=str(tmp_path)
        ),
        distributed.Client(scheduler.address, asynchronous=True) as client,
    ):
        plugin = AdvisorPlugin(str(tmp_path / "s"))
        await plugin.start(scheduler)
        scheduler.add_plugin(plugin)
        assert plugin._client is not None
        chosen = await asyncio.to_thread(annotate_cores, plugin._client, "pow", tasks=1, cores=4, allowed=[2, 4])
        with chosen:
            futures = client.map(pow, range(10), [2] * 10, pure=False)
        assert sum(await client.gather(futures)) == 285
        plugin.send_rows()
        await asyncio.to_thread(plugin._client.flush, 60.0)
        (status,) = (await (await live.peer()).call("status", {"components": ["pow"]}))["components"]
        assert status["rows"] == 10
        assert set(status["cores_range"]) <= {2.0, 4.0}
