"""The forms for joblib and `concurrent.futures`: so many workers as advised, and no more."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from thread_pools import Found, Pool, elsewhere, use

from advisor.adapters.threads import Advised
from advisor.adapters.threads.deciding import Deciding
from advisor.adapters.threads.grants import Grants
from advisor.adapters.threads.waiting import WorkerClock


def test_joblib_runs_on_the_cores_that_are_advised(advised: Advised) -> None:
    joblib = pytest.importorskip("joblib")
    squares = advised.parallel("squares", backend="threading")
    for _ in range(4):
        assert squares(joblib.delayed(pow)(n, 2) for n in range(10)) == [n * n for n in range(10)]


def test_an_executor_runs_what_it_is_given(advised: Advised) -> None:
    with advised.executor("task", predictor=lambda n, _two: n) as executor:
        futures = [executor.submit(pow, n, 2) for n in range(100)]
        failed = executor.submit(pow, 1, "two")
        assert [future.result() for future in futures] == [n * n for n in range(100)]
        with pytest.raises(TypeError):
            failed.result()
    with pytest.raises(RuntimeError):
        executor.submit(pow, 1, 2)


class ByHand(Executor):
    """Workers that begin when the test says so."""

    def __init__(self, grants: Grants) -> None:
        self.given: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self.more_than_granted: list[int] = []
        self._grants = grants

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.given.append((Future(), lambda: fn(*args, **kwargs)))
        self.more_than_granted.append(len(self.given) - sum(grant.cores for grant in self._grants._roots))
        return self.given[-1][0]

    def run(self) -> None:
        future, call = self.given.popleft()
        future.set_result(call())


@pytest.mark.parametrize("numbers", [(4, 1, 3, 2), (1, 4), (2,)])
def test_an_executor_runs_no_more_at_once_than_advised(
    numbers: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the number falls from one stretch to the next, while tasks of the one before still run."""
    advice = itertools.cycle(numbers)
    monkeypatch.setattr(Deciding, "cores", lambda *_: next(advice))
    inner = ByHand(use(monkeypatch, Found(Pool("blas", 7))))
    executor = Advised(path=tmp_path / "t.state", load=lambda: 0.0).executor("task", cores_max=4, executor=inner)
    futures = [executor.submit(pow, n, 2) for n in range(200)]
    while inner.given:
        inner.run()
    executor.shutdown()
    assert [future.result() for future in futures] == [n * n for n in range(200)]
    assert max(inner.more_than_granted) == 0


def test_tasks_that_wait_hold_no_core(tmp_path: Path) -> None:
    """As many wait for one another as would never meet on the cores alone."""
    meeting = threading.Barrier(200)
    with Advised(path=tmp_path / "t.state", load=lambda: 0.0).executor("meet") as executor:
        found = [executor.submit(meeting.wait, 60.0) for _ in range(200)]
        assert sorted(each.result() for each in found) == list(range(200))


def test_the_start_of_a_worker_is_not_computing() -> None:
    def burn(seconds: float) -> None:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    def works() -> list[tuple[float, float]]:
        worker = WorkerClock()
        burn(0.02)
        seen = [worker.had()]
        worker.begin_task()
        burn(0.01)
        worker.end_task()
        burn(0.01)
        return [*seen, worker.had()]

    (before, after) = elsewhere(works)
    assert before == (0.0, 0.0)
    assert after[0] >= 0.02 > after[1] >= 0.01


def test_tasks_that_are_cancelled_do_not_run(advised: Advised) -> None:
    gate = threading.Event()
    executor = advised.executor("task", cores_max=1)
    first = executor.submit(gate.wait)
    others = [executor.submit(pow, n, 2) for n in range(5)]
    assert others[0].cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert first.result()
    assert all(other.cancelled() for other in others)
